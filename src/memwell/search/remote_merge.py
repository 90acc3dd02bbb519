"""Hits of a remote store, interleaved with the candidates of the index. A pure function.

The legs cannot score a remote hit, and the remote store cannot score a chunk of the index, so there
are no scores to fuse. Both have a relevance, and its scale is the same everywhere: each remote hit
comes before the first candidate that is less relevant. Neither order changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memwell.model import Hit, Leg, LegScore
from memwell.search.retrieve import Candidate

REMOTE = "remote"

RemoteResult = tuple[Sequence[Hit], Leg | None]
"""Hits, best first, and the state of the remote search; None if there is no remote store."""
RemoteSearch = Callable[[str, int], Callable[[], RemoteResult]]
"""Starts a search for a text and a number of hits; returns a function that waits for them."""


def no_remote(text: str, limit: int) -> Callable[[], RemoteResult]:
    """A `RemoteSearch` for a memory without a remote store."""
    return lambda: ((), None)


def to_candidates(hits: Sequence[Hit]) -> list[Candidate]:
    """Return remote hits as candidates; their ids are negative, so no chunk has them."""
    return [
        Candidate(
            -rank, hit.relevance, hit.relevance, hit=hit, remote_parts=(_leg_score(rank, hit),)
        )
        for rank, hit in enumerate(hits, 1)
    ]


def _leg_score(rank: int, hit: Hit) -> LegScore:
    return LegScore(REMOTE, rank, hit.relevance, hit.relevance, 1.0, hit.relevance)


def interleave(local: Sequence[Candidate], remote: Sequence[Candidate]) -> list[Candidate]:
    """Return both lists in one order."""
    merged, waiting = [], [*remote]
    for candidate in local:
        while waiting and waiting[0].relevance > candidate.relevance:
            merged.append(waiting.pop(0))
        merged.append(candidate)
    return [*merged, *waiting]
