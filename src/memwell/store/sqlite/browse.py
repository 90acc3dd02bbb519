"""Lists of what index.db contains."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import apsw

from memwell.model import Chunk
from memwell.store.contract.index import NoteListing
from memwell.store.contract.values import (
    FACT_WORKSPACE,
    ExportedNote,
    LinkedNote,
    ListedNote,
    MapPoint,
)
from memwell.store.rows import to_chunk, to_exported_note, to_linked_note, to_map_point

if TYPE_CHECKING:
    from memwell.store.contract.values import Space
    from memwell.store.sqlite.reader import SqliteVectors


class SqliteNoteListing(NoteListing):
    """Lists notes and chunks over one connection."""

    def __init__(self, connection: apsw.Connection, vectors: SqliteVectors) -> None:
        self._connection = connection
        self._vectors = vectors

    def notes(self, roots: Sequence[str], path: str | None) -> list[ListedNote]:
        return [
            ListedNote(path, root, title, date, tuple(json.loads(tags)), chunks)
            for path, root, title, date, tags, chunks in self._rows(_NOTES, roots, path=path)
        ]

    def chunks(self, roots: Sequence[str], path: str, workspace: str) -> list[Chunk]:
        return [to_chunk(row) for row in self._rows(_CHUNKS, roots, path=path, workspace=workspace)]

    def linked_notes(self, roots: Sequence[str]) -> list[LinkedNote]:
        return [
            to_linked_note((*row, json.loads(tags), json.loads(links)))
            for *row, tags, links in self._rows(_LINKED, roots)
        ]

    def sample_with_vectors(
        self, roots: Sequence[str], space: Space, step: int
    ) -> list[tuple[MapPoint, bytes]]:
        rows = self._rows(_SAMPLE, roots, space=space.id, step=step)
        vectors = self._vectors.read(space, [(at, row[-1]) for at, row in enumerate(rows)])
        return [(to_map_point(rows[at][:-1]), vector) for at, vector in vectors]

    def export(self, after: int, limit: int) -> list[ExportedNote]:
        rows: Any = self._connection.execute(_EXPORT, (after, limit)).fetchall()
        return [
            to_exported_note(
                (*row, json.loads(tags), json.loads(links)),
                self._connection.execute(_EXPORT_CHUNKS, (row[0],)).fetchall(),
            )
            for *row, tags, links in rows
        ]

    def _rows(self, statement: str, roots: Sequence[str], **values: Any) -> list[Any]:
        bound = {"roots": json.dumps([*roots]), "facts": f"{FACT_WORKSPACE}*", **values}
        return self._connection.execute(_VISIBLE + statement, bound).fetchall()


_VISIBLE = """
    WITH visible AS (
        SELECT id, root FROM workspaces WHERE root IN (SELECT value FROM json_each(:roots))
    )
"""

_NOTES = """
    SELECT n.path, w.root, n.title, n.date,
           (SELECT json_group_array(tag) FROM tags WHERE note_id = n.id),
           (SELECT count(*) FROM chunks WHERE note_id = n.id)
    FROM notes n JOIN visible w ON w.id = n.workspace_id
    WHERE w.root NOT GLOB :facts AND (:path IS NULL OR n.path = :path)
    ORDER BY n.date DESC NULLS LAST, n.path
"""

_LINKED = """
    SELECT n.path, w.root, n.names,
           (SELECT json_group_array(tag) FROM tags WHERE note_id = n.id),
           (SELECT json_group_array(target) FROM links WHERE note_id = n.id)
    FROM notes n JOIN visible w ON w.id = n.workspace_id WHERE w.root NOT GLOB :facts
"""

_CHUNKS = """
    SELECT c.text, c.start_line, c.end_line, c.heading, c.overlap
    FROM chunks c JOIN notes n ON n.id = c.note_id JOIN visible w ON w.id = n.workspace_id
    WHERE n.path = :path AND w.root = :workspace ORDER BY c.seq
"""

# Visible chunks are counted: an id depends on how many chunks others have.
_SAMPLE = """
    , numbered AS (
        SELECT c.id, row_number() OVER (ORDER BY c.id) AS number
        FROM visible w JOIN notes n ON n.workspace_id = w.id JOIN chunks c ON c.note_id = n.id
    )
    SELECT n.path, w.root, c.start_line, c.end_line,
           coalesce(nullif(n.title, ''), substr(c.text, 1, 80)), v.vector
    FROM numbered s JOIN chunks c ON c.id = s.id JOIN notes n ON n.id = c.note_id
    JOIN visible w ON w.id = n.workspace_id
    JOIN vectors v ON v.chunk_id = c.id AND v.space_id = :space AND v.window = 0
    WHERE v.vector != x'' AND s.number % :step = 0 ORDER BY w.root, n.path, c.seq
"""

_EXPORT = """
    SELECT n.id, w.root, n.path, n.size, n.mtime_ns, n.read_ns, n.hash, n.recipe,
           n.title, n.names, n.date, n.meta,
           (SELECT json_group_array(tag) FROM tags WHERE note_id = n.id),
           (SELECT json_group_array(target) FROM links WHERE note_id = n.id)
    FROM notes n JOIN workspaces w ON w.id = n.workspace_id
    WHERE n.id > ? ORDER BY n.id LIMIT ?
"""

_EXPORT_CHUNKS = """
    SELECT id, text, start_line, end_line, heading, overlap FROM chunks
    WHERE note_id = ? ORDER BY seq
"""
