"""Vector search in plain SQL, by the functions of sqlite-vec: slower, but without a snapshot file.

It finds the same chunks as the scan in scan.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from memwell.store.contract.quantisation import quantise
from memwell.store.contract.query import Match, match_order
from memwell.store.contract.values import Space
from memwell.store.sqlite.spaces import SqliteSpaces
from memwell.store.vectors.backend import Allowed
from memwell.store.vectors.scan import TableVectors

if TYPE_CHECKING:
    from memwell.store.contract.values import Array

_MORE = 16
"""Chunks beyond twice those wanted: whole numbers of the query change the order a little."""


class SqliteVecBackend(TableVectors):
    """Finds vectors by one SQL statement. It has no copy that could be compacted or dropped."""

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
        """Find more chunks than are wanted by whole numbers, and compare those in full."""
        _load_functions(connection)
        condition, values = among.sql()
        found = connection.execute(
            f"""
            SELECT v.chunk_id, min(vec_distance_cosine(vec_int8(v.vector), vec_int8(?))) AS distance
            FROM vectors v JOIN chunks c ON c.id = v.chunk_id JOIN notes n ON n.id = c.note_id
            WHERE v.space_id = ? AND v.vector != x'' {condition}
            GROUP BY v.chunk_id ORDER BY distance, v.chunk_id LIMIT ?
            """,
            (quantise(query[None]).tobytes(), space.id, *values, 2 * limit + _MORE),
        )
        chunk_ids = [chunk_id for chunk_id, _ in found]
        rows = SqliteSpaces(connection).vectors_of(space, chunk_ids)
        matches = [Match(*pair) for pair in self.cosines(space, rows, query).items()]
        return sorted(matches, key=match_order)[:limit]

    def compact(self, space: Space, *, even_if_little_changed: bool) -> None:
        pass

    def drop(self, space: Space) -> None:
        pass


def _load_functions(connection: apsw.Connection) -> None:
    try:
        connection.execute("SELECT vec_version()")
    except apsw.SQLError:
        import sqlite_vec

        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
