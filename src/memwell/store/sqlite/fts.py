"""Keyword search in SQLite: FTS5 filled, kept in step with the chunks, and searched by BM25.

FTS5's ``bm25()`` is negative, and lower is better. This module turns the sign around: every score
that leaves it is positive, and higher is better.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import apsw

from memwell.errors import KeywordSearchUnavailable
from memwell.store.contract.index import Vocabulary
from memwell.store.contract.query import WordQuery
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.schema import DROP_KEYWORD_TABLES, KEYWORD_TABLES
from memwell.store.words.normalise import WORDS_VERSION, WordRow
from memwell.store.words.query import Clause, excluded_condition
from memwell.store.words.ranking import ClauseRunner
from memwell.store.words.scoring import COLUMN_WEIGHTS, Occurrences
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term, any_of

P = ParamSpec("P")
T = TypeVar("T")

_WORD_ROWS = """
    SELECT c.id, c.text, c.heading, n.names, n.path
    FROM chunks c JOIN notes n ON n.id = c.note_id
"""

_WEIGHTS = (*COLUMN_WEIGHTS.values(),)

_PLACES = """
    CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_places USING fts5vocab (main, words, 'instance')
"""
_LAST_CHARACTER = "\U0010ffff"


def ensure(connection: apsw.Connection) -> None:
    """Create the keyword index, or rebuild one that is old or stale.

    Raises `KeywordSearchUnavailable` if this SQLite has no FTS5.
    """
    if _built_version(connection) == str(WORDS_VERSION):
        _overwrite_deleted(connection)
        return
    try:
        connection.execute(DROP_KEYWORD_TABLES)
        connection.execute(KEYWORD_TABLES)
        _overwrite_deleted(connection)
        connection.execute("DELETE FROM meta WHERE key = 'counted_chunks'")
        rows = connection.execute(_WORD_ROWS)
        add(connection, (WordRow(*row) for row in rows))
    except (apsw.SQLError, apsw.AuthError) as error:
        raise KeywordSearchUnavailable(str(error)) from error
    _set_version(connection, str(WORDS_VERSION))


def _overwrite_deleted(connection: apsw.Connection) -> None:
    """Let FTS5 remove deleted words from its pages; by default it only marks them as deleted."""
    with suppress(apsw.SQLError, apsw.AuthError):  # SQLite before 3.42 does not know the option
        known = "SELECT 1 FROM words_config WHERE k = 'secure-delete' AND v"
        if not connection.execute(known).get:
            connection.execute("INSERT INTO words (words, rank) VALUES ('secure-delete', 1)")


def rewrite(connection: apsw.Connection) -> None:
    """Write the keyword index anew: its upper pages keep words of deleted chunks.

    FTS5 merges only two or more segments, so a row that is removed again makes another one.
    """
    row = WordRow(0, "memwell", "", "", "")
    add(connection, [row])
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")
    remove(connection, [row])
    connection.execute("DELETE FROM meta WHERE key = 'words_removed'")


def has_removed_words(connection: apsw.Connection) -> bool:
    """Whether words were removed since the keyword index was last written anew."""
    return bool(connection.execute("SELECT 1 FROM meta WHERE key = 'words_removed'").get)


def find_problem(connection: apsw.Connection) -> str:
    """Return why keyword search is not possible, or "" if it is."""
    if _built_version(connection) != str(WORDS_VERSION):
        return "the keyword index has not been built (SQLite's FTS5 was not available)"
    try:
        connection.execute("SELECT rowid FROM words LIMIT 0")
    except (apsw.SQLError, apsw.AuthError) as error:
        return str(error)
    return ""


class Revision(NamedTuple):
    """Values of which one is different after each change of the keyword index."""

    schema: int
    """A new table begins again, but changes the schema."""
    removals: str | None
    totals: bytes
    """FTS5's record of the number of rows, and of the tokens of each column."""
    segments: bytes
    """FTS5's list of segments, with the number of pages that were ever written."""

    @property
    def rows(self) -> int:
        """The number of chunks in the keyword index."""
        return next(_read_varints(self.totals or b""), 0)

    def has_only_additions_since(self, before: Revision) -> bool:
        """Whether no chunk was removed since an earlier revision, nor indexed by other words."""
        return (self.schema, self.removals) == (before.schema, before.removals)


def revision(connection: apsw.Connection) -> Revision:
    """Return the revision of the keyword index."""
    found: Any = connection.execute(
        """
        SELECT schema_version, (SELECT value FROM meta WHERE key = 'word_removals'),
               (SELECT block FROM words_data WHERE id = 1),
               (SELECT block FROM words_data WHERE id = 10)
        FROM pragma_schema_version
        """
    ).get
    return Revision(*found)


def ensure_places(connection: apsw.Connection) -> None:
    """Create the table `temp.word_places` of this connection: where each token stands.

    It is not in the file, but SQLite lets only a writer make one.
    """
    is_reader = connection.pragma("query_only")
    connection.pragma("query_only", False)
    try:
        connection.execute(_PLACES)
    finally:
        connection.pragma("query_only", is_reader)


def beginning_with(start: str) -> tuple[str, tuple[str, str]]:
    """Return the condition on a `term` that it begins with some letters, and its values."""
    return "term >= ? AND term < ?", (start, start + _LAST_CHARACTER)


def mark_stale(connection: apsw.Connection) -> None:
    """Record that chunks changed without the keyword index, so that it is rebuilt."""
    _set_version(connection, "")


def _built_version(connection: apsw.Connection) -> str | None:
    found = connection.execute("SELECT value FROM meta WHERE key = 'words_version'").get
    return None if found is None else str(found)


def _set_version(connection: apsw.Connection, version: str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('words_version', ?)", (version,))


def word_rows(connection: apsw.Connection, note_id: int) -> list[WordRow]:
    """Return the rows of a note in the keyword index, made from its chunks as they are now."""
    return [WordRow(*row) for row in connection.execute(f"{_WORD_ROWS} WHERE n.id = ?", (note_id,))]


def word_rows_after(connection: apsw.Connection, chunk_id: int) -> list[WordRow]:
    """Return the rows of all later chunks."""
    rows = connection.execute(f"{_WORD_ROWS} WHERE c.id > ? ORDER BY c.id", (chunk_id,))
    return [WordRow(*row) for row in rows]


def add(connection: apsw.Connection, rows: Iterable[WordRow]) -> None:
    """Add chunks to the keyword index."""
    connection.executemany(
        "INSERT INTO words (rowid, content, heading, name, parts) VALUES (?, ?, ?, ?, ?)",
        (row.columns() for row in rows),
    )


def remove(connection: apsw.Connection, rows: Sequence[WordRow]) -> None:
    """Remove chunks from the keyword index; FTS5 needs the exact text it was given for each."""
    if not rows:
        return
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('words_removed', '1')")
    connection.execute(
        "INSERT INTO meta VALUES ('word_removals', '1')"
        " ON CONFLICT (key) DO UPDATE SET value = value + 1"
    )
    connection.executemany(
        "INSERT INTO words (words, rowid, content, heading, name, parts)"
        " VALUES ('delete', ?, ?, ?, ?, ?)",
        (row.columns() for row in rows),
    )


def fts_errors(call: Callable[P, T]) -> Callable[P, T]:
    """Tell a broken keyword index from a damaged file: vector search can still answer."""

    @wraps(call)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except apsw.CorruptError as error:
            if getattr(error, "extendedresult", 0) != apsw.SQLITE_CORRUPT_VTAB:
                raise
            raise KeywordSearchUnavailable(f"the keyword index is damaged ({error})") from error
        except apsw.SQLError as error:
            raise KeywordSearchUnavailable(
                f"the keyword index refused a query ({error})"
            ) from error

    return run


def match_text(condition: Condition) -> str:
    """Return a condition in the syntax of FTS5's MATCH."""
    match condition:
        case Term(prefix=prefix, text=text):
            return f'"{text}" *' if prefix else f'"{text}"'
        case AllOf(parts):
            return f"({' AND '.join(map(match_text, parts))})"
        case AnyOf(parts):
            return f"({' OR '.join(map(match_text, parts))})"
        case AndNot(wanted, unwanted):
            return f"({match_text(wanted)} NOT {match_text(unwanted)})"


class Bm25Runner(ClauseRunner):
    """Looks conditions up, under the exclusions and filters of one query."""

    def __init__(
        self, connection: apsw.Connection, query: WordQuery, limit: int, vocabulary: Vocabulary
    ) -> None:
        self.connection = connection
        self.limit = limit
        self._excluded = excluded_condition(query, vocabulary)

    @abstractmethod
    def find_best(self, condition: Condition) -> dict[int, float]:
        """Return the best `limit` chunks that meet a condition, with their scores by FTS5's BM25.

        And all that tie with the last of them. Scores are rounded to tell, as in PostgreSQL: equal
        ones may differ by what rounding errors add up to.
        """

    def run(self, selecting: Condition | None, scoring: Sequence[Clause] = ()) -> dict[int, float]:
        """Score chunks by two queries, since FTS5 counts a phrase as often as MATCH names it.

        The first scores chunks by `selecting`, the second those with any scoring word by both. The
        greater score is the sum.
        """
        if not selecting:
            return {}
        scores = self._find_allowed(selecting)
        if adding := any_of(clause.condition for clause in scoring):
            for chunk_id, score in self._find_allowed(AllOf((selecting, adding))).items():
                scores[chunk_id] = max(score, scores.get(chunk_id, 0.0))
        return scores

    def top_candidates(self, clauses: Sequence[Clause]) -> dict[int, float]:
        """Return {}: the runner looks at every chunk that holds any of the words."""
        return {}

    @fts_errors
    def _find_allowed(self, condition: Condition) -> dict[int, float]:
        excluded = self._excluded
        return self.find_best(AndNot(condition, excluded) if excluded else condition)


class FtsRunner(Bm25Runner):
    """Looks conditions up in FTS5."""

    def __init__(
        self,
        connection: apsw.Connection,
        query: WordQuery,
        limit: int,
        vocabulary: Vocabulary,
        only: Sequence[int] = (),
    ) -> None:
        super().__init__(connection, query, limit, vocabulary)
        weights = ", ".join(str(weight) for weight in COLUMN_WEIGHTS.values())
        bm25 = f"w.rank MATCH 'bm25({weights})'"
        if only:
            # The plus keeps SQLite from running the MATCH again for each chunk.
            self._parameters: list[str | int] = [json.dumps([*only])]
            self._statement = f"""
                SELECT w.rowid, w.rank FROM words w
                WHERE w.words MATCH ? AND {bm25}
                    AND +w.rowid IN (SELECT value FROM json_each(?)) ORDER BY w.rank
            """
            return
        # CROSS JOIN keeps FTS5 in the outer loop, where it ranks; SQLite then tests the filters
        # on the best rows only, one after the other, until there are enough.
        joins = "CROSS JOIN chunks c ON c.id = w.rowid CROSS JOIN notes n ON n.id = c.note_id"
        condition, values = filter_sql(query.filters)
        self._parameters = [*values]
        self._statement = f"""
            SELECT w.rowid, w.rank FROM words w {joins if condition else ""}
            WHERE w.words MATCH ? AND {bm25} {condition} ORDER BY w.rank
        """

    def find_best(self, condition: Condition) -> dict[int, float]:
        values = (match_text(condition), *self._parameters)
        scores: dict[int, float] = {}
        lowest = 0.0
        for chunk_id, rank in self.connection.execute(self._statement, values):
            rounded = array("f", [-rank])[0]
            if len(scores) >= self.limit and rounded < lowest:
                break
            lowest = rounded
            scores[chunk_id] = -rank
        return scores


class _Counts(threading.local):
    """The rows that `_count_occurrences` counts for this thread."""

    rows: dict[int, Occurrences]
    average: float


_counts = _Counts()


def _count_occurrences(row: apsw.FTS5ExtensionApi, *_: object) -> None:
    """Add the length of a row and the counts of its phrases to `_counts`.

    An auxiliary function of FTS5. It belongs to no search: SQLite may call an earlier registration.
    """
    if not _counts.rows:
        _counts.average = row.column_total_size(-1) / row.row_count
    find, (in_content, in_heading, in_name, in_parts) = row.phrase_locations, _WEIGHTS
    counts = []
    for phrase in range(row.phrase_count):
        content, heading, name, parts = find(phrase)
        counts.append(
            in_content * len(content)
            + in_heading * len(heading)
            + in_name * len(name)
            + in_parts * len(parts)
        )
    _counts.rows[row.rowid] = Occurrences(row.column_size(-1), counts)


@fts_errors
def count_tokens(connection: apsw.Connection, chunk_ids: str) -> int:
    """Return how many tokens chunks have together; their ids are a JSON array."""
    sizes = connection.execute(
        "SELECT sz FROM words_docsize WHERE id IN (SELECT value FROM json_each(?))", (chunk_ids,)
    )
    return sum(sum(_read_varints(size)) for (size,) in sizes)


def _read_varints(data: bytes) -> Iterator[int]:
    """Yield the numbers that FTS5 stores with seven bits to a byte, the highest ones first."""
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            yield number
            number = 0


@fts_errors
def count_occurrences(
    connection: apsw.Connection, terms: Sequence[Term], chunk_ids: Sequence[int]
) -> tuple[float, dict[int, Occurrences]]:
    """Count terms in chunks; return the average length of all chunks, and those with any term."""
    connection.register_fts5_function("count_occurrences", _count_occurrences)
    _counts.rows, _counts.average = {}, 1.0
    # The plus keeps SQLite from running the MATCH again for each chunk.
    rows: Any = connection.execute(
        """
        SELECT count_occurrences(words) FROM words
        WHERE words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))
        """,
        (match_text(AnyOf(tuple(terms))), json.dumps([*chunk_ids])),
    )
    rows.fetchall()
    return _counts.average, _counts.rows
