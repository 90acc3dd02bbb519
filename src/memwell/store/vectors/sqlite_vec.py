"""The meaning leg in plain SQL, by sqlite-vec's functions: no copy beside the index, and slower.

The same answers as the scan in vectors.py; for those who would rather have one file and SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from memwell.store.contract.query import Match
from memwell.store.contract.values import Space
from memwell.store.vectors.backend import Allowed
from memwell.store.vectors.scan import TableVectors

if TYPE_CHECKING:
    from memwell.store.contract.values import Array


class SqliteVecBackend(TableVectors):
    """Vectors that are found by one statement; there is nothing to compact or to drop."""

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
        """Return the chunks nearest to a query, best first; each is as near as its best window."""
        _load_functions(connection)
        condition, values = among.sql()
        rows = connection.execute(
            f"""
            SELECT v.chunk_id, max(1 - vec_distance_cosine(v.vector, ?)) AS cosine
            FROM vectors v JOIN chunks c ON c.id = v.chunk_id JOIN notes n ON n.id = c.note_id
            WHERE v.space_id = ? AND v.vector != x'' {condition}
            GROUP BY v.chunk_id ORDER BY cosine DESC, v.chunk_id LIMIT ?
            """,
            (query.astype("<f4").tobytes(), space.id, *values, limit),
        )
        return [Match(chunk_id, cosine) for chunk_id, cosine in rows]

    def compact(self, space: Space, *, even_if_little_changed: bool) -> None:
        """Do nothing: there is no copy."""

    def drop(self, space: Space) -> None:
        """Do nothing: there is no copy."""


def _load_functions(connection: apsw.Connection) -> None:
    try:
        connection.execute("SELECT vec_version()")
    except apsw.SQLError:
        import sqlite_vec

        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
