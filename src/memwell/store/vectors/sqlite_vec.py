"""Vector search in plain SQL, by the functions of sqlite-vec: slower, but without a snapshot file.

It finds the same chunks as the scan in scan.py.
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
    """Finds vectors by one SQL statement. It has no copy that could be compacted or dropped."""

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
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
