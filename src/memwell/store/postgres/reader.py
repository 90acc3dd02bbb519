"""One state of an index in PostgreSQL: what a search sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memwell.model import Context, Hit
from memwell.store.contract.index import Chunks, Reader
from memwell.store.contract.query import Filters, Neighbours, Place
from memwell.store.postgres.browse import PostgresNoteListing
from memwell.store.postgres.cooldowns import COOLDOWNS, PostgresCooldowns
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.keywords import (
    KEYWORD_STATE,
    OF_CHUNKS,
    PostgresKeywords,
    has_any,
)
from memwell.store.postgres.notes import WORKSPACES, PostgresNotes
from memwell.store.postgres.session import Session
from memwell.store.postgres.spaces import SPACES, PostgresSpaces, PostgresVectors
from memwell.store.postgres.sql import REVISION, Values, of_agent
from memwell.store.rows import HAS_POSITIONS, join_chunks, to_hit, to_neighbours

FIRST = (WORKSPACES, SPACES, COOLDOWNS, KEYWORD_STATE, REVISION)
"""The statements that most readers need."""


class PostgresReader(Reader):
    """The parts of one state, inside one transaction."""

    def __init__(self, session: Session) -> None:
        self.session = session
        keywords = PostgresKeywords(session)
        self.notes = PostgresNotes(session)
        self.chunks = PostgresChunks(session)
        self.keywords = keywords
        self.vectors = PostgresVectors(session, keywords)
        self.spaces = PostgresSpaces(session)
        self.cooldowns = PostgresCooldowns(session)
        self.listing = PostgresNoteListing(session)


_BESIDE = f"""
    ARRAY(
        SELECT unnest(ARRAY[o.id, length(o.text)]) FROM chunks o
        WHERE {of_agent("o")} AND o.note_id = c.note_id
            AND o.seq = ANY(ARRAY[c.seq - 1, c.seq + 1])
        ORDER BY o.seq
    )
"""
"""The chunks beside a chunk ``c``, each with its length; looked up one by one, however long the
note is."""


class PostgresChunks(Chunks):
    """Reads chunks inside one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._places: dict[int, Place] = {}

    def neighbours(self, chunk_ids: Sequence[int], shorter_than: float) -> dict[int, Neighbours]:
        rows = self._session.rows_in_binary(
            f"""
            SELECT c.id, n.path, n.date, c.seq, length(c.text), {_BESIDE}
            FROM {OF_CHUNKS} AND c.id = ANY(%(ids)s) ORDER BY c.id
            """,
            ids=[*chunk_ids],
        )
        # Whoever asks for the neighbours of chunks asks for the places of the same chunks next.
        self._places |= {row[0]: Place(*row[1:4]) for row in rows}
        groups = {
            chunk_id: to_neighbours(length, beside[::2], beside[1::2])
            for chunk_id, *_, length, beside in rows
            if beside
        }
        return {chunk: group for chunk, group in groups.items() if group.length < shorter_than}

    def places(self, chunk_ids: Sequence[int]) -> dict[int, Place]:
        if missing := [chunk_id for chunk_id in chunk_ids if chunk_id not in self._places]:
            rows = self._session.rows(
                f"SELECT c.id, n.path, n.date, c.seq FROM {OF_CHUNKS} AND c.id = ANY(%(ids)s)",
                ids=missing,
            )
            self._places |= {row[0]: Place(*row[1:]) for row in rows}
        return {
            chunk_id: self._places[chunk_id] for chunk_id in chunk_ids if chunk_id in self._places
        }

    def context(self, chunk_id: int, whole_section: bool) -> Context:
        reach = "o.heading = c.heading" if whole_section else "abs(o.seq - c.seq) <= 1"
        rows = self._session.rows(
            f"""
            SELECT o.seq, o.start_line, o.end_line, o.overlap, o.text
            FROM chunks c JOIN chunks o ON {of_agent("o")} AND o.note_id = c.note_id AND {reach}
            WHERE {of_agent("c")} AND c.id = %(id)s ORDER BY o.seq
            """,
            id=chunk_id,
        )
        return join_chunks(rows)

    def has_allowed(self, filters: Filters, chunk_ids: Sequence[int]) -> bool:
        return has_any(self._session, chunk_ids, values := Values(), filter_sql(filters, values))

    def list_filtered(self, filters: Filters, limit: int) -> list[int]:
        if not filters.selects_content:
            return []
        values = Values(limit=limit)
        rows = self._session.rows(
            f"""
            SELECT c.id FROM {OF_CHUNKS} {filter_sql(filters, values)}
            ORDER BY n.date DESC NULLS LAST, n.path, c.seq LIMIT %(limit)s
            """,
            **values,
        )
        return [chunk_id for (chunk_id,) in rows]

    def hits(self, matches: Sequence[tuple[int, float]]) -> Iterator[Hit]:
        rows = self._session.rows(
            f"""
            SELECT c.id, n.path, w.root, c.start_line, c.end_line, c.text, n.title, c.heading,
                   n.date, n.tags, n.held_until,
                   CASE WHEN starts_with(n.meta, %(positions)s) THEN n.meta END
            FROM chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id
            JOIN workspaces w ON {of_agent("w")} AND w.id = n.workspace_id
            WHERE {of_agent("c")} AND c.id = ANY(%(ids)s)
            """,
            ids=[chunk_id for chunk_id, _ in matches],
            positions=HAS_POSITIONS,
        )
        found = {chunk_id: row for chunk_id, *row in rows}
        return (to_hit(found[chunk_id], relevance) for chunk_id, relevance in matches)
