"""The keyword index of one state of index.db: its vocabulary, and the search for words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import apsw

from memwell.store.contract.query import Filters, WordQuery
from memwell.store.contract.values import FACT_WORKSPACE
from memwell.store.fts5_tokenizer import Fts5Tokenizer
from memwell.store.rows import surface_form
from memwell.store.sqlite import fts
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.postings import Postings
from memwell.store.words.query import excluded_condition, required_condition
from memwell.store.words.ranking import RankedKeywords
from memwell.store.words.scoring import Occurrences, ScoredQuery
from memwell.store.words.tree import Condition, Term, terms_in

if TYPE_CHECKING:
    from memwell.store.sqlite.word_arrays import WordArrays

_LARGE = 20_000
"""From this many chunks on, the frequencies of common words are stored: FTS5 counts a word by
walking through all its postings, which takes a millisecond or two for each common word."""
_COMMON = 0.02
"""A word is common if at least this share of the chunks holds it."""
_OUTDATED = 1.25
"""The stored frequencies are renewed when the index has grown or shrunk by this factor."""
_MOST_FREQUENCIES = 100_000
"""Frequencies that a process keeps, of all viewers together."""
_MOST_CHUNKS = 1_000_000
"""FTS5 ranks a query with a word that more chunks hold: its places would take much memory."""


class SqliteKeywords(RankedKeywords):
    """The keyword index as FTS5 has it, and as one viewer sees it.

    FTS5 counts the words of all chunks. The counts of chunks that the viewer may not see are taken
    off, so that a score tells nothing about them. Most homes have no such chunks.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        visible: frozenset[str] | None = None,
        postings: Postings | None = None,
    ) -> None:
        """`visible` are the workspaces of facts that the viewer sees; None means all.

        `postings` are the arrays that the process keeps; without them FTS5 does all.
        """
        self._connection = connection
        self._visible = visible
        self._postings = postings
        self._arrays: WordArrays | None = None
        self._frequencies: dict[tuple[str, str], int] = {}

    @cached_property
    def _kept_arrays(self) -> WordArrays | None:
        return self._postings.arrays(self._connection) if self._postings else None

    @fts.fts_errors
    def prepare(self, query: WordQuery) -> None:
        if self._arrays is None and self._kept_arrays is not None:
            self._arrays = self._kept_arrays
            self._frequencies = self._arrays.frequencies
            if len(self._frequencies) > _MOST_FREQUENCIES:
                self._frequencies.clear()

    @cached_property
    def hidden_workspaces(self) -> str:
        """The ids of the workspaces that the viewer may not see, as JSON; "" if there are none."""
        if self._visible is None:
            return ""
        rows = self._connection.execute(
            "SELECT id, root FROM workspaces WHERE root GLOB ?", (f"{FACT_WORKSPACE}*",)
        )
        hidden = [workspace for workspace, root in rows if root not in self._visible]
        return json.dumps(hidden) if hidden else ""

    @cached_property
    def _hidden(self) -> str:
        """The ids of the chunks that the viewer may not see, as JSON; "" if there are none."""
        if not self.hidden_workspaces:
            return ""
        chunks = self._connection.execute(
            "SELECT json_group_array(c.id) FROM chunks c JOIN notes n ON n.id = c.note_id"
            " WHERE n.workspace_id IN (SELECT value FROM json_each(?))",
            (self.hidden_workspaces,),
        ).get
        return "" if chunks == "[]" else str(chunks)

    @cached_property
    def _all_chunks(self) -> int:
        if self._arrays is not None:
            return len(self._arrays.chunks)
        return int(self._connection.execute("SELECT count(*) FROM chunks").get)

    @cached_property
    def total(self) -> int:
        return self._all_chunks - (len(json.loads(self._hidden)) if self._hidden else 0)

    @cached_property
    def _tokenizer(self) -> Fts5Tokenizer:
        return Fts5Tokenizer(self._connection)

    @fts.fts_errors
    def tokens(self, text: str) -> list[tuple[str, str]]:
        return self._tokenizer.query_tokens(text)

    @fts.fts_errors
    def document_frequency(self, token: str) -> int:
        key = token, self.hidden_workspaces
        if key not in self._frequencies:
            execute = self._connection.execute
            frequency = execute("SELECT rows FROM common_words WHERE term = ?", (token,)).get
            if frequency is None or self._hidden:
                frequency = execute("SELECT doc FROM vocabulary WHERE term = ?", (token,)).get
            self._frequencies[key] = int(frequency or 0) - self._count_hidden(token)
        return self._frequencies[key]

    def _count_hidden(self, token: str) -> int:
        """Return how many of the chunks that the viewer may not see contain a token."""
        if not self._hidden:
            return 0
        condition, value = self._containing(token)
        statement = (
            f"SELECT count(*) FROM words w WHERE {condition}"
            " AND +w.rowid IN (SELECT value FROM json_each(?))"
        )
        return int(self._connection.execute(statement, (value, self._hidden)).get)

    def _containing(self, token: str) -> tuple[str, str]:
        """Return the condition on rows `w` that contain a token, and its value.

        MATCH would stem the token again, and some stems have another stem.
        """
        if [again for again, _ in self._tokenizer.query_tokens(token)] == [token]:
            return "w.words MATCH ?", f'"{token}"'
        fts.ensure_places(self._connection)
        return "w.rowid IN (SELECT doc FROM temp.word_places WHERE term = ?)", token

    @fts.fts_errors
    def prefix_frequency(self, start: str) -> int:
        key = f"{start}*", self.hidden_workspaces
        if key not in self._frequencies:
            condition, values = fts.beginning_with(start)
            rows: Any = self._connection.execute(
                f"SELECT term, doc FROM vocabulary WHERE {condition}", values
            ).fetchall()
            visible = (frequency - self._count_hidden(term) for term, frequency in rows)
            self._frequencies[key] = sum(visible)
        return self._frequencies[key]

    def occurs(self, condition: Condition) -> bool:
        visible = "AND +rowid NOT IN (SELECT value FROM json_each(?))" if self._hidden else ""
        return bool(self._matching(condition, f"{visible} LIMIT 1"))

    def problem(self) -> str:
        return self._problem

    @cached_property
    def _problem(self) -> str:
        return fts.find_problem(self._connection)

    def runner(self, query: WordQuery, limit: int, only: Sequence[int] = ()) -> fts.Bm25Runner:
        conditions = [clause.condition for clause in self._ranking(query)[0].clauses]
        conditions += filter(
            None, (required_condition(query, self), excluded_condition(query, self))
        )
        terms = chain.from_iterable(map(terms_in, conditions))
        if (arrays := self._arrays_for(terms)) is None:
            return fts.FtsRunner(self._connection, query, limit, self, only)
        from memwell.store.sqlite.array_runner import ArrayRunner

        return ArrayRunner(arrays, self._connection, query, limit, self, only)

    def _arrays_for(self, terms: Iterable[Term]) -> WordArrays | None:
        """Return the arrays, unless a token of the terms has too many places to read."""
        if self._arrays is None:
            return None
        most = max((self._holders(term) for term in terms), default=0)
        return self._arrays if most <= _MOST_CHUNKS else None

    def _holders(self, term: Term) -> int:
        """Return how many chunks hold the most common token of a term."""
        *inner, last = term.tokens
        of_last = self.prefix_frequency(last) if term.prefix else self.document_frequency(last)
        return max([of_last, *map(self.document_frequency, inner)])

    def occurrences(
        self, terms: Sequence[Term], chunk_ids: Sequence[int]
    ) -> tuple[float, dict[int, Occurrences]]:
        average, counted = fts.count_occurrences(self._connection, terms, chunk_ids)
        return self._without_hidden(average), counted

    def rate(
        self, scored: ScoredQuery, chunk_ids: Sequence[int]
    ) -> Iterable[tuple[int, float, float]]:
        if (arrays := self._arrays_for(scored.terms)) is None:
            return super().rate(scored, chunk_ids)
        chunks, counts = arrays.occurrences(scored.terms, chunk_ids, self._connection)
        average = self._without_hidden(arrays.average_length)
        numbers = (chunks, scored.score(counts, average), scored.covered(counts))
        return zip(*(array.tolist() for array in numbers), strict=True)

    def _without_hidden(self, average: float) -> float:
        """Return the average length of the chunks that the viewer sees, from that of all."""
        if not (self._hidden and self.total):
            return average
        tokens = average * self._all_chunks - fts.count_tokens(self._connection, self._hidden)
        return tokens / self.total

    def required_and_excluded(self, query: WordQuery) -> tuple[Sequence[int] | None, Sequence[int]]:
        """Return the chunks with all required words (None: all chunks), and those with excluded."""
        required, excluded = required_condition(query, self), excluded_condition(query, self)
        return (
            self._matching(required) if required else None,
            self._matching(excluded) if excluded else [],
        )

    @fts.fts_errors
    def _matching(self, condition: Condition, rest: str = "") -> list[int]:
        hidden = (self._hidden,) if "?" in rest else ()
        rows = self._connection.execute(
            f"SELECT rowid FROM words WHERE words MATCH ? {rest}",
            (fts.match_text(condition), *hidden),
        )
        return [chunk_id for (chunk_id,) in rows]

    def has_matching(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        required, excluded = self.required_and_excluded(query)
        matching = {*chunk_ids} if required is None else {*chunk_ids} & {*required}
        return bool(matching - {*excluded})

    @fts.fts_errors
    def vocabulary(self, shortest: int, longest: int) -> Iterator[str]:
        if self._arrays is not None:
            words = self._arrays.vocabulary(self._connection)
            return (term for term in words if shortest <= len(term) <= longest)
        rows: Any = self._connection.execute(
            "SELECT term FROM vocabulary WHERE length(term) BETWEEN ? AND ?", (shortest, longest)
        ).fetchall()
        return (term for (term,) in rows)

    def surface_form(self, token: str, like: str, filters: Filters) -> str | None:
        condition, values = filter_sql(filters)
        containing, value = self._containing(token)
        text: str | None = self._connection.execute(
            f"""
            SELECT c.text || ' ' || c.heading || ' ' || n.names || ' ' || n.path
            FROM words w JOIN chunks c ON c.id = w.rowid JOIN notes n ON n.id = c.note_id
            WHERE {containing} {condition} LIMIT 1
            """,
            (value, *values),
        ).get
        return None if text is None else surface_form(token, like, text, self.tokens)


def count_common_words(connection: apsw.Connection) -> None:
    """Store the frequencies of the common words of a large index, unless they are still right."""
    total = SqliteKeywords(connection).total
    counted = connection.execute("SELECT value FROM meta WHERE key = 'counted_chunks'").get
    before = int(counted or 0)
    if total < _LARGE or before / _OUTDATED < total < before * _OUTDATED:
        return
    connection.execute("DELETE FROM common_words")
    connection.execute(
        "INSERT INTO common_words SELECT term, doc FROM vocabulary WHERE doc >= ?",
        (int(total * _COMMON),),
    )
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('counted_chunks', ?)", (str(total),))
