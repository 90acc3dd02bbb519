"""index.db as a whole: one agent's notes, chunks and keyword index.

`Index` is what `Memory` holds; `Reader` is what one search sees, a single state of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from memwell.errors import ConfigError
from memwell.model import Context, Hit
from memwell.store import expressions, keyword
from memwell.store.base import Beside, Filters, Match, Word, WordQuery
from memwell.store.filters import filter_sql
from memwell.store.keyword import WordsUnavailable
from memwell.store.lexicon import Lexicon
from memwell.store.notes import Notes
from memwell.store.sqlite import BUSY_TIMEOUT_MS, Database

if TYPE_CHECKING:
    from memwell.store.rests import Rests
    from memwell.store.snapshot import Array
    from memwell.store.spaces import Space, Spaces
    from memwell.store.vectors import Snapshots


class Index:
    """The index of one agent, open for reading and writing."""

    def __init__(self, path: Path, *, vectors_by_sql: bool = False) -> None:
        """With `vectors_by_sql` nearest vectors are found by sqlite-vec, not by the scan."""
        if vectors_by_sql and find_spec("sqlite_vec") is None:
            raise ConfigError(
                'vectors.backend = "sqlite-vec" needs a package that is not installed',
                "pip install 'memwell[sqlite-vec]', or set it to \"scan\"",
            )
        self.database = Database(path)
        self.vectors_by_sql = vectors_by_sql

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self.database.path

    @property
    def bytes(self) -> int:
        """How much room it takes, its log included."""
        files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal", "-shm")]
        return sum(file.stat().st_size for file in files if file.exists())

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
        from memwell.store.spaces import Spaces

        with self.database.writing(wait_ms) as connection:
            yield Spaces(connection)

    @contextmanager
    def writing_rests(self, wait_ms: int = BUSY_TIMEOUT_MS) -> Iterator[Rests]:
        """Lend the list of providers that are left alone for writing."""
        from memwell.store.rests import Rests

        with self.database.writing(wait_ms) as connection:
            yield Rests(connection)

    @cached_property
    def snapshots(self) -> Snapshots:
        """The files beside the index that are scanned for vectors."""
        from memwell.store.vectors import Snapshots

        return Snapshots(self.path.parent)

    def compact(self, fingerprint: str, *, even_if_little_changed: bool = False) -> None:
        """Write a new snapshot of a space where enough has changed since the last one."""
        from memwell.store import vectors
        from memwell.store.spaces import Spaces

        if self.vectors_by_sql:
            return
        with self.database.reading() as connection:
            space = Spaces(connection).named(fingerprint)
            if space is None or not (
                even_if_little_changed or vectors.is_scattered(connection, self.snapshots, space)
            ):
                return
            written = vectors.write_snapshot(connection, self.path.parent, space)
        with self.database.writing() as connection:
            adopted = vectors.adopt_snapshot(connection, space, written)
            used = {other.snapshot for other in Spaces(connection).all() if other.snapshot}
        self.snapshots.delete(written.instead_of if adopted else written.name)
        self.snapshots.sweep(used)

    def scrub(self) -> bool:
        """Let nothing of what was deleted stay in the file; False while a reader still holds it."""
        with self.database.writing() as connection:
            connection.pragma("secure_delete", True)
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            spaces = [space.fingerprint for space in self._spaces(connection)]
        for fingerprint in spaces:
            self.compact(fingerprint, even_if_little_changed=True)
        return self.database.scrub()

    def _spaces(self, connection: apsw.Connection) -> list[Space]:
        from memwell.store.spaces import Spaces

        return [space for space in Spaces(connection).all() if space.snapshot]

    def drop_space(self, space: Space) -> None:
        """Delete a space with its vectors and its snapshot."""
        with self.writing_spaces() as spaces:
            spaces.drop(space)
        self.snapshots.delete(space.snapshot)

    def ensure_words(self) -> bool:
        """Build the keyword index where it is missing or old; return whether it can be had."""
        with self.reading() as reader:
            if not reader.words_unusable():
                return True
        with self.database.writing() as connection:
            return self._ensure_words(connection)

    def _ensure_words(self, connection: apsw.Connection) -> bool:
        connection.execute("SAVEPOINT words")
        try:
            keyword.ensure(connection)
        except WordsUnavailable:
            connection.execute("ROLLBACK TO words")
            return False
        finally:
            connection.execute("RELEASE words")
        return not keyword.unusable(connection)

    def rebuild_words(self) -> None:
        """Throw the keyword index away and build it again from the chunks."""
        with self.database.writing() as connection:
            keyword.leave_behind(connection)
            self._ensure_words(connection)

    def check(self) -> list[str]:
        """Look at every page and every posting; return what is wrong."""
        with self.database.reading() as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
        wrong = [line for line in found if line != "ok"]
        with self.database.writing() as connection:
            try:
                connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
            except apsw.Error as error:
                wrong.append(f"keyword index: {error}")
        return wrong

    def close(self) -> None:
        """Close every connection."""
        self.database.close()


class Reader:
    """One state of the index."""

    def __init__(self, connection: apsw.Connection, index: Index) -> None:
        self._connection = connection
        self._index = index
        self._lexicon = Lexicon(connection)
        self.notes = Notes(connection)

    @cached_property
    def spaces(self) -> Spaces:
        """The vector spaces."""
        from memwell.store.spaces import Spaces

        return Spaces(self._connection)

    @cached_property
    def rests(self) -> Rests:
        """The providers that are left alone."""
        from memwell.store.rests import Rests

        return Rests(self._connection)

    def words_unusable(self) -> str:
        """Return why words cannot be searched, or "" if they can."""
        return keyword.unusable(self._connection)

    def words(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the keyword leg's best matches; `WordsUnavailable` if it is broken."""
        with _told_apart():
            return keyword.search(self._connection, self._lexicon, query, limit)

    def word_scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return what the keyword leg says of some chunks."""
        with _told_apart():
            return keyword.scores_of(self._connection, self._lexicon, query, chunk_ids)

    def ideal_word_score(self, query: WordQuery) -> float:
        """Return about what a chunk of average length scores that holds every word that ranks."""
        with _told_apart():
            return keyword.ideal_score(self._lexicon, query)

    def nearest(
        self, space: Space, vector: Array, query: WordQuery, limit: int, *, words: bool = True
    ) -> list[Match]:
        """Return the chunks nearest to a vector, best first, of those that a query allows.

        Without `words` only its filters count, not what must or must not be in a chunk.
        """
        from memwell.store import vectors

        among = vectors.Among(query.filters)
        if words and (query.all_of or query.none_of):
            with _told_apart():
                must, unwanted = keyword.restricted(self._connection, self._lexicon, query)
            among = vectors.Among(query.filters, must, unwanted)
        if self._index.vectors_by_sql:
            from memwell.store import vector_sql

            return vector_sql.nearest(self._connection, space, vector, among, limit)
        snapshots = self._index.snapshots
        return vectors.nearest(self._connection, snapshots, space, vector, among, limit)

    def cosines(self, space: Space, vector: Array, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return what the meaning leg says of some chunks."""
        from memwell.store import vectors

        return vectors.cosines(self._connection, space, vector, chunk_ids)

    def beside(self, chunk_ids: Sequence[int], shorter_than: float) -> dict[int, Beside]:
        """Return the neighbours of those chunks that are short, with them, on average."""
        return self.notes.beside(chunk_ids, shorter_than)

    def dated(self, chunk_ids: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """Return the path and the date of each chunk's note."""
        return self.notes.dated(chunk_ids)

    def context(self, chunk_id: int, whole_section: bool) -> Context:
        """Return a chunk with those beside it, or with all of its section."""
        return self.notes.context(chunk_id, whole_section)

    def vectors(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Array]:
        """Return the first vector of each chunk that has one."""
        from memwell.store import vectors

        return vectors.first_vectors(self._connection, space, chunk_ids)

    def allowed(self, filters: Filters, chunk_ids: Sequence[int]) -> bool:
        """Whether filters let any of some chunks through."""
        return self.notes.allowed(filters, chunk_ids)

    def satisfying(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        """Whether any of some chunks holds what must match and nothing that must not."""
        with _told_apart():
            must, unwanted = keyword.restricted(self._connection, self._lexicon, query)
        return bool(({*chunk_ids} if must is None else {*chunk_ids} & {*must}) - {*unwanted})

    def listed(self, filters: Filters, limit: int) -> list[int]:
        """Return the chunks that filters alone ask for, newest notes first."""
        return self.notes.listed(filters, limit)

    def hits(self, matches: Sequence[tuple[int, float]]) -> Iterator[Hit]:
        """Turn chunk ids with their relevance into hits."""
        return self.notes.hits(matches)

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of `text` as the index sees it, beside the letters it came from."""
        with _told_apart():
            return self._lexicon.tokens(text)

    def rows(self, token: str) -> int:
        """Return how many chunks hold a token."""
        with _told_apart():
            return self._lexicon.rows(token)

    @property
    def total(self) -> int:
        """How many chunks there are."""
        return self._lexicon.total

    def unknown(self, words: Iterable[Word]) -> list[str]:
        """Return those words that no chunk holds."""
        with _told_apart():
            return expressions.unknown_words(words, self._lexicon)

    def vocabulary(self, shortest: int, longest: int) -> Iterator[tuple[str, int]]:
        """Yield the tokens of a length, each with how many chunks hold it."""
        with _told_apart():
            rows: Any = self._connection.execute(
                "SELECT term, doc FROM vocabulary WHERE length(term) BETWEEN ? AND ?",
                (shortest, longest),
            ).fetchall()
        return ((str(term), int(count)) for term, count in rows)

    def written(self, token: str, like: str, filters: Filters) -> str | None:
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
        if found is None:
            return None
        words: list[str] = re.findall(r"[^\W_]+", found)
        for word in words:
            if any(seen == token for seen, _ in self.tokens(word)):
                return word.capitalize() if like[:1].isupper() else word.lower()
        return token


@contextmanager
def _told_apart() -> Iterator[None]:
    """Tell a broken keyword index from a damaged file: the rest can still answer without it."""
    try:
        yield
    except apsw.CorruptError as error:
        if getattr(error, "extendedresult", 0) != apsw.SQLITE_CORRUPT_VTAB:
            raise
        raise WordsUnavailable(f"the keyword index is damaged ({error})") from error
    except apsw.SQLError as error:
        raise WordsUnavailable(f"the keyword index refused a query ({error})") from error
