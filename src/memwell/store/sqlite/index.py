"""index.db as a whole: one agent's notes, chunks and keyword index.

`Index` is what `Memory` holds; `Reader` is what one search sees, a single state of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import apsw

from memwell.errors import MemwellError, VectorSearchUnavailable
from memwell.model import Context, Hit, Viewer
from memwell.store.contract.query import Filters, Match, Neighbours, Word, WordQuery
from memwell.store.rows import surface_form
from memwell.store.sqlite import fts
from memwell.store.sqlite.database import BUSY_TIMEOUT_MS, Database
from memwell.store.sqlite.filesystem import hold_lock
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.fts import KeywordSearchUnavailable
from memwell.store.sqlite.index_file import IndexFile
from memwell.store.sqlite.notes import Notes
from memwell.store.sqlite.vocabulary import Vocabulary
from memwell.store.vectors.backend import Allowed, BackendSetting, Stored
from memwell.store.vectors.backends import VectorBackends
from memwell.store.words.query import unknown_words

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.vectors import Take
    from memwell.store.sqlite.browse import NoteListing
    from memwell.store.sqlite.cooldowns import Cooldowns
    from memwell.store.sqlite.spaces import Space, Spaces, WaitingChunk
    from memwell.store.vectors.snapshot import Array


class Index(IndexFile):
    """The index of one agent, open for reading and writing."""

    def __init__(self, path: Path, backend: BackendSetting | None = None) -> None:
        """The backend says how nearest vectors are found; None is the scan."""
        super().__init__(Database(path))
        self.vectors = VectorBackends(self.database, backend or BackendSetting())

    def for_viewer(self, viewer: Viewer) -> Self:
        """Return itself: whoever can read the file can read all of it."""
        return self

    @contextmanager
    def writing(self, wait_ms: int = BUSY_TIMEOUT_MS) -> Iterator[Notes]:
        """Lend the tables for writing, inside one transaction."""
        with self.database.writing(wait_ms) as connection:
            yield Notes(connection, with_words=self._ensure_words(connection))

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Lend one unchanging state of the index."""
        with self.database.reading() as connection:
            yield Reader(connection, self)

    @contextmanager
    def writing_spaces(self, wait_ms: int = BUSY_TIMEOUT_MS) -> Iterator[Spaces]:
        """Lend the vector spaces for writing, inside one transaction."""
        from memwell.store.sqlite.spaces import Spaces

        with self.database.writing(wait_ms) as connection:
            yield Spaces(connection)

    @contextmanager
    def writing_cooldowns(self, wait_ms: int = BUSY_TIMEOUT_MS) -> Iterator[Cooldowns]:
        """Lend the list of providers that are left alone for writing."""
        from memwell.store.sqlite.cooldowns import Cooldowns

        with self.database.writing(wait_ms) as connection:
            yield Cooldowns(connection)

    @contextmanager
    def leasing(self) -> Iterator[Take | None]:
        """Lend what hands out the chunks that wait; None where another process has it."""
        with hold_lock(self.path.with_name("filling.lock"), wait=False) as alone:
            yield self._waiting if alone else None

    def _waiting(self, space: Space, limit: int) -> list[WaitingChunk]:
        with self.reading() as reader:
            return reader.spaces.waiting(space, limit)

    def move_vectors(self, space: Space) -> None:
        """Bring the vectors of a space to where the settings want them."""
        self.vectors.move_vectors(space)

    def put_vectors(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; a chunk that was deleted meanwhile is passed over."""
        self.vectors.put(space, windows)

    def compact(self, fingerprint: str, *, even_if_little_changed: bool = False) -> None:
        """Make searches of a space quick again where enough has changed since the last time."""
        self.vectors.compact(fingerprint, even_if_little_changed=even_if_little_changed)

    def scrub(self) -> bool:
        """Let nothing of what was deleted stay in the file; False while a reader still holds it."""
        with self.database.writing() as connection:
            connection.pragma("secure_delete", True)
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        for space in self.vectors.external():
            self.compact(space.fingerprint, even_if_little_changed=True)
        return self.database.scrub()

    def drop_space(self, space: Space) -> None:
        """Delete a space with its vectors and what is kept of them elsewhere."""
        self.vectors.drop(space)
        with self.writing_spaces() as spaces:
            spaces.drop(space)

    def ensure_keyword_index(self) -> bool:
        """Build the keyword index where it is missing or old; return whether it can be had."""
        with self.reading() as reader:
            if not reader.keyword_problem():
                return True
        with self.database.writing() as connection:
            return self._ensure_words(connection)

    def _ensure_words(self, connection: apsw.Connection) -> bool:
        connection.execute("SAVEPOINT words")
        try:
            fts.ensure(connection)
        except KeywordSearchUnavailable:
            connection.execute("ROLLBACK TO words")
            return False
        finally:
            connection.execute("RELEASE words")
        return not fts.find_problem(connection)

    def rebuild_keyword_index(self) -> None:
        """Throw the keyword index away and build it again from the chunks."""
        with self.database.writing() as connection:
            fts.mark_stale(connection)
            self._ensure_words(connection)

    def delete(self) -> None:
        """Delete all of it; it comes back from the notes."""
        with suppress(MemwellError):  # what cannot be reached is swept when it is used again
            for space in self.vectors.external() if self.exists else ():
                self.vectors.drop(space)
        self.close()
        for pattern in ("index.db*", "vectors-*"):
            for file in self.path.parent.glob(pattern):
                file.unlink(missing_ok=True)

    def check_integrity(self) -> list[str]:
        """Look at every page and every posting; return what is wrong."""
        with self.database.reading() as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
        wrong = [line for line in found if line != "ok"]
        with self.database.writing() as connection:
            try:
                connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
            except apsw.CorruptError:
                raise  # it is set aside, and built anew
            except apsw.Error as error:
                wrong.append(f"keyword index: {error}")
        return wrong


class Reader:
    """One state of the index."""

    def __init__(self, connection: apsw.Connection, index: Index) -> None:
        self._connection = connection
        self._index = index
        self._lexicon = Vocabulary(connection)
        self.notes = Notes(connection)
        self.vector_problem = ""
        """Why what keeps the vectors could not be asked, if it could not."""

    @cached_property
    def spaces(self) -> Spaces:
        """The vector spaces."""
        from memwell.store.sqlite.spaces import Spaces

        return Spaces(self._connection)

    @cached_property
    def cooldowns(self) -> Cooldowns:
        """The providers that are left alone."""
        from memwell.store.sqlite.cooldowns import Cooldowns

        return Cooldowns(self._connection)

    @cached_property
    def listing(self) -> NoteListing:
        """What there is, listed."""
        from memwell.store.sqlite.browse import NoteListing

        return NoteListing(self._connection, self.vector_bytes)

    def keyword_problem(self) -> str:
        """Return why words cannot be searched, or "" if they can."""
        return fts.find_problem(self._connection)

    def search_keywords(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the keyword leg's best matches; `WordsUnavailable` if it is broken."""
        with fts_errors():
            return fts.search(self._connection, self._lexicon, query, limit)

    def word_scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return what the keyword leg says of some chunks."""
        with fts_errors():
            return fts.scores_of(self._connection, self._lexicon, query, chunk_ids)

    def ideal_word_score(self, query: WordQuery) -> float:
        """Return about what a chunk of average length scores that holds every word that ranks."""
        with fts_errors():
            return fts.ideal_score(self._lexicon, query)

    def nearest(
        self, space: Space, vector: Array, query: WordQuery, limit: int, *, words: bool = True
    ) -> list[Match]:
        """Return the chunks nearest to a vector, best first, of those that a query allows.

        Without `words` only its filters count, not what must or must not be in a chunk.
        """
        among = Allowed(query.filters)
        if words and (query.all_of or query.none_of):
            with fts_errors():
                must, unwanted = fts.must_and_must_not(self._connection, self._lexicon, query)
            among = Allowed(query.filters, must, unwanted)
        store = self._index.vectors.backend_for(space)
        with self._without_vectors():
            return store.nearest(self._connection, space, vector, among, limit)
        return []

    def cosines(self, space: Space, vector: Array, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return what the meaning leg says of some chunks."""
        from memwell.store.vectors import scan

        rows = self.vector_bytes(space, self.spaces.vectors_of(space, chunk_ids))
        return scan.cosines(rows, space, vector)

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Matrix]:
        """Return all vectors of each chunk that was embedded; none where the model read nothing."""
        from memwell.store.sqlite.spaces import decode

        rows = self.spaces.windows(space, chunk_ids)
        empty = [(chunk_id, b"") for chunk_id, stored in rows if stored == b""]
        read = self.vector_bytes(space, [(chunk_id, stored) for chunk_id, stored in rows if stored])
        return decode([*empty, *read], space.dimensions)

    def some_vectors(self, space: Space, most: int) -> list[tuple[int, bytes]]:
        """Return vectors spread evenly over a space, each with its note."""
        return self.vector_bytes(space, self.spaces.some_vectors(space, most))

    def vector_bytes(
        self, space: Space, rows: Sequence[tuple[int, Stored]]
    ) -> list[tuple[int, bytes]]:
        """Return what rows of vectors stand for, each with what came with it."""
        with self._without_vectors():
            return self._index.vectors.backend_for(space).read(space, rows)
        return []

    @contextmanager
    def _without_vectors(self) -> Iterator[None]:
        """Go on without them where they cannot be had, and remember why."""
        try:
            yield
        except VectorSearchUnavailable as error:
            self.vector_problem = str(error)

    def neighbours(self, chunk_ids: Sequence[int], shorter_than: float) -> dict[int, Neighbours]:
        """Return the neighbours of those chunks that are short, with them, on average."""
        return self.notes.neighbours(chunk_ids, shorter_than)

    def note_dates(self, chunk_ids: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """Return the path and the date of each chunk's note."""
        return self.notes.note_dates(chunk_ids)

    def context(self, chunk_id: int, whole_section: bool) -> Context:
        """Return a chunk with those beside it, or with all of its section."""
        return self.notes.context(chunk_id, whole_section)

    def vectors(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Array]:
        """Return the first vector of each chunk that has one."""
        from memwell.store.vectors import scan

        return scan.first_vectors(
            self.vector_bytes(space, self.spaces.vectors_of(space, chunk_ids))
        )

    def has_allowed(self, filters: Filters, chunk_ids: Sequence[int]) -> bool:
        """Whether filters let any of some chunks through."""
        return self.notes.has_allowed(filters, chunk_ids)

    def has_matching(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        """Whether any of some chunks holds what must match and nothing that must not."""
        with fts_errors():
            must, unwanted = fts.must_and_must_not(self._connection, self._lexicon, query)
        return bool(({*chunk_ids} if must is None else {*chunk_ids} & {*must}) - {*unwanted})

    def list_chunks(self, filters: Filters, limit: int) -> list[int]:
        """Return the chunks that filters alone ask for, newest notes first."""
        return self.notes.list_chunks(filters, limit)

    def hits(self, matches: Sequence[tuple[int, float]]) -> Iterator[Hit]:
        """Turn chunk ids with their relevance into hits."""
        return self.notes.hits(matches)

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of `text` as the index sees it, beside the letters it came from."""
        with fts_errors():
            return self._lexicon.tokens(text)

    def document_frequency(self, token: str) -> int:
        """Return how many chunks hold a token."""
        with fts_errors():
            return self._lexicon.document_frequency(token)

    @property
    def total(self) -> int:
        """How many chunks there are."""
        return self._lexicon.total

    def unknown_words(self, words: Iterable[Word]) -> list[str]:
        """Return those words that no chunk holds."""
        with fts_errors():
            return unknown_words(words, self._lexicon)

    def vocabulary(self, shortest: int, longest: int) -> Iterator[tuple[str, int]]:
        """Yield the tokens of a length, each with how many chunks hold it."""
        with fts_errors():
            rows: Any = self._connection.execute(
                "SELECT term, doc FROM vocabulary WHERE length(term) BETWEEN ? AND ?",
                (shortest, longest),
            ).fetchall()
        return ((str(term), int(count)) for term, count in rows)

    def surface_form(self, token: str, like: str, filters: Filters) -> str | None:
        """Return a word of the notes that `token` stands for: the index holds only stems.

        None if only notes hold it that may not be looked at.
        """
        condition, values = filter_sql(filters)
        found: str | None = self._connection.execute(
            f"""
            SELECT c.text || ' ' || c.heading || ' ' || n.names || ' ' || n.path
            FROM words w JOIN chunks c ON c.id = w.rowid JOIN notes n ON n.id = c.note_id
            WHERE w.words MATCH ? {condition} LIMIT 1
            """,
            (f'"{token}"', *values),
        ).get
        return None if found is None else surface_form(token, like, found, self.tokens)


@contextmanager
def fts_errors() -> Iterator[None]:
    """Tell a broken keyword index from a damaged file: the rest can still answer without it."""
    try:
        yield
    except apsw.CorruptError as error:
        if getattr(error, "extendedresult", 0) != apsw.SQLITE_CORRUPT_VTAB:
            raise
        raise KeywordSearchUnavailable(f"the keyword index is damaged ({error})") from error
    except apsw.SQLError as error:
        raise KeywordSearchUnavailable(f"the keyword index refused a query ({error})") from error
