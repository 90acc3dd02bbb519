"""One state of an index in PostgreSQL: what a search sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from memwell.model import Context, Hit
from memwell.store.contract.index import Chunks, Keywords, Reader
from memwell.store.contract.query import Filters, Match, Neighbours, Word, WordQuery
from memwell.store.postgres.bm25 import PostingsRunner
from memwell.store.postgres.browse import PostgresNoteListing
from memwell.store.postgres.cooldowns import PostgresCooldowns
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.notes import PostgresNotes
from memwell.store.postgres.postings import chunks_matching
from memwell.store.postgres.server import Session
from memwell.store.postgres.spaces import PostgresSpaces, PostgresVectors
from memwell.store.postgres.sql import Values, of_agent
from memwell.store.postgres.vocabulary import PostgresVocabulary
from memwell.store.rows import group_neighbours, join_chunks, surface_form, to_hit
from memwell.store.words.normalise import WORDS_VERSION
from memwell.store.words.query import excluded_condition, required_condition, unknown_words
from memwell.store.words.ranking import POOL, ideal_score, match_scores, rank_chunks

if TYPE_CHECKING:
    pass


class PostgresReader(Reader):
    """The parts of one state, inside one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def total(self) -> int:
        return self.keywords.known.total

    @cached_property
    def notes(self) -> PostgresNotes:
        return PostgresNotes(self._session)

    @cached_property
    def chunks(self) -> PostgresChunks:
        return PostgresChunks(self._session)

    @cached_property
    def keywords(self) -> PostgresKeywords:
        return PostgresKeywords(self._session)

    @cached_property
    def vectors(self) -> PostgresVectors:
        return PostgresVectors(self._session, self.keywords)

    @cached_property
    def spaces(self) -> PostgresSpaces:
        return PostgresSpaces(self._session)

    @cached_property
    def cooldowns(self) -> PostgresCooldowns:
        return PostgresCooldowns(self._session)

    @cached_property
    def listing(self) -> PostgresNoteListing:
        return PostgresNoteListing(self._session)


class PostgresKeywords(Keywords):
    """The keyword index in tables of postings."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.known = PostgresVocabulary(session)

    def restriction(self, query: WordQuery, values: Values) -> str:
        """Return the required and excluded words of a query as conditions on ``chunks c``."""
        required = required_condition(query, self.known)
        excluded = excluded_condition(query, self.known)
        sql = f" AND c.id IN ({chunks_matching(required, values)})" if required else ""
        return sql + (f" AND c.id NOT IN ({chunks_matching(excluded, values)})" if excluded else "")

    def problem(self) -> str:
        built = self._session.value(f"SELECT words_version FROM indexes i WHERE {of_agent('i')}")
        return "" if built in (None, WORDS_VERSION) else "the keyword index is out of date"

    def search(self, query: WordQuery, limit: int) -> list[Match]:
        self.known.prepare(query)
        runner = PostingsRunner(self._session, self.known, query, max(limit, POOL))
        return rank_chunks(runner, self.known, query, limit)

    def scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        self.known.prepare(query)
        runner = PostingsRunner(self._session, self.known, query, len(chunk_ids), chunk_ids)
        return match_scores(runner, self.known, query)

    def ideal_score(self, query: WordQuery) -> float:
        self.known.prepare(query)
        return ideal_score(self.known, query)

    def tokens(self, text: str) -> list[tuple[str, str]]:
        return self.known.tokens(text)

    def document_frequency(self, token: str) -> int:
        return self.known.document_frequency(token)

    def unknown_words(self, words: Iterable[Word]) -> list[str]:
        return unknown_words(words, self.known)

    def vocabulary(self, shortest: int, longest: int) -> Iterator[tuple[str, int]]:
        rows = self._session.rows(
            f"SELECT w.token, w.document_frequency FROM vocabulary w WHERE {of_agent('w')}"
            " AND length(w.token) BETWEEN %(shortest)s AND %(longest)s",
            shortest=shortest,
            longest=longest,
        )
        return iter(rows)

    def surface_form(self, token: str, like: str, filters: Filters) -> str | None:
        values = Values(token=token)
        found = self._session.value(
            f"""
            SELECT c.text || ' ' || c.heading || ' ' || n.names || ' ' || n.path
            FROM postings p JOIN chunks c ON {of_agent("c")} AND c.id = p.chunk_id
            JOIN notes n ON {of_agent("n")} AND n.id = c.note_id
            WHERE {of_agent("p")} AND p.token = %(token)s {filter_sql(filters, values)}
            ORDER BY p.chunk_id LIMIT 1
            """,
            **values,
        )
        return None if found is None else surface_form(token, like, found, self.tokens)

    def has_matching(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        return _has_any(
            self._session, chunk_ids, values := Values(), self.restriction(query, values)
        )


class PostgresChunks(Chunks):
    """Reads chunks inside one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def neighbours(self, chunk_ids: Sequence[int], shorter_than: float) -> dict[int, Neighbours]:
        rows = self._session.rows(
            f"""
            SELECT c.id, o.id, length(c.text), length(o.text)
            FROM chunks c CROSS JOIN LATERAL (
                SELECT o.id, o.seq, o.text FROM chunks o
                WHERE {of_agent("o")} AND o.note_id = c.note_id
                    AND o.seq = ANY(ARRAY[c.seq - 1, c.seq + 1])
                OFFSET 0  -- looked up one by one, however long the note is
            ) AS o
            WHERE {of_agent("c")} AND c.id = ANY(%(ids)s) ORDER BY c.id, o.seq
            """,
            ids=[*chunk_ids],
        )
        return group_neighbours(rows, shorter_than)

    def note_dates(self, chunk_ids: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        rows = self._session.rows(
            f"SELECT c.id, n.path, n.date FROM {_OF_CHUNKS} AND c.id = ANY(%(ids)s)",
            ids=[*chunk_ids],
        )
        return {chunk_id: (path, date) for chunk_id, path, date in rows}

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
        return _has_any(self._session, chunk_ids, values := Values(), filter_sql(filters, values))

    def list_filtered(self, filters: Filters, limit: int) -> list[int]:
        if not filters.selects_content:
            return []
        values = Values(limit=limit)
        rows = self._session.rows(
            f"""
            SELECT c.id FROM {_OF_CHUNKS} {filter_sql(filters, values)}
            ORDER BY n.date DESC NULLS LAST, n.path, c.seq LIMIT %(limit)s
            """,
            **values,
        )
        return [chunk_id for (chunk_id,) in rows]

    def hits(self, matches: Sequence[tuple[int, float]]) -> Iterator[Hit]:
        rows = self._session.rows(
            f"""
            SELECT c.id, n.path, w.root, c.start_line, c.end_line, c.text, n.title, c.heading,
                   n.date, n.tags, n.held_until
            FROM chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id
            JOIN workspaces w ON {of_agent("w")} AND w.id = n.workspace_id
            WHERE {of_agent("c")} AND c.id = ANY(%(ids)s)
            """,
            ids=[chunk_id for chunk_id, _ in matches],
        )
        found = {chunk_id: row for chunk_id, *row in rows}
        return (to_hit(found[chunk_id], relevance) for chunk_id, relevance in matches)


def _has_any(session: Session, chunk_ids: Sequence[int], values: Values, condition: str) -> bool:
    """Whether any of the chunks satisfies a condition on ``chunks c`` and ``notes n``."""
    asked = f"SELECT EXISTS (SELECT 1 FROM {_OF_CHUNKS} AND c.id = ANY(%(ids)s) {condition})"
    return bool(session.value(asked, ids=[*chunk_ids], **values))


_OF_CHUNKS = f"""
    chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id WHERE {of_agent("c")}
"""
