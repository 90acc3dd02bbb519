"""What an index holds, listed: for those who look around in it instead of searching."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memwell.model import Chunk
from memwell.store.index import Index
from memwell.store.notes import FACTS

if TYPE_CHECKING:
    from memwell.store.snapshot import Array


@dataclass(frozen=True, slots=True)
class ListedNote:
    """A note as the index knows it."""

    path: str
    workspace: str
    title: str
    date: str | None
    tags: tuple[str, ...]
    chunks: int


@dataclass(frozen=True, slots=True)
class Spot:
    """A passage that has a vector."""

    path: str
    workspace: str
    start_line: int
    end_line: int
    title: str
    kind: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What the index holds of some workspaces, of notes and of facts."""

    index: Index
    roots: Sequence[str]

    def notes(self, path: str | None = None) -> list[ListedNote]:
        """Return the notes (of a path), the newest first, those without a date last."""
        rows = self._rows(_NOTES, {"path": path})
        return [
            ListedNote(path, root, title, date, tuple(json.loads(tags)), chunks)
            for path, root, title, date, tags, chunks in rows
        ]

    def chunks(self, path: str, workspace: str) -> list[Chunk]:
        """Return the passages of a note, in order; none of a note that is not there."""
        return [
            Chunk(text, start, end, tuple(filter(None, heading.split("\n"))), overlap)
            for text, start, end, heading, overlap in self._rows(
                _CHUNKS, {"path": path, "workspace": workspace}
            )
        ]

    def landscape(self, most: int) -> tuple[list[Spot], Array]:
        """Return passages with their vectors in the space that answers, evenly spread over it."""
        import numpy as np

        with self.index.reading() as reader:
            space = reader.spaces.live()
            step = -(-reader.total // most) or 1
        if space is None:
            return [], np.zeros((0, 2), dtype=np.float32)
        rows = self._rows(_LANDSCAPE, {"space": space.id, "step": step})
        spots = [
            Spot(path, root, start, end, title, "fact" if root.startswith(FACTS) else "note")
            for path, root, start, end, title, *_ in rows
        ]
        vectors = np.frombuffer(b"".join(row[5] for row in rows), dtype="<f4")
        return spots, vectors.reshape(-1, space.dimensions)

    def _rows(self, statement: str, values: dict[str, Any]) -> list[Any]:
        bound = {"roots": json.dumps([*self.roots]), "facts": f"{FACTS}*", **values}
        with self.index.reading() as reader:
            return reader.notes.connection.execute(_VISIBLE + statement, bound).fetchall()


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

_CHUNKS = """
    SELECT c.text, c.start_line, c.end_line, c.heading, c.overlap
    FROM chunks c JOIN notes n ON n.id = c.note_id JOIN visible w ON w.id = n.workspace_id
    WHERE n.path = :path AND w.root = :workspace ORDER BY c.seq
"""

_LANDSCAPE = """
    SELECT n.path, w.root, c.start_line, c.end_line,
           coalesce(nullif(n.title, ''), substr(c.text, 1, 80)), v.vector
    FROM visible w JOIN notes n ON n.workspace_id = w.id JOIN chunks c ON c.note_id = n.id
    JOIN vectors v ON v.chunk_id = c.id AND v.space_id = :space AND v.window = 0
    WHERE v.vector != x'' AND c.id % :step = 0 ORDER BY w.root, n.path, c.seq
"""
