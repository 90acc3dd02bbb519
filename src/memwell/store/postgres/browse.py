"""Lists of the notes and chunks in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memwell.model import Chunk
from memwell.store.contract.index import NoteListing
from memwell.store.contract.values import ExportedNote, LinkedNote, ListedNote, MapPoint
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import of_agent
from memwell.store.rows import to_chunk, to_exported_note, to_linked_note, to_map_point

if TYPE_CHECKING:
    from memwell.store.contract.values import Space


class PostgresNoteListing(NoteListing):
    """Lists the notes and chunks of workspaces, inside one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def notes(self, roots: Sequence[str], path: str | None) -> list[ListedNote]:
        rows = self._session.rows(
            f"""
            SELECT n.path, w.root, n.title, n.date, n.tags, count(c.id) FROM {_VISIBLE}
            LEFT JOIN chunks c ON {of_agent("c")} AND c.note_id = n.id
            WHERE {of_agent("w")} AND w.root = ANY(%(roots)s) AND w.owner = ''
                AND (%(path)s::text IS NULL OR n.path = %(path)s)
            GROUP BY n.path, w.root, n.title, n.date, n.tags
            ORDER BY n.date DESC NULLS LAST, n.path
            """,
            roots=[*roots],
            path=path,
        )
        return [
            ListedNote(path, root, title, date, tuple(tags), chunks)
            for path, root, title, date, tags, chunks in rows
        ]

    def chunks(self, roots: Sequence[str], path: str, workspace: str) -> list[Chunk]:
        rows = self._session.rows(
            f"""
            SELECT c.text, c.start_line, c.end_line, c.heading, c.overlap FROM {_VISIBLE}
            JOIN chunks c ON {of_agent("c")} AND c.note_id = n.id
            WHERE {of_agent("w")} AND w.root = ANY(%(roots)s) AND w.root = %(workspace)s
                AND n.path = %(path)s
            ORDER BY c.seq
            """,
            roots=[*roots],
            path=path,
            workspace=workspace,
        )
        return [to_chunk(row) for row in rows]

    def linked_notes(self, roots: Sequence[str]) -> list[LinkedNote]:
        rows = self._session.rows(
            f"""
            SELECT n.path, w.root, n.names, n.tags, n.links FROM {_VISIBLE}
            WHERE {of_agent("w")} AND w.root = ANY(%(roots)s) AND w.owner = ''
            """,
            roots=[*roots],
        )
        return [to_linked_note(row) for row in rows]

    def sample_with_vectors(
        self, roots: Sequence[str], space: Space, step: int
    ) -> list[tuple[MapPoint, bytes]]:
        from memwell.store.postgres.spaces import to_vector

        rows = self._session.rows(
            f"""
            WITH numbered AS (
                SELECT c.id, row_number() OVER (ORDER BY c.id) AS number
                FROM {_VISIBLE} JOIN chunks c ON {of_agent("c")} AND c.note_id = n.id
                WHERE {of_agent("w")} AND w.root = ANY(%(roots)s)
            )
            SELECT n.path, w.root, c.start_line, c.end_line,
                   coalesce(nullif(n.title, ''), substr(c.text, 1, 80)), halfvec_send(v.vector)
            FROM numbered s JOIN chunks c ON {of_agent("c")} AND c.id = s.id
            JOIN notes n ON {of_agent("n")} AND n.id = c.note_id
            JOIN workspaces w ON {of_agent("w")} AND w.id = n.workspace_id
            JOIN vectors v ON {of_agent("v")} AND v.chunk_id = c.id
                AND v.space_id = %(space)s AND v.window_number = 0
            WHERE v.vector IS NOT NULL AND s.number %% %(step)s = 0
            ORDER BY w.root, n.path, c.seq
            """,
            roots=[*roots],
            space=space.id,
            step=step,
        )
        return [(to_map_point(row[:-1]), to_vector(row[-1]).tobytes()) for row in rows]

    def export(self, after: int, limit: int) -> list[ExportedNote]:
        rows = self._session.rows(
            f"""
            SELECT n.id, w.root, n.path, n.size, n.mtime_ns, n.read_ns, n.hash, n.recipe,
                   n.title, n.names, n.date, n.meta, n.tags, n.links
            FROM notes n JOIN workspaces w ON {of_agent("w")} AND w.id = n.workspace_id
            WHERE {of_agent("n")} AND n.id > %(after)s ORDER BY n.id LIMIT %(limit)s
            """,
            after=after,
            limit=limit,
        )
        parts = self._session.rows(
            f"""
            SELECT c.note_id, c.id, c.text, c.start_line, c.end_line, c.heading, c.overlap
            FROM chunks c WHERE {of_agent("c")} AND c.note_id = ANY(%(notes)s) ORDER BY c.seq
            """,
            notes=[row[0] for row in rows],
        )
        chunks: dict[int, list[Sequence[Any]]] = {row[0]: [] for row in rows}
        for note_id, *part in parts:
            chunks[note_id].append(part)
        return [to_exported_note(row, chunks[row[0]]) for row in rows]


_VISIBLE = f"workspaces w JOIN notes n ON {of_agent('n')} AND n.workspace_id = w.id"
