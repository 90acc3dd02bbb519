"""Which way of fusing finds a user's own cases best: fitted on one half, judged by the other.

The best of many settings looks better than it is on the cases it was chosen by. So the chosen one
is believed only if it is also better on cases that had no say in the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from memwell.config.fields import Value
from memwell.errors import MemwellError
from memwell.evaluate.cases import Case
from memwell.evaluate.compare import Difference, compare
from memwell.evaluate.dataset import Dataset, Question
from memwell.evaluate.report import FIRST, Evaluation, Ranking, Search, evaluate

Overrides = Mapping[str, Value]
"""Values of some settings, by their names."""
SearchEach = Callable[[Question, int, Sequence[Overrides]], Sequence[Ranking]]
"""The notes that a question finds with each of several settings."""

FEWEST_CASES, FEWEST_NOTES = 10, 4
"""With fewer, one query more or less decides."""
_DIGITS = 9
"""Averages that differ by less are the same but for rounding."""

FUSION, WORDS_WEIGHT = "search.fusion", "search.words_weight"
VECTOR_WEIGHT, TEXT_WEIGHT = "search.vector_weight", "search.text_weight"
NORMALISER = "search.normaliser"
_TAKES: Mapping[str, tuple[str, ...]] = {
    "standard": (WORDS_WEIGHT,),
    "rrf": (VECTOR_WEIGHT, TEXT_WEIGHT),
    "weighted": (VECTOR_WEIGHT, TEXT_WEIGHT, NORMALISER),
}
"""What is tuned of each way of fusing."""
_WEIGHTS = ((0.5, 0.5), (0.7, 0.3), (0.3, 0.7))
"""Of meaning and of words."""


# -- what is tried ---------------------------------------------------------------------------------


def grid() -> list[Overrides]:
    """Return the settings to try: few, since the best of many is the luckiest."""
    tried: list[Overrides] = [
        {FUSION: "standard", WORDS_WEIGHT: tenths / 10} for tenths in range(1, 9)
    ]
    weights = [{VECTOR_WEIGHT: meaning, TEXT_WEIGHT: words} for meaning, words in _WEIGHTS]
    tried += [{FUSION: "rrf", **weight} for weight in weights]
    tried += [{FUSION: "weighted", **weight, NORMALISER: "saturation"} for weight in weights]
    return tried


def candidates(held: Callable[[str], Value]) -> list[Overrides]:
    """Return what holds now, then the others; `held` gives the present value of a setting."""
    method = held(FUSION)
    present = {FUSION: method} | {name: held(name) for name in _TAKES[str(method)]}
    return [present, *(one for one in grid() if one != present)]


# -- the two halves --------------------------------------------------------------------------------


def halves(name: str, cases: Sequence[Case]) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Return the cases to fit and those held back, or say that there are too few."""
    notes = {note for case in cases for note in case.notes}
    if len(cases) < FEWEST_CASES or len(notes) < FEWEST_NOTES:
        raise MemwellError(
            f"{name} has {len(cases)} cases of {len(notes)} notes, too few to fit to some of them"
            " and judge by the others",
            f"Write at least {FEWEST_CASES} cases of at least {FEWEST_NOTES} notes",
        )
    fitting, held_back = split(cases)
    if not held_back:
        raise MemwellError(
            f"All {len(cases)} cases of {name} hang together by notes that they share, so none can"
            " be held back",
            "Add cases of other notes",
        )
    return fitting, held_back


def split(cases: Sequence[Case]) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Divide cases into two parts of about the same size; those of a note stay together.

    What was learnt of a note would help with its other queries, and look like more than it is.
    The paths alone decide, by a hash, so that the order of the file does not.
    """
    families = _families(case.notes for case in cases)
    sizes: dict[str, int] = {}
    for case in cases:
        family = families[case.notes[0]]
        sizes[family] = sizes.get(family, 0) + 1
    fitted: set[str] = set()
    counts = [0, 0]
    for family in sorted(sizes, key=lambda path: (_shuffle(path), path)):
        part = int(counts[1] < counts[0])
        counts[part] += sizes[family]
        fitted |= set() if part else {family}
    return (
        tuple(case for case in cases if families[case.notes[0]] in fitted),
        tuple(case for case in cases if families[case.notes[0]] not in fitted),
    )


def _families(together: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return for each note the first by name of all that some case ties it to."""
    members: dict[str, set[str]] = {}
    for notes in together:
        family = set(notes).union(*(members.get(note, ()) for note in notes))
        members.update(dict.fromkeys(family, family))
    return {note: min(family) for note, family in members.items()}


def _shuffle(path: str) -> bytes:
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest()


# -- fitting and judging ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Tuning:
    """What was tried, which was best, and what the cases held back say of it."""

    tried: Sequence[tuple[Overrides, Evaluation]]
    """Each with its figures on the cases to fit; the present settings first."""
    best: int
    """Which of them was best."""
    before: Evaluation
    after: Evaluation
    """Of the cases held back: with the present settings, and with the best ones."""

    @property
    def metric(self) -> str:
        """The figure that decides."""
        return f"mrr@{self.before.k}"

    @property
    def chosen(self) -> Overrides:
        """The settings that were best on the cases to fit."""
        return self.tried[self.best][0]

    @cached_property
    def difference(self) -> Difference:
        """By how much they are better on those held back."""
        return next(one for one in compare(self.before, self.after) if one.metric == self.metric)

    @property
    def better(self) -> bool:
        """Whether they are to be used from now on."""
        return round(self.difference.difference, _DIGITS) > 0


def tune(
    fitting: Dataset,
    held_back: Dataset,
    ways: Sequence[Overrides],
    ask: SearchEach,
    progress: Callable[[int, int], None] = lambda done, total: None,
    k: int = FIRST,
) -> Tuning:
    """Try settings, the present ones first, on one part; compare the best with those on another."""
    first, total = len(fitting.questions), len(fitting.questions) + len(held_back.questions)
    tried = _measure(fitting, ways, ask, lambda done: progress(done, total), k)
    best = _best(tried)
    judged = _measure(
        held_back, [ways[0], ways[best]], ask, lambda done: progress(first + done, total), k
    )
    return Tuning([*zip(ways, tried, strict=True)], best, *judged)


def _measure(
    dataset: Dataset,
    ways: Sequence[Overrides],
    ask: SearchEach,
    told: Callable[[int], None],
    k: int,
) -> list[Evaluation]:
    """Ask each question in every way at once, since embedding it is what takes long."""
    found: dict[str, Sequence[Ranking]] = {}
    for done, question in enumerate(dataset.questions, 1):
        found[question.id] = ask(question, k, ways)
        told(done)
    return [evaluate(dataset, _describe(found, way), k=k, depth=k) for way in range(len(ways))]


def _describe(found: Mapping[str, Sequence[Ranking]], way: int) -> Search:
    return lambda question, depth: found[question.id][way]


def _best(tried: Sequence[Evaluation]) -> int:
    """Return which is best: by reciprocal rank, by nDCG where that is the same, else the first."""

    def figures(way: int) -> tuple[float, ...]:
        one = tried[way]
        return tuple(round(one.overall[f"{name}@{one.k}"], _DIGITS) for name in ("mrr", "ndcg"))

    return max(range(len(tried)), key=figures)
