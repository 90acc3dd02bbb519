"""The arrays of an index's words, kept by a process from one search to the next.

They belong to one state of the keyword index, and are read when a second search asks for that
state: a process may search only once, and a large index may change before each search. Then FTS5
ranks, which takes no longer than reading the arrays. If only a few chunks were added since, as when
a fact is remembered, the arrays are not read again: they are extended.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import apsw

from memwell.store.sqlite import fts
from memwell.store.sqlite.database import Database

if TYPE_CHECKING:
    from memwell.store.sqlite.word_arrays import WordArrays

_QUICKLY_READ = 20_000
"""Chunks of which the arrays are read faster than FTS5 ranks, so that a change costs nothing."""


_State = tuple[Hashable, fts.Revision]


class Postings:
    """The arrays of one index; the threads of a process share them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: tuple[_State, WordArrays] | None = None
        self._is_quick = False
        self._asked_for: _State | None = None

    def arrays(self, connection: apsw.Connection) -> WordArrays | None:
        """Return the arrays of the state that a connection reads; None if FTS5 should rank."""
        state = self._database.generation, fts.revision(connection)
        kept = self._kept
        if kept and kept[0] == state:
            return kept[1]
        if arrays := self._extended(state, connection):
            self._kept = state, arrays
            return arrays
        self._kept = None  # what was deleted since is not kept any longer
        if state != self._asked_for and not self._is_quick:
            self._asked_for = state
            return None
        from memwell.store.sqlite.word_arrays import read_arrays

        arrays = read_arrays(connection)
        self._kept, self._is_quick = (state, arrays), len(arrays.chunks) <= _QUICKLY_READ
        return arrays

    def _extended(self, state: _State, connection: apsw.Connection) -> WordArrays | None:
        """Return the arrays with the chunks that were added since; None if others changed."""
        if self._kept is None:
            return None
        (generation, before), arrays = self._kept
        now, revision = state
        if now != generation or not revision.has_only_additions_since(before):
            return None
        return arrays.extended(connection, revision.rows)
