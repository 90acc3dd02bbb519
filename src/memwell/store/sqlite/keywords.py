"""The keyword index of one state of index.db: its vocabulary, and the search for words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import apsw

from memwell.store.contract.query import Filters, WordQuery
from memwell.store.contract.values import FACT_WORKSPACE
from memwell.store.fts5_tokenizer import Fts5Tokenizer
from memwell.store.rows import surface_form
from memwell.store.sqlite import fts
from memwell.store.sqlite.filters import filter_sql
from memwell.store.words.query import excluded_condition, required_condition
from memwell.store.words.ranking import RankedKeywords
from memwell.store.words.scoring import Occurrences
from memwell.store.words.tree import Condition, Term

_LAST_CHARACTER = "\U0010ffff"
_LARGE = 20_000
"""From this many chunks on, the frequencies of common words are stored: FTS5 counts a word by
walking through all its postings, which takes a millisecond or two for each common word."""
_COMMON = 0.02
"""A word is common if at least this share of the chunks holds it."""
_OUTDATED = 1.25
"""The stored frequencies are renewed when the index has grown or shrunk by this factor."""


class SqliteKeywords(RankedKeywords):
    """The keyword index as FTS5 has it, and as one viewer sees it.

    FTS5 counts the words of all chunks. The counts of chunks that the viewer may not see are taken
    off, so that a score tells nothing about them. Most homes have no such chunks.
    """

    def __init__(self, connection: apsw.Connection, visible: frozenset[str] | None = None) -> None:
        """`visible` are the workspaces of facts that the viewer sees; None means all."""
        self._connection = connection
        self._visible = visible
        self._frequencies: dict[str, int] = {}

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
        if token not in self._frequencies:
            execute = self._connection.execute
            frequency = execute("SELECT rows FROM common_words WHERE term = ?", (token,)).get
            if frequency is None or self._hidden:
                frequency = execute("SELECT doc FROM vocabulary WHERE term = ?", (token,)).get
            self._frequencies[token] = int(frequency or 0) - self._count_hidden(token)
        return self._frequencies[token]

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
        # A temporary table is not in the file, but SQLite lets only a writer make one.
        is_reader = self._connection.pragma("query_only")
        self._connection.pragma("query_only", False)
        try:
            self._connection.execute(fts.PLACES)
        finally:
            self._connection.pragma("query_only", is_reader)
        return "w.rowid IN (SELECT doc FROM temp.word_places WHERE term = ?)", token

    @fts.fts_errors
    def prefix_frequency(self, start: str) -> int:
        rows: Any = self._connection.execute(
            "SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ?",
            (start, start + _LAST_CHARACTER),
        ).fetchall()
        return sum(frequency - self._count_hidden(term) for term, frequency in rows)

    def occurs(self, condition: Condition) -> bool:
        visible = "AND +rowid NOT IN (SELECT value FROM json_each(?))" if self._hidden else ""
        return bool(self._matching(condition, f"{visible} LIMIT 1"))

    def problem(self) -> str:
        return fts.find_problem(self._connection)

    def runner(self, query: WordQuery, limit: int, only: Sequence[int] = ()) -> fts.FtsRunner:
        return fts.FtsRunner(self._connection, query, limit, self, only)

    def occurrences(
        self, terms: Sequence[Term], chunk_ids: Sequence[int]
    ) -> tuple[float, dict[int, Occurrences]]:
        average, counted = fts.count_occurrences(self._connection, terms, chunk_ids)
        if self._hidden and self.total:
            tokens = average * self._all_chunks - fts.count_tokens(self._connection, self._hidden)
            average = tokens / self.total
        return average, counted

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
