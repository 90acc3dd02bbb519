"""Rows of workspaces, notes and chunks in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from memwell.model import Chunk, Note
from memwell.store.contract.index import Notes
from memwell.store.contract.values import (
    FACT_RECIPE,
    FACT_WORKSPACE,
    SUPERSEDED_PREFIX,
    IndexedFile,
    SourceFile,
)
from memwell.store.postgres.posting_changes import PostingChanges
from memwell.store.postgres.session import Session
from memwell.store.postgres.spaces import reuse_old_vectors
from memwell.store.postgres.sql import delete_sql, insert_sql, of_agent, update_sql
from memwell.store.postgres.statistics import analyse_grown
from memwell.store.rows import changed_words, match_chunks
from memwell.store.words.normalise import WordRow

_MOST_AHEAD = 500
"""Ids that a transaction takes at once: unused ones are lost."""
_AT_ONCE = 500
"""Notes that one statement deletes or indexes again: a statement has a time limit."""


WORKSPACES = (
    "SELECT owner, id, root, folder_id, synced_at FROM workspaces w"
    f" WHERE {of_agent('w')} ORDER BY root"
)


class PostgresNotes(Notes):
    """Reads and writes notes inside one transaction."""

    def __init__(self, session: Session, *, in_rows: bool = False) -> None:
        """`in_rows`: the database is not migrated yet, and has postings in rows."""
        self.session = self._session = session
        self._in_rows = in_rows
        self._words = PostingChanges(session, in_rows=in_rows)
        self._owners: dict[int, str] = {}
        self._ids: list[int] = []
        self._ids_used = 0

    # -- workspaces --------------------------------------------------------------------------------

    def workspace(self, root: str, folder_id: str | None = None) -> int:
        row = {"root": root, "folder_id": folder_id, "owner": owner_of(root)}
        key = self._session.value(
            f"""
            {insert_sql("workspaces AS w", row)} ON CONFLICT (tenant, agent, root)
                DO UPDATE SET folder_id = coalesce(excluded.folder_id, w.folder_id)
            RETURNING id
            """,
            **row,
        )
        return int(key)

    def workspace_id(self, root: str) -> int | None:
        found: int | None = self._session.value(
            f"SELECT id FROM workspaces w WHERE {of_agent('w')} AND w.root = %(root)s", root=root
        )
        return found

    def workspaces(self) -> list[tuple[int, str, str | None, str | None]]:
        return [(*row,) for owner, *row in self._workspace_rows() if not owner]

    def fact_workspaces(self) -> dict[str, int]:
        return {root: key for owner, key, root, *_ in self._workspace_rows() if owner}

    def _workspace_rows(self) -> list[Any]:
        """Return owner, id, root, folder id and last sync of all; a reader asks for them once."""
        return self._session.rows(WORKSPACES)

    def move_workspace(self, workspace_id: int, root: str) -> None:
        self._session.run(update_sql("workspaces", ("root",)), root=root, id=workspace_id)

    def remove_workspace(self, workspace_id: int) -> None:
        self.delete([stamp.note_id for stamp in self.indexed_files(workspace_id).values()])
        self._session.run(delete_sql("workspaces", "t.id = %(id)s"), id=workspace_id)

    def mark_synced(self, workspace_id: int, at: str) -> None:
        self._session.run(update_sql("workspaces", ("synced_at",)), synced_at=at, id=workspace_id)
        analyse_grown(self._session)

    def facts_revision(self, root: str) -> int:
        revisions = {name: synced for owner, _, name, _, synced in self._workspace_rows() if owner}
        return int(revisions.get(root) or 0)

    def set_facts_revision(self, roots: Iterable[str], revision: int) -> None:
        self._session.run(
            f"UPDATE workspaces w SET synced_at = %(at)s WHERE {of_agent('w')}"
            " AND w.root = ANY(%(roots)s)",
            at=str(revision),
            roots=[*roots],
        )

    def find_facts(self, ids: Iterable[str]) -> list[tuple[int, str, str]]:
        return self._session.rows(
            f"""
            SELECT n.id, n.path, w.root FROM workspaces w
            JOIN notes n ON {of_agent("n")} AND n.workspace_id = w.id
            WHERE {of_agent("w")} AND w.owner != '' AND n.path = ANY(%(ids)s)
            """,
            ids=[*dict.fromkeys(ids)],
        )

    # -- notes -------------------------------------------------------------------------------------

    def counts(self, workspace_id: int) -> tuple[int, int]:
        notes, chunks = self._session.row(
            f"""
            SELECT count(DISTINCT n.id), count(c.id) FROM notes n
            LEFT JOIN chunks c ON {of_agent("c")} AND c.note_id = n.id
            WHERE {of_agent("n")} AND n.workspace_id = %(id)s
            """,
            id=workspace_id,
        )
        return notes, chunks

    def indexed_files(self, workspace_id: int) -> dict[str, IndexedFile]:
        rows = self._session.rows(
            f"SELECT path, size, mtime_ns, read_ns, hash, recipe, id FROM notes n"
            f" WHERE {of_agent('n')} AND n.workspace_id = %(id)s",
            id=workspace_id,
        )
        return {row[0]: IndexedFile(*row) for row in rows}

    def restamp(self, files: Iterable[tuple[int, SourceFile]]) -> None:
        for note_id, file in files:
            stamp = {"size": file.size, "mtime_ns": file.mtime_ns, "read_ns": file.read_ns}
            self._session.run(update_sql("notes", stamp), id=note_id, **stamp)

    def put(
        self, workspace_id: int, file: SourceFile, note: Note, *, moved_from: int | None = None
    ) -> tuple[int, int]:
        owner = self._owner(workspace_id)
        old_id, old_hash = self._find_note(workspace_id, file.path, moved_from)
        before = self._word_rows([old_id]) if old_id is not None else []
        note_id = self._put_row(workspace_id, file, note, old_id, owner)
        same_text = old_hash == file.hash
        ids = self._put_chunks(note_id, note.chunks, before, owner, same_text=same_text)
        removed, added = changed_words(before, ids, note, file.path)
        self._words.remove(removed, owner)
        self._words.add(added, owner)
        return note_id, len({*ids}.difference(row.chunk_id for row in before))

    def delete(self, note_ids: Sequence[int]) -> None:
        for start in range(0, len(note_ids), _AT_ONCE):
            ids = [*note_ids[start : start + _AT_ONCE]]
            owners: dict[str, list[int]] = {}
            statement = f"SELECT n.owner, n.id FROM notes n WHERE {of_agent('n')}"
            for owner, note_id in self._session.rows(
                f"{statement} AND n.id = ANY(%(ids)s)", ids=ids
            ):
                owners.setdefault(owner, []).append(note_id)
            for owner, notes in owners.items():
                self._words.remove(self._word_rows(notes), owner)
            self._session.run(delete_sql("notes", "t.id = ANY(%(ids)s)"), ids=ids)

    def flush(self) -> None:
        """Write the gathered changes to postings, before the transaction ends."""
        self._words.write()

    def rebuild_words(self) -> None:
        """Rebuild the keyword index from the chunks."""
        lists = () if self._in_rows else ("posting_lists",)
        for table in ("postings", *lists, "vocabulary", "chunk_texts"):
            self._session.run(delete_sql(table))
        no_blocks = "" if self._in_rows else ", blocks = '{}', last_block_chunks = 0"
        self._session.run(
            f"UPDATE indexes i SET chunks = 0, tokens = 0{no_blocks} WHERE {of_agent('i')}"
        )
        statement = f"SELECT n.id, n.owner FROM notes n WHERE {of_agent('n')} ORDER BY n.id"
        for number, (note_id, owner) in enumerate(self._session.rows(statement), 1):
            self._words.add(self._word_rows([note_id]), owner)
            if number % _AT_ONCE == 0:
                self._words.write()
        self._words.write()

    def note_id(self, workspace_id: int, path: str) -> int | None:
        return self._find_note(workspace_id, path, None)[0]

    def chunk_ids(self, note_id: int) -> list[int]:
        rows = self._session.rows(
            f"SELECT c.id FROM chunks c WHERE {of_agent('c')} AND c.note_id = %(id)s"
            " ORDER BY c.seq",
            id=note_id,
        )
        return [chunk_id for (chunk_id,) in rows]

    # -- rows --------------------------------------------------------------------------------------

    def _owner(self, workspace_id: int) -> str:
        if workspace_id not in self._owners:
            statement = f"SELECT owner FROM workspaces w WHERE {of_agent('w')} AND w.id = %(id)s"
            self._owners[workspace_id] = self._session.value(statement, id=workspace_id)
        return self._owners[workspace_id]

    def _find_note(
        self, workspace_id: int, path: str, moved_from: int | None
    ) -> tuple[int | None, str | None]:
        """Return id and hash of the note at a path, else of the one that moved there."""
        note = self._session.row(
            f"""
            SELECT n.id, n.hash FROM notes n WHERE {of_agent("n")}
                AND n.workspace_id = %(workspace)s AND n.path = %(path)s
            """,
            workspace=workspace_id,
            path=path,
        )
        if note is None and moved_from is not None:
            statement = f"SELECT n.id, n.hash FROM notes n WHERE {of_agent('n')} AND n.id = %(id)s"
            note = self._session.row(statement, id=moved_from)
        return note or (None, None)

    def _word_rows(self, note_ids: Sequence[int]) -> list[WordRow]:
        rows = self._session.rows(
            f"""
            SELECT c.id, c.text, c.heading, n.names, n.path
            FROM notes n JOIN chunks c ON {of_agent("c")} AND c.note_id = n.id
            WHERE {of_agent("n")} AND n.id = ANY(%(ids)s) ORDER BY c.seq
            """,
            ids=[*note_ids],
        )
        return [WordRow(*row) for row in rows]

    def _put_row(
        self, workspace_id: int, file: SourceFile, note: Note, old_id: int | None, owner: str
    ) -> int:
        validity = note.meta if file.recipe == FACT_RECIPE else {}
        row: dict[str, Any] = {
            **asdict(file),
            "workspace_id": workspace_id,
            "title": note.title,
            "names": "\n".join(note.names),
            "date": note.date,
            "meta": json.dumps(note.meta, ensure_ascii=False),
            "tags": sorted({tag.casefold() for tag in note.tags}),
            "links": sorted({*note.links}),
            "held_from": validity.get("from"),
            "held_until": validity.get("until"),
            "owner": owner,
        }
        if old_id is None:
            (row["id"],) = self._new_ids(1)
            self._session.run(insert_sql("notes", row), **row)
            return int(row["id"])
        self._session.run(update_sql("notes", row), id=old_id, **row)
        return old_id

    def _put_chunks(
        self,
        note_id: int,
        chunks: Sequence[Chunk],
        before: Sequence[WordRow],
        owner: str,
        *,
        same_text: bool,
    ) -> list[int]:
        """Replace a note's chunks, keeping the id of each that is still there; return the ids.

        Where only the cuts are others, the vectors of those that go stand in for the new ones'.
        """
        same, gone = match_chunks(chunks, before)
        if before:
            self._session.run(
                f"UPDATE chunks c SET seq = -1 - seq WHERE {of_agent('c')} AND c.note_id = %(id)s",
                id=note_id,
            )
        fresh = iter(self._new_ids(sum(known is None for known in same)))
        ids = [next(fresh) if known is None else known for known in same]
        self._session.run(
            """
            INSERT INTO chunks (tenant, agent, note_id, owner, seq, id, start_line, end_line,
                                overlap, heading, text)
            SELECT %(tenant)s, %(agent)s, %(note_id)s, %(owner)s, row_number() OVER () - 1, *
            FROM unnest(%(ids)s::bigint[], %(starts)s::int[], %(ends)s::int[],
                        %(overlaps)s::int[], %(headings)s::text[], %(texts)s::text[])
            ON CONFLICT (tenant, agent, id) DO UPDATE SET seq = excluded.seq,
                start_line = excluded.start_line, end_line = excluded.end_line,
                overlap = excluded.overlap, owner = excluded.owner
            """,
            note_id=note_id,
            owner=owner,
            ids=ids,
            starts=[part.start_line for part in chunks],
            ends=[part.end_line for part in chunks],
            overlaps=[part.overlap for part in chunks],
            headings=["\n".join(part.heading) for part in chunks],
            texts=[part.text for part in chunks],
        )
        if gone:
            if same_text:
                reuse_old_vectors(self._session, note_id, gone)
            self._session.run(delete_sql("chunks", "t.id = ANY(%(ids)s)"), ids=gone)
        return ids

    def _new_ids(self, count: int) -> list[int]:
        """Return new ids, ascending; whoever writes many notes gets some ahead."""
        if len(self._ids) < count:
            rows = self._session.rows(
                "SELECT nextval('ids') FROM generate_series(1, %(count)s) WHERE %(tenant)s != ''",
                count=count + min(self._ids_used, _MOST_AHEAD),
            )
            self._ids += [key for (key,) in rows]
        self._ids_used += count
        taken, self._ids = self._ids[:count], self._ids[count:]
        return taken


def owner_of(root: str) -> str:
    """Return the owner of a workspace's rows: '' for notes, else the scope of the facts."""
    return (
        root.removeprefix(FACT_WORKSPACE).removeprefix(SUPERSEDED_PREFIX)
        if root.startswith(FACT_WORKSPACE)
        else ""
    )
