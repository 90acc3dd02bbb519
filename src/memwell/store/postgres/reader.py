"""One state of an index in PostgreSQL: what a search sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from memwell.model import Context, Hit
from memwell.store.contract.query import Filters, Match, Neighbours, Word, WordQuery
from memwell.store.postgres.bm25 import KeywordSearch
from memwell.store.postgres.browse import NoteListing
from memwell.store.postgres.cooldowns import Cooldowns
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.notes import Notes
from memwell.store.postgres.server import Session
from memwell.store.postgres.spaces import Spaces
from memwell.store.postgres.sql import Values, of_agent
from memwell.store.postgres.vocabulary import PostgresVocabulary
from memwell.store.rows import group_neighbours, join_chunks, surface_form, to_hit
from memwell.store.words.normalise import WORDS_VERSION
from memwell.store.words.query import unknown_words

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.sqlite.spaces import Space
    from memwell.store.vectors.snapshot import Array


class Reader:
    """One state of an index."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lexicon = PostgresVocabulary(session)
        self._words = KeywordSearch(session, self._lexicon)
        self.notes = Notes(session)
        self.spaces = Spaces(session)
        self.cooldowns = Cooldowns(session)
        self.listing = NoteListing(session)
        self.vector_problem = ""

    @cached_property
    def total(self) -> int:
        """How many chunks there are."""
        return self._lexicon.total

    # -- words -------------------------------------------------------------------------------------

    def keyword_problem(self) -> str:
        """Return why words cannot be searched, or "" if they can."""
        asked = f"SELECT words_version FROM indexes i WHERE {of_agent('i')}"
        built = self._session.value(asked)
        return "" if built in (None, WORDS_VERSION) else "what words are found by is out of date"

    def search_keywords(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the keyword leg's best matches."""
        return self._words.search(query, limit)

    def word_scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return what the keyword leg says of some chunks."""
        return self._words.scores_of(query, chunk_ids)

    def ideal_word_score(self, query: WordQuery) -> float:
        """Return about what a chunk of average length scores that holds every word that ranks."""
        return self._words.ideal_score(query)

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of `text` as the index sees it, beside the letters it came from."""
        return self._lexicon.tokens(text)

    def document_frequency(self, token: str) -> int:
        """Return how many chunks hold a token."""
        return self._lexicon.document_frequency(token)

    def unknown_words(self, words: Iterable[Word]) -> list[str]:
        """Return those words that no chunk holds."""
        return unknown_words(words, self._lexicon)

    def vocabulary(self, shortest: int, longest: int) -> Iterator[tuple[str, int]]:
        """Yield the tokens of a length, each with how many chunks hold it."""
        rows = self._session.rows(
            f"SELECT w.token, w.document_frequency FROM vocabulary w WHERE {of_agent('w')}"
            " AND length(w.token) BETWEEN %(shortest)s AND %(longest)s",
            shortest=shortest,
            longest=longest,
        )
        return iter(rows)

    def surface_form(self, token: str, like: str, filters: Filters) -> str | None:
        """Return a word of the notes that `token` stands for: the index holds only stems.

        None if only notes hold it that may not be looked at.
        """
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

    # -- meaning -----------------------------------------------------------------------------------

    def nearest(
        self, space: Space, vector: Array, query: WordQuery, limit: int, *, words: bool = True
    ) -> list[Match]:
        """Return the chunks nearest to a vector, best first, of those that a query allows.

        Without `words` only its filters count, not what must or must not be in a chunk.
        """
        values = Values()
        condition = filter_sql(query.filters, values)
        if words:
            condition += self._words.restriction(query, values)
        return self.spaces.nearest(space, vector, condition, values, limit)

    def cosines(self, space: Space, vector: Array, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return what the meaning leg says of some chunks."""
        return self.spaces.cosines(space, vector, chunk_ids)

    def vectors(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Array]:
        """Return the first vector of each chunk that has one."""
        return self.spaces.first_vectors(space, chunk_ids)

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Matrix]:
        """Return all vectors of each chunk that was embedded; none where the model read nothing."""
        return self.spaces.windows(space, chunk_ids)

    def some_vectors(self, space: Space, most: int) -> list[tuple[int, bytes]]:
        """Return vectors spread evenly over a space, each with its note."""
        return self.spaces.some_vectors(space, most)

    # -- chunks ------------------------------------------------------------------------------------

    def neighbours(self, chunk_ids: Sequence[int], shorter_than: float) -> dict[int, Neighbours]:
        """Return the neighbours of those chunks that are short, with them, on average."""
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
        """Return the path and the date of each chunk's note."""
        rows = self._session.rows(
            f"SELECT c.id, n.path, n.date FROM {_OF_CHUNKS} AND c.id = ANY(%(ids)s)",
            ids=[*chunk_ids],
        )
        return {chunk_id: (path, date) for chunk_id, path, date in rows}

    def context(self, chunk_id: int, whole_section: bool) -> Context:
        """Return a chunk with those beside it, or with all of its section."""
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
        """Whether filters let any of some chunks through."""
        return self._any(chunk_ids, values := Values(), filter_sql(filters, values))

    def has_matching(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        """Whether any of some chunks holds what must match and nothing that must not."""
        return self._any(chunk_ids, values := Values(), self._words.restriction(query, values))

    def _any(self, chunk_ids: Sequence[int], values: Values, condition: str) -> bool:
        asked = f"SELECT EXISTS (SELECT 1 FROM {_OF_CHUNKS} AND c.id = ANY(%(ids)s) {condition})"
        return bool(self._session.value(asked, ids=[*chunk_ids], **values))

    def list_chunks(self, filters: Filters, limit: int) -> list[int]:
        """Return the chunks that filters alone ask for, newest notes first."""
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
        """Turn chunk ids with their relevance into hits."""
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


_OF_CHUNKS = f"""
    chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id WHERE {of_agent("c")}
"""
