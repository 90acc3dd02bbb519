"""The meaning leg in plain SQL, by sqlite-vec's functions: no copy beside the index, and slower.

The same answers as the scan in vectors.py; for those who would rather have one file and SQL.
"""

from __future__ import annotations

import json

import apsw

from memwell.store.base import Match
from memwell.store.filters import filter_sql
from memwell.store.snapshot import Array
from memwell.store.spaces import Space
from memwell.store.vectors import Among


def nearest(
    connection: apsw.Connection, space: Space, query: Array, among: Among, limit: int
) -> list[Match]:
    """Return the chunks nearest to a query, best first; a chunk is as near as its best window."""
    _load_functions(connection)
    condition, values = filter_sql(among.filters)
    parameters: list[str | int | bytes] = [query.astype("<f4").tobytes(), space.id, *values]
    if among.chunks is not None:
        condition += " AND c.id IN (SELECT value FROM json_each(?))"
        parameters.append(json.dumps([*among.chunks]))
    if among.not_chunks:
        condition += " AND c.id NOT IN (SELECT value FROM json_each(?))"
        parameters.append(json.dumps([*among.not_chunks]))
    rows = connection.execute(
        f"""
        SELECT v.chunk_id, max(1 - vec_distance_cosine(v.vector, ?)) AS cosine
        FROM vectors v JOIN chunks c ON c.id = v.chunk_id JOIN notes n ON n.id = c.note_id
        WHERE v.space_id = ? AND v.vector != x'' {condition}
        GROUP BY v.chunk_id ORDER BY cosine DESC, v.chunk_id LIMIT ?
        """,
        (*parameters, limit),
    )
    return [Match(chunk_id, cosine) for chunk_id, cosine in rows]


def _load_functions(connection: apsw.Connection) -> None:
    try:
        connection.execute("SELECT vec_version()")
    except apsw.SQLError:
        import sqlite_vec

        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
