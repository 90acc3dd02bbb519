"""The keyword leg: FTS5 filled, kept in step with the chunks, and searched by BM25.

The sign of FTS5's ``bm25()`` (negative, lower is better) is turned around here, once: every
score that leaves this module is positive and higher is better.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

import apsw

from memwell.store.contract.index import Vocabulary
from memwell.store.contract.query import Match, Node, WordQuery
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.schema import DROP_KEYWORD_TABLES, KEYWORD_TABLES
from memwell.store.words.normalise import WORDS_VERSION, indexed_parts, indexed_text
from memwell.store.words.query import Clause, joined, to_clauses, to_conditions, unknown_words

COLUMN_WEIGHTS = {"content": 1.0, "heading": 1.5, "name": 1.0, "parts": 1.0}
"""Occurrences in a heading or title count half as much again: measured, see docs/ranking.md."""

POOL = 100
"""Matches a search always looks for, however few are asked for."""

MOST_UNITS = 64
"""Words of a query that are searched, rarest first."""

# How words are chosen to select (see `_ranked`): at least these many postings, or this share
# of all chunks, and exact down to this rank.
_SELECT_ROWS = 2_000
_SELECT_SHARE = 0.03
_EXACT_RANK = 10
_WIDEN = 4


class KeywordSearchUnavailable(Exception):
    """FTS5 cannot be had, or its tables are broken; the reason is the message."""


@dataclass(frozen=True, slots=True)
class WordRow:
    """What the keyword index is given of one chunk."""

    chunk_id: int
    text: str
    heading: str
    names: str
    path: str

    def columns(self) -> tuple[int, str, str, str, str]:
        """Return the row as FTS5 indexes it; the same again to delete it."""
        heading = "\n".join(dict.fromkeys([*self.names.split("\n"), *self.heading.split("\n")]))
        everything = f"{self.text}\n{heading}\n{self.path}"
        return (
            self.chunk_id,
            indexed_text(self.text),
            indexed_text(heading),
            indexed_text(self.path),
            indexed_parts(everything),
        )


_WORD_ROWS = """
    SELECT c.id, c.text, c.heading, n.names, n.path
    FROM chunks c JOIN notes n ON n.id = c.note_id
"""


def ensure(connection: apsw.Connection) -> None:
    """Create or rebuild the keyword index where it is missing, old or was left behind.

    Raises `WordsUnavailable` where FTS5 cannot be had.
    """
    if _built_version(connection) == str(WORDS_VERSION):
        return
    try:
        connection.execute(DROP_KEYWORD_TABLES)
        connection.execute(KEYWORD_TABLES)
        connection.execute("DELETE FROM meta WHERE key = 'counted_chunks'")
        rows = connection.execute(_WORD_ROWS)
        add(connection, (WordRow(*row) for row in rows))
    except (apsw.SQLError, apsw.AuthError) as error:
        raise KeywordSearchUnavailable(str(error)) from error
    _set_version(connection, str(WORDS_VERSION))


def find_problem(connection: apsw.Connection) -> str:
    """Return why words cannot be searched, or "" if they can."""
    if _built_version(connection) != str(WORDS_VERSION):
        return "the keyword index has not been built (SQLite's FTS5 was not available)"
    try:
        connection.execute("SELECT rowid FROM words LIMIT 0")
    except (apsw.SQLError, apsw.AuthError) as error:
        return str(error)
    return ""


def mark_stale(connection: apsw.Connection) -> None:
    """Record that chunks changed without the keyword index, so that it is rebuilt."""
    _set_version(connection, "")


def _built_version(connection: apsw.Connection) -> str | None:
    found = connection.execute("SELECT value FROM meta WHERE key = 'words_version'").get
    return None if found is None else str(found)


def _set_version(connection: apsw.Connection, version: str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('words_version', ?)", (version,))


def word_rows(connection: apsw.Connection, note_id: int) -> list[WordRow]:
    """Return the rows the keyword index holds of a note, from the tables as they are now."""
    return [WordRow(*row) for row in connection.execute(f"{_WORD_ROWS} WHERE n.id = ?", (note_id,))]


def add(connection: apsw.Connection, rows: Iterable[WordRow]) -> None:
    """Index chunks."""
    connection.executemany(
        "INSERT INTO words (rowid, content, heading, name, parts) VALUES (?, ?, ?, ?, ?)",
        (row.columns() for row in rows),
    )


def remove(connection: apsw.Connection, rows: Iterable[WordRow]) -> None:
    """Take chunks out; FTS5 must be told again exactly what it was given."""
    connection.executemany(
        "INSERT INTO words (words, rowid, content, heading, name, parts)"
        " VALUES ('delete', ?, ?, ?, ?, ?)",
        (row.columns() for row in rows),
    )


def search(
    connection: apsw.Connection, lexicon: Vocabulary, query: WordQuery, limit: int
) -> list[Match]:
    """Return the best matches, best first."""
    return rank_chunks(
        FtsRunner(connection, query, max(limit, POOL), lexicon), lexicon, query, limit
    )


def scores_of(
    connection: apsw.Connection, lexicon: Vocabulary, query: WordQuery, chunk_ids: Sequence[int]
) -> dict[int, float]:
    """Return the scores of those of some chunks that match, as `search` would give them."""
    return scores(FtsRunner(connection, query, len(chunk_ids), lexicon, chunk_ids), lexicon, query)


# -- ranking, whichever store looks words up ------------------------------------------------------


class ClauseRunner(Protocol):
    """Looks expressions up under the exclusions and filters of one query."""

    def run(self, selecting: str, scoring: Sequence[Clause] = ()) -> dict[int, float]:
        """Score the chunks that `selecting` matches by it and by the words that only score."""

    def top_candidates(self, words: Sequence[Clause]) -> dict[int, float]:
        """Score the best chunks for words by an index that finds them, or none without one."""


def rank_chunks(
    runner: ClauseRunner, lexicon: Vocabulary, query: WordQuery, limit: int
) -> list[Match]:
    """Return the best matches of a query, best first."""
    must = joined("AND", (to_conditions(node, lexicon) for node in query.all_of))
    ranking = _ranking(query, lexicon)
    found = runner.run(must, ranking) if must else _rank(runner, ranking, lexicon.total)
    return order_matches(found, limit)


def order_matches(found: Mapping[int, float], limit: int) -> list[Match]:
    """Return chunks with their scores, best first."""
    best_first = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Match(chunk_id, score) for chunk_id, score in best_first[:limit]]


def scores(runner: ClauseRunner, lexicon: Vocabulary, query: WordQuery) -> dict[int, float]:
    """Return the scores of what matches, of the few chunks that a runner looks at."""
    must = joined("AND", (to_conditions(node, lexicon) for node in query.all_of))
    ranking = _drop_stopwords(_ranking(query, lexicon), lexicon.total)
    every = joined("OR", (word.expression for word in ranking))
    return runner.run(must, ranking) if must else runner.run(every)


def ideal_score(lexicon: Vocabulary, query: WordQuery) -> float:
    """Return about what a chunk of average length scores that holds every word that ranks.

    A word that no chunk holds counts as the rarest there could be.
    """
    rows = [unit.document_frequency for unit in _ranking(query, lexicon)]
    rows += [0] * len(unknown_words(query.any_of, lexicon))
    return sum(idf(some, lexicon.total) for some in rows)


def idf(rows: int, total: int) -> float:
    """Return the weight of a word in BM25; of a beginning of words, `rows` is an estimate."""
    rows = min(rows, total)
    return max(0.0, math.log((total - rows + 0.5) / (rows + 0.5)))


def must_and_must_not(
    connection: apsw.Connection, lexicon: Vocabulary, query: WordQuery
) -> tuple[list[int] | None, list[int]]:
    """Return the chunks that hold what must match (None: nothing must), and what must not."""
    must = joined("AND", (to_conditions(node, lexicon) for node in query.all_of))
    unwanted = joined("OR", (to_conditions(node, lexicon) for node in query.none_of))

    def matching(expression: str) -> list[int]:
        rows = connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,))
        return [chunk_id for (chunk_id,) in rows]

    return matching(must) if must else None, matching(unwanted) if unwanted else []


_RANKING: WeakKeyDictionary[Vocabulary, dict[Sequence[Node], list[Clause]]] = WeakKeyDictionary()


def _ranking(query: WordQuery, lexicon: Vocabulary) -> list[Clause]:
    """Return the words to rank by, rarest first; worked out once in a state of an index."""
    known = _RANKING.setdefault(lexicon, {})
    if query.any_of not in known:
        ranking = sorted(
            to_clauses(query.any_of, lexicon), key=lambda unit: unit.document_frequency
        )
        known[query.any_of] = ranking[:MOST_UNITS]
    return known[query.any_of]


def _drop_stopwords(words: Sequence[Clause], total: int) -> Sequence[Clause]:
    """Leave out words in over half of the chunks, where looking them up would cost much.

    They have next to no weight in FTS5's BM25.
    """
    if sum(word.document_frequency for word in words) <= _budget(total):
        return words
    return [word for word in words if word.document_frequency <= total / 2] or words[:1]


def _budget(total: int) -> float:
    """Return how many postings may be looked up without a thought."""
    return max(_SELECT_ROWS, _SELECT_SHARE * total)


def _rank(runner: ClauseRunner, words: Sequence[Clause], total: int) -> dict[int, float]:
    """Rank chunks by the sum of their words' BM25, without looking at every chunk with "the".

    After MaxScore (Turtle and Flood 1995): the rarest words select, the common ones only add
    to the score of what was selected. A chunk of common words alone is missed, so the choice
    stands only if such a chunk could hardly matter: if the tenth best score is at least what a
    chunk of average length would get that holds each common word once. Otherwise more words
    select, and so on, until all do. An index that finds the best by itself spares all this.
    """
    budget, weighty = _budget(total), _drop_stopwords(words, total)
    if sum(word.document_frequency for word in words) > budget and (
        best_ones := runner.top_candidates(weighty)
    ):
        return best_ones
    while True:
        selecting, scoring = _split(weighty, budget)
        found = runner.run(joined("OR", (word.expression for word in selecting)), scoring)
        if not scoring or _is_exact_enough(found, scoring, total):
            return found
        budget = max(
            budget * _WIDEN, sum(word.document_frequency for word in weighty[: len(selecting) + 1])
        )


def _split(words: Sequence[Clause], budget: float) -> tuple[Sequence[Clause], Sequence[Clause]]:
    """Divide words, rarest first, where their postings exceed the budget."""
    spent = 0
    for position, word in enumerate(words):
        spent += word.document_frequency
        if position and spent > budget:
            return words[:position], words[position:]
    return words, ()


def _is_exact_enough(found: dict[int, float], scoring: Sequence[Clause], total: int) -> bool:
    if len(found) < POOL:
        return False
    could_matter = sum(idf(word.document_frequency, total) for word in scoring)
    return sorted(found.values(), reverse=True)[_EXACT_RANK - 1] >= could_matter


class FtsRunner:
    """Runs FTS5 expressions under the exclusions and filters of one query."""

    def __init__(
        self,
        connection: apsw.Connection,
        query: WordQuery,
        limit: int,
        lexicon: Vocabulary,
        only: Sequence[int] = (),
    ) -> None:
        self.connection = connection
        self.unwanted = joined("OR", (to_conditions(node, lexicon) for node in query.none_of))
        weights = ", ".join(str(weight) for weight in COLUMN_WEIGHTS.values())
        bm25 = f"w.rank MATCH 'bm25({weights})'"
        if only:
            # The plus keeps SQLite from asking FTS5 anew for each chunk.
            self.parameters: list[str | int] = [json.dumps([*only]), len(only)]
            self.statement = f"""
                SELECT w.rowid, w.rank FROM words w
                WHERE w.words MATCH ? AND {bm25}
                    AND +w.rowid IN (SELECT value FROM json_each(?)) LIMIT ?
            """
            return
        # CROSS JOIN keeps FTS5 in the outer loop, where it ranks; the filter is then asked only
        # of the best rows, one after the other, until there are enough.
        joins = "CROSS JOIN chunks c ON c.id = w.rowid CROSS JOIN notes n ON n.id = c.note_id"
        condition, values = filter_sql(query.filters)
        self.parameters = [*values, limit]
        self.statement = f"""
            SELECT w.rowid, w.rank FROM words w {joins if condition else ""}
            WHERE w.words MATCH ? AND {bm25} {condition} ORDER BY w.rank LIMIT ?
        """

    def run(self, selecting: str, scoring: Sequence[Clause] = ()) -> dict[int, float]:
        """Score the chunks that `selecting` matches by it and by the words that only score.

        Two queries, since FTS5 counts a phrase as often as it is written: chunks by what
        selects, and those of them with any scoring word by both. The greater is the sum.
        """
        if not selecting:
            return {}
        found = self._scores(selecting)
        if scoring:
            adding = joined("OR", (word.expression for word in scoring))
            for chunk_id, score in self._scores(f"({selecting} AND {adding})").items():
                found[chunk_id] = max(score, found.get(chunk_id, 0.0))
        return found

    def top_candidates(self, words: Sequence[Clause]) -> dict[int, float]:
        """Return none: FTS5 looks at every chunk that holds any of the words."""
        return {}

    def _scores(self, expression: str) -> dict[int, float]:
        if self.unwanted:
            expression = f"({expression}) NOT {self.unwanted}"
        rows = self.connection.execute(self.statement, (expression, *self.parameters))
        return {chunk_id: -rank for chunk_id, rank in rows}
