"""Workspaces, notes and chunks in index.db."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import Any

import apsw

from memwell.model import Chunk, Context, Hit, Note
from memwell.store.contract.index import Chunks, Notes
from memwell.store.contract.query import Filters, Neighbours, Place
from memwell.store.contract.values import FACT_WORKSPACE, IndexedFile, SourceFile
from memwell.store.rows import (
    HAS_POSITIONS,
    changed_words,
    join_chunks,
    match_chunks,
    to_hit,
)
from memwell.store.sqlite import fts
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.keywords import count_common_words
from memwell.store.words.normalise import WordRow


class SqliteNotes(Notes):
    """Reads and writes notes over one connection."""

    def __init__(self, connection: apsw.Connection, *, with_words: bool = True) -> None:
        self.connection = connection
        self._with_words = with_words
        self._last_chunk: int | None = None

    def workspace(self, root: str, folder_id: str | None = None) -> int:
        known = self.workspace_id(root)
        if known is None:
            self.connection.execute("INSERT INTO workspaces (root) VALUES (?)", (root,))
            known = self.connection.last_insert_rowid()
        if folder_id:
            self.connection.execute(
                "UPDATE workspaces SET folder_id = ? WHERE id = ? AND folder_id IS NOT ?",
                (folder_id, known, folder_id),
            )
        return known

    def workspace_id(self, root: str) -> int | None:
        found = self.connection.execute("SELECT id FROM workspaces WHERE root = ?", (root,)).get
        return None if found is None else int(found)

    def workspaces(self) -> list[tuple[int, str, str | None, str | None]]:
        rows = self.connection.execute(
            "SELECT id, root, folder_id, synced_at FROM workspaces WHERE root NOT GLOB ?"
            " ORDER BY root",
            (f"{FACT_WORKSPACE}*",),
        )
        return [(int(key), root, folder, synced) for key, root, folder, synced in rows]

    def fact_workspaces(self) -> dict[str, int]:
        rows = self.connection.execute(
            "SELECT root, id FROM workspaces WHERE root GLOB ?", (f"{FACT_WORKSPACE}*",)
        )
        return {root: int(key) for root, key in rows}

    def move_workspace(self, workspace_id: int, root: str) -> None:
        self.connection.execute("UPDATE workspaces SET root = ? WHERE id = ?", (root, workspace_id))

    def remove_workspace(self, workspace_id: int) -> None:
        self.delete([file.note_id for file in self.indexed_files(workspace_id).values()])
        self.connection.execute("DELETE FROM workspaces WHERE id = ?", (workspace_id,))

    def mark_synced(self, workspace_id: int, at: str) -> None:
        self.connection.execute(
            "UPDATE workspaces SET synced_at = ? WHERE id = ?", (at, workspace_id)
        )
        if self._with_words:
            count_common_words(self.connection)

    def facts_revision(self, root: str) -> int:
        statement = "SELECT synced_at FROM workspaces WHERE root = ?"
        revision: Any = self.connection.execute(statement, (root,)).get
        return int(f"{revision or 0}")

    def set_facts_revision(self, roots: Iterable[str], revision: int) -> None:
        rows = [(str(revision), root) for root in roots]
        self.connection.executemany("UPDATE workspaces SET synced_at = ? WHERE root = ?", rows)

    def get_mark(self, key: str) -> str:
        found = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
        return str(found or "")

    def set_mark(self, key: str, value: str) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def find_facts(self, ids: Iterable[str]) -> list[tuple[int, str, str]]:
        rows: Any = self.connection.execute(
            """
            SELECT n.id, n.path, w.root FROM notes n JOIN workspaces w ON w.id = n.workspace_id
            WHERE w.root GLOB ? AND n.path IN (SELECT value FROM json_each(?))
            """,
            (f"{FACT_WORKSPACE}*", json.dumps([*dict.fromkeys(ids)])),
        ).fetchall()
        return [*rows]

    def counts(self, workspace_id: int) -> tuple[int, int]:
        row = self.connection.execute(
            """
            SELECT (SELECT count(*) FROM notes WHERE workspace_id = ?1),
                   (SELECT count(*) FROM chunks c JOIN notes n ON n.id = c.note_id
                    WHERE n.workspace_id = ?1)
            """,
            (workspace_id,),
        ).get
        return int(row[0]), int(row[1])

    def indexed_files(self, workspace_id: int) -> dict[str, IndexedFile]:
        rows = self.connection.execute(
            "SELECT path, size, mtime_ns, read_ns, hash, recipe, id FROM notes"
            " WHERE workspace_id = ?",
            (workspace_id,),
        )
        return {row[0]: IndexedFile(*row) for row in rows}

    def restamp(self, files: Iterable[tuple[int, SourceFile]]) -> None:
        self.connection.executemany(
            "UPDATE notes SET size = ?, mtime_ns = ?, read_ns = ? WHERE id = ?",
            ((file.size, file.mtime_ns, file.read_ns, note_id) for note_id, file in files),
        )

    def put(
        self, workspace_id: int, file: SourceFile, note: Note, *, moved_from: int | None = None
    ) -> tuple[int, int]:
        old_id = self.note_id(workspace_id, file.path)
        if old_id is None:
            old_id = moved_from
        before = self._clear(old_id) if old_id is not None else []
        same_text = self._hash(old_id) == file.hash
        note_id = self._put_row(workspace_id, file, note, old_id)
        ids = self._put_chunks(note_id, note.chunks, before, same_text=same_text)
        self._put_labels("tags (tag", note_id, {tag.casefold() for tag in note.tags})
        self._put_labels("links (target", note_id, set(note.links))
        self._index_words(*changed_words(before, ids, note, file.path))
        return note_id, len({*ids}.difference(row.chunk_id for row in before))

    def delete(self, note_ids: Sequence[int]) -> None:
        for note_id in note_ids:
            self._index_words(fts.word_rows(self.connection, note_id), [])
            self.connection.execute("DELETE FROM notes WHERE id = ?", (note_id,))

    def _hash(self, note_id: int | None) -> str | None:
        found = self.connection.execute("SELECT hash FROM notes WHERE id = ?", (note_id,)).get
        return None if found is None else str(found)

    def _put_row(self, workspace_id: int, file: SourceFile, note: Note, old_id: int | None) -> int:
        names, meta = "\n".join(note.names), json.dumps(note.meta, ensure_ascii=False)
        self.connection.execute(
            """
            INSERT INTO notes (id, workspace_id, path, size, mtime_ns, read_ns, hash, recipe,
                               title, names, date, meta)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET
                workspace_id = excluded.workspace_id, path = excluded.path, size = excluded.size,
                mtime_ns = excluded.mtime_ns, read_ns = excluded.read_ns, hash = excluded.hash,
                recipe = excluded.recipe, title = excluded.title, names = excluded.names,
                date = excluded.date, meta = excluded.meta
            """,
            (old_id, workspace_id, *astuple(file), note.title, names, note.date, meta),
        )
        return old_id if old_id is not None else self.connection.last_insert_rowid()

    def _clear(self, note_id: int) -> list[WordRow]:
        """Make room for a new version of a note; return the words of its old chunks."""
        self.connection.execute("DELETE FROM tags WHERE note_id = ?", (note_id,))
        self.connection.execute("DELETE FROM links WHERE note_id = ?", (note_id,))
        self.connection.execute("UPDATE chunks SET seq = -1 - seq WHERE note_id = ?", (note_id,))
        return fts.word_rows(self.connection, note_id)

    def _put_chunks(
        self, note_id: int, chunks: Sequence[Chunk], before: Sequence[WordRow], *, same_text: bool
    ) -> list[int]:
        """Replace a note's chunks and return the ids; unchanged chunks keep theirs.

        If only the chunk size changed, new chunks use the vectors of the old ones until they have
        their own.
        """
        same, gone = match_chunks(chunks, before)
        ids, kept, new = [], [], []
        for seq, (part, known) in enumerate(zip(chunks, same, strict=True)):
            position = (seq, part.start_line, part.end_line, part.overlap)
            if known is not None:
                ids.append(known)
                kept.append((*position, known))
            else:
                ids.append(self._new_chunk_id())
                new.append((*position, ids[-1], note_id, "\n".join(part.heading), part.text))
        self.connection.executemany(
            "UPDATE chunks SET seq = ?, start_line = ?, end_line = ?, overlap = ? WHERE id = ?",
            kept,
        )
        self.connection.executemany(
            "INSERT INTO chunks (seq, start_line, end_line, overlap, id, note_id, heading, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            new,
        )
        if same_text:
            from memwell.store.sqlite.spaces import reuse_old_vectors

            reuse_old_vectors(self.connection, note_id, gone)
        self.connection.executemany("DELETE FROM chunks WHERE id = ?", ((key,) for key in gone))
        return ids

    def _new_chunk_id(self) -> int:
        if self._last_chunk is None:
            last = "SELECT seq FROM sqlite_sequence WHERE name = 'chunks'"
            self._last_chunk = int(self.connection.execute(last).get or 0)
        self._last_chunk += 1
        return self._last_chunk

    def _put_labels(self, into: str, note_id: int, labels: set[str]) -> None:
        if labels:
            rows = ((label, note_id) for label in sorted(labels))
            self.connection.executemany(f"INSERT INTO {into}, note_id) VALUES (?, ?)", rows)

    def _index_words(self, removed: Sequence[WordRow], added: Sequence[WordRow]) -> None:
        if not self._with_words:
            fts.mark_stale(self.connection)
            return
        fts.remove(self.connection, removed)
        fts.add(self.connection, added)

    def chunk_ids(self, note_id: int) -> list[int]:
        rows = self.connection.execute(
            "SELECT id FROM chunks WHERE note_id = ? ORDER BY seq", (note_id,)
        )
        return [chunk_id for (chunk_id,) in rows]

    def note_id(self, workspace_id: int, path: str) -> int | None:
        found: int | None = self.connection.execute(
            "SELECT id FROM notes WHERE workspace_id = ? AND path = ?", (workspace_id, path)
        ).get
        return found


class SqliteChunks(Chunks):
    """Reads chunks over one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def neighbours(self, chunk_ids: Sequence[int], shorter_than: float) -> dict[int, Neighbours]:
        rows = self._connection.execute(
            """
            SELECT c.id, max(iif(o.seq < c.seq, o.id, NULL)), max(iif(o.seq > c.seq, o.id, NULL)),
                   avg(length(o.text)) AS length
            FROM chunks c JOIN chunks o
                ON o.note_id = c.note_id AND o.seq BETWEEN c.seq - 1 AND c.seq + 1
            WHERE c.id IN (SELECT value FROM json_each(?)) GROUP BY c.id
            HAVING length < ? AND count(*) > 1
            """,
            (json.dumps([*chunk_ids]), shorter_than),
        )
        return {
            chunk: Neighbours(tuple(filter(None, (before, after))), length)
            for chunk, before, after, length in rows
        }

    def places(self, chunk_ids: Sequence[int]) -> dict[int, Place]:
        rows = self._connection.execute(
            """
            SELECT c.id, n.path, n.date, c.seq FROM chunks c JOIN notes n ON n.id = c.note_id
            WHERE c.id IN (SELECT value FROM json_each(?))
            """,
            (json.dumps([*chunk_ids]),),
        )
        return {chunk_id: Place(path, date, seq) for chunk_id, path, date, seq in rows}

    def context(self, chunk_id: int, whole_section: bool) -> Context:
        reach = "o.heading = c.heading" if whole_section else "abs(o.seq - c.seq) <= 1"
        rows: list[Any] = self._connection.execute(
            f"""
            SELECT o.seq, o.start_line, o.end_line, o.overlap, o.text
            FROM chunks c JOIN chunks o ON o.note_id = c.note_id AND {reach}
            WHERE c.id = ? ORDER BY o.seq
            """,
            (chunk_id,),
        ).fetchall()
        return join_chunks(rows)

    def has_allowed(self, filters: Filters, chunk_ids: Sequence[int]) -> bool:
        condition, values = filter_sql(filters)
        found = self._connection.execute(
            f"""
            SELECT 1 FROM chunks c JOIN notes n ON n.id = c.note_id
            WHERE c.id IN (SELECT value FROM json_each(?)) {condition} LIMIT 1
            """,
            (json.dumps([*chunk_ids]), *values),
        ).get
        return found is not None

    def list_filtered(self, filters: Filters, limit: int) -> list[int]:
        if not filters.selects_content:
            return []
        condition, values = filter_sql(filters)
        rows = self._connection.execute(
            f"""
            SELECT c.id FROM chunks c JOIN notes n ON n.id = c.note_id WHERE 1 {condition}
            ORDER BY n.date DESC NULLS LAST, n.path, c.seq LIMIT ?
            """,
            (*values, limit),
        )
        return [chunk_id for (chunk_id,) in rows]

    def hits(self, matches: Sequence[tuple[int, float]]) -> Iterator[Hit]:
        ids = json.dumps([chunk_id for chunk_id, _ in matches])
        found = {row[0]: row[1:] for row in self._connection.execute(_HITS, (ids,))}
        for chunk_id, relevance in matches:
            *row, tags, until, meta = found[chunk_id]
            yield to_hit((*row, json.loads(tags), until, meta), relevance)


_HITS = f"""
    SELECT c.id, n.path, w.root, c.start_line, c.end_line, c.text, n.title, c.heading, n.date,
           (SELECT json_group_array(tag) FROM tags WHERE note_id = n.id), n.meta ->> 'until',
           CASE WHEN substr(n.meta, 1, {len(HAS_POSITIONS)}) = '{HAS_POSITIONS}' THEN n.meta END
    FROM chunks c JOIN notes n ON n.id = c.note_id JOIN workspaces w ON w.id = n.workspace_id
    WHERE c.id IN (SELECT value FROM json_each(?))
"""
