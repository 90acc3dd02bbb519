"""One unchanging state of index.db: a search sees nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

from memwell.errors import VectorSearchUnavailable
from memwell.store.contract.index import Reader, Vectors
from memwell.store.contract.query import Match, WordQuery
from memwell.store.rows import decode
from memwell.store.sqlite.browse import SqliteNoteListing
from memwell.store.sqlite.cooldowns import SqliteCooldowns
from memwell.store.sqlite.keywords import SqliteKeywords
from memwell.store.sqlite.notes import SqliteChunks, SqliteNotes
from memwell.store.sqlite.postings import Postings
from memwell.store.sqlite.spaces import SqliteSpaces
from memwell.store.vectors.backend import Allowed, Stored

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array, Space
    from memwell.store.vectors.backends import VectorBackends


class SqliteReader(Reader):
    """The parts of one state, over one connection."""

    def __init__(
        self,
        connection: apsw.Connection,
        backends: VectorBackends,
        visible: frozenset[str] | None = None,
        postings: Postings | None = None,
    ) -> None:
        keywords = SqliteKeywords(connection, visible, postings)
        vectors = SqliteVectors(connection, backends, keywords)
        self.notes = SqliteNotes(connection)
        self.chunks = SqliteChunks(connection)
        self.keywords = keywords
        self.vectors = vectors
        self.spaces = SqliteSpaces(connection, keywords)
        self.cooldowns = SqliteCooldowns(connection)
        self.listing = SqliteNoteListing(connection, vectors)


class SqliteVectors(Vectors):
    """Vectors, read from the backend that has them.

    If the backend cannot be reached, every method returns nothing and `problem` says why: keyword
    search still answers.
    """

    def __init__(
        self, connection: apsw.Connection, backends: VectorBackends, keywords: SqliteKeywords
    ) -> None:
        self._connection = connection
        self._backends = backends
        self._spaces = SqliteSpaces(connection)
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
        rows = self._spaces.vectors_of(space, chunk_ids)
        with self._record_problem():
            return self._backends.backend_for(space).cosines(space, rows, vector)
        return {}

    def first_windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Array]:
        from memwell.store.vectors import scan

        return scan.first_vectors(self.read(space, self._spaces.vectors_of(space, chunk_ids)))

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Matrix]:
        rows = self._spaces.windows(space, chunk_ids)
        empty = [(chunk_id, b"") for chunk_id, stored in rows if stored == b""]
        vectors = self.read(space, [(chunk_id, stored) for chunk_id, stored in rows if stored])
        return decode([*empty, *vectors], space.dimensions)

    def has_unusable_copy(self, space: Space) -> bool:
        return self._backends.backend_for(space).has_unusable_copy(space)

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
