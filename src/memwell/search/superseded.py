"""A fact ranks before those that it superseded, if a search finds both. A pure function.

A question may match the old text better. The new fact answers it all the same, and so its logit
rises to that of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from memwell.search.retrieve import Candidate

FindSuccessors = Callable[[Sequence[str]], Mapping[str, str]]
"""Returns, for those of some paths that are superseded facts, the id of the next fact."""
_STEP = 1e-6
"""By how much the logit of a fact is above that of the one before it, at least."""


def raise_successors(candidates: Sequence[Candidate], successors: Mapping[str, str]) -> None:
    """Raise the score of each fact above the scores of the facts that it superseded."""
    best = {
        candidate.path: candidate
        for candidate in sorted(candidates, key=lambda candidate: candidate.order)
    }
    for old, value in [(old, best[old].value) for old in successors]:
        for steps, new in enumerate(_chain(old, successors), 1):
            lacking = value + steps * _STEP - best[new].value if new in best else 0.0
            if lacking > 0:
                decay = best[new].decay
                gain = decay.gain + lacking
                best[new].decay = decay._replace(why=f"it superseded {old}", gain=gain)


def _chain(fact: str, successors: Mapping[str, str]) -> Iterator[str]:
    """Yield the fact that superseded a fact, the one that superseded that one, and so on."""
    while fact in successors:
        fact = successors[fact]
        yield fact
