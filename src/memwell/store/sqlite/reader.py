"""One unchanging state of index.db: a search sees nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import apsw

from memwell.errors import KeywordSearchUnavailable, VectorSearchUnavailable
from memwell.store.contract.index import Keywords, Reader, Vectors
from memwell.store.contract.query import Filters, Match, Word, WordQuery
from memwell.store.rows import surface_form
from memwell.store.sqlite import fts
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.notes import SqliteChunks, SqliteNotes
from memwell.store.sqlite.vocabulary import SqliteVocabulary
from memwell.store.vectors.backend import Allowed, Stored
from memwell.store.words.query import unknown_words
from memwell.store.words.ranking import ideal_score

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array, Space
    from memwell.store.sqlite.browse import SqliteNoteListing
    from memwell.store.sqlite.cooldowns import SqliteCooldowns
    from memwell.store.sqlite.spaces import SqliteSpaces
    from memwell.store.vectors.backends import VectorBackends


class SqliteReader(Reader):
    """The parts of one state; those that a keyword search does not need are imported on use."""

    def __init__(self, connection: apsw.Connection, backends: VectorBackends) -> None:
        self._connection = connection
        self._backends = backends

    @property
    def total(self) -> int:
        return self.keywords.known.total

    @cached_property
    def notes(self) -> SqliteNotes:
        return SqliteNotes(self._connection)

    @cached_property
    def chunks(self) -> SqliteChunks:
        return SqliteChunks(self._connection)

    @cached_property
    def keywords(self) -> SqliteKeywords:
        return SqliteKeywords(self._connection)

    @cached_property
    def vectors(self) -> SqliteVectors:
        return SqliteVectors(self._connection, self._backends, self.spaces, self.keywords)

    @cached_property
    def spaces(self) -> SqliteSpaces:
        from memwell.store.sqlite.spaces import SqliteSpaces

        return SqliteSpaces(self._connection)

    @cached_property
    def cooldowns(self) -> SqliteCooldowns:
        from memwell.store.sqlite.cooldowns import SqliteCooldowns

        return SqliteCooldowns(self._connection)

    @cached_property
    def listing(self) -> SqliteNoteListing:
        from memwell.store.sqlite.browse import SqliteNoteListing

        return SqliteNoteListing(self._connection, self.vectors)


class SqliteKeywords(Keywords):
    """The keyword index as FTS5 has it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.known = SqliteVocabulary(connection)

    def problem(self) -> str:
        return fts.find_problem(self._connection)

    def search(self, query: WordQuery, limit: int) -> list[Match]:
        with fts_errors():
            return fts.search(self._connection, self.known, query, limit)

    def scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        with fts_errors():
            return fts.scores_of(self._connection, self.known, query, chunk_ids)

    def ideal_score(self, query: WordQuery) -> float:
        with fts_errors():
            return ideal_score(self.known, query)

    def required_and_excluded(self, query: WordQuery) -> tuple[Sequence[int] | None, Sequence[int]]:
        """Return the chunks with all required words (None: all chunks), and those with excluded."""
        with fts_errors():
            return fts.must_and_must_not(self._connection, self.known, query)

    def has_matching(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        required, excluded = self.required_and_excluded(query)
        matching = {*chunk_ids} if required is None else {*chunk_ids} & {*required}
        return bool(matching - {*excluded})

    def tokens(self, text: str) -> list[tuple[str, str]]:
        with fts_errors():
            return self.known.tokens(text)

    def document_frequency(self, token: str) -> int:
        with fts_errors():
            return self.known.document_frequency(token)

    def unknown_words(self, words: Iterable[Word]) -> list[str]:
        with fts_errors():
            return unknown_words(words, self.known)

    def vocabulary(self, shortest: int, longest: int) -> Iterator[tuple[str, int]]:
        with fts_errors():
            rows: Any = self._connection.execute(
                "SELECT term, doc FROM vocabulary WHERE length(term) BETWEEN ? AND ?",
                (shortest, longest),
            ).fetchall()
        return ((str(term), int(count)) for term, count in rows)

    def surface_form(self, token: str, like: str, filters: Filters) -> str | None:
        condition, values = filter_sql(filters)
        text: str | None = self._connection.execute(
            f"""
            SELECT c.text || ' ' || c.heading || ' ' || n.names || ' ' || n.path
            FROM words w JOIN chunks c ON c.id = w.rowid JOIN notes n ON n.id = c.note_id
            WHERE w.words MATCH ? {condition} LIMIT 1
            """,
            (f'"{token}"', *values),
        ).get
        return None if text is None else surface_form(token, like, text, self.tokens)


class SqliteVectors(Vectors):
    """Vectors, read from the backend that has them.

    If the backend cannot be reached, every method returns nothing and `problem` says why: keyword
    search still answers.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        backends: VectorBackends,
        spaces: SqliteSpaces,
        keywords: SqliteKeywords,
    ) -> None:
        self._connection = connection
        self._backends = backends
        self._spaces = spaces
        self._keywords = keywords
        self.problem = ""

    def nearest(
        self, space: Space, vector: Array, query: WordQuery, limit: int, *, words: bool = True
    ) -> list[Match]:
        allowed = Allowed(query.filters)
        if words and (query.all_of or query.none_of):
            allowed = Allowed(query.filters, *self._keywords.required_and_excluded(query))
        backend = self._backends.backend_for(space)
        with self._record_problem():
            return backend.nearest(self._connection, space, vector, allowed, limit)
        return []

    def cosines(self, space: Space, vector: Array, chunk_ids: Sequence[int]) -> dict[int, float]:
        from memwell.store.vectors import scan

        rows = self.read(space, self._spaces.vectors_of(space, chunk_ids))
        return scan.cosines(rows, space, vector)

    def first_windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Array]:
        from memwell.store.vectors import scan

        return scan.first_vectors(self.read(space, self._spaces.vectors_of(space, chunk_ids)))

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Matrix]:
        from memwell.store.rows import decode

        rows = self._spaces.windows(space, chunk_ids)
        empty = [(chunk_id, b"") for chunk_id, stored in rows if stored == b""]
        vectors = self.read(space, [(chunk_id, stored) for chunk_id, stored in rows if stored])
        return decode([*empty, *vectors], space.dimensions)

    def sample(self, space: Space, most: int) -> list[tuple[int, bytes]]:
        return self.read(space, self._spaces.sample(space, most))

    def read(self, space: Space, rows: Sequence[tuple[int, Stored]]) -> list[tuple[int, bytes]]:
        """Return the vector of each row of the ledger, with the number that came with the row."""
        with self._record_problem():
            return self._backends.backend_for(space).read(space, rows)
        return []

    @contextmanager
    def _record_problem(self) -> Iterator[None]:
        try:
            yield
        except VectorSearchUnavailable as error:
            self.problem = str(error)


@contextmanager
def fts_errors() -> Iterator[None]:
    """Tell a broken keyword index from a damaged file: vector search can still answer."""
    try:
        yield
    except apsw.CorruptError as error:
        if getattr(error, "extendedresult", 0) != apsw.SQLITE_CORRUPT_VTAB:
            raise
        raise KeywordSearchUnavailable(f"the keyword index is damaged ({error})") from error
    except apsw.SQLError as error:
        raise KeywordSearchUnavailable(f"the keyword index refused a query ({error})") from error
