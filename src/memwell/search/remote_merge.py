"""Passages from another store, placed among those of the index. A pure function.

No leg of ours knows such a passage, and the other store knows none of ours, so there is nothing
to add up. What both have is their relevance, the scale that means the same everywhere: each
passage comes before the first of ours that is less relevant, and neither order is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memwell.model import Hit, Leg, LegScore
from memwell.search.retrieve import Candidate

REMOTE = "remote"

RemoteResult = tuple[Sequence[Hit], Leg | None]
"""Passages, best first, and how asking went; no leg where nobody was asked."""
RemoteSearch = Callable[[str, int], Callable[[], RemoteResult]]
"""Begins to ask for the best so many passages for a text; what it returns waits for them."""


def no_remote(text: str, limit: int) -> Callable[[], RemoteResult]:
    """An `Elsewhere` for a memory that knows no other store."""
    return lambda: ((), None)


def candidates(hits: Sequence[Hit]) -> list[Candidate]:
    """Return what was found elsewhere as candidates; no chunk has their ids."""
    return [
        Candidate(-rank, hit.relevance, hit.relevance, hit=hit, own_parts=(_part(rank, hit),))
        for rank, hit in enumerate(hits, 1)
    ]


def _part(rank: int, hit: Hit) -> LegScore:
    return LegScore(REMOTE, rank, hit.relevance, hit.relevance, 1.0, hit.relevance)


def interleave(ours: Sequence[Candidate], theirs: Sequence[Candidate]) -> list[Candidate]:
    """Return both in one order."""
    merged, waiting = [], [*theirs]
    for own in ours:
        while waiting and waiting[0].relevance > own.relevance:
            merged.append(waiting.pop(0))
        merged.append(own)
    return [*merged, *waiting]
