"""Which chunks get a vector next, without sorting all that wait for each thousand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memwell.store.contract.values import Space, WaitingChunk
    from memwell.store.sqlite.index import SqliteIndex

_SORTED = 50_000
"""Chunks that are sorted at a time. A million that wait are looked through twenty times."""


class WaitingQueue:
    """The chunks that one process embeds: those of the newest notes first."""

    def __init__(self, index: SqliteIndex) -> None:
        self._index = index
        self._ids: list[int] = []
        self._state: tuple[int, int] | None = None
        """The space that is filled, and the newest chunk, when the chunks were sorted."""

    def take(self, space: Space, limit: int) -> list[WaitingChunk]:
        """Return the next chunks; none if no chunk waits."""
        with self._index.reading() as reader:
            state = space.id, reader.spaces.newest_chunk()
            if state != self._state:
                self._ids, self._state = [], state
            while True:
                if is_sorted_now := not self._ids:
                    self._ids = reader.spaces.waiting_ids(space, _SORTED)
                taken, self._ids = self._ids[:limit], self._ids[limit:]
                chunks = reader.spaces.waiting_among(space, taken)
                if chunks or is_sorted_now:
                    return chunks
