"""The keyword leg on plain PostgreSQL: BM25 over postings, the same scores as FTS5's.

A chunk's score is the sum, over the rows of tokens that a query looks for and the chunk holds, of
idf · f · (k1 + 1) / (f + k1 · (1 - b + b · length / average)). What is looked for and which words
select is decided where SQLite's is: see ../keyword.py and ../expressions.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memwell.store.contract.query import Match, WordQuery
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.postings import find_chunks
from memwell.store.postgres.server import Session
from memwell.store.postgres.sought import But, Every, Row, Some, Sought, read, rows_in
from memwell.store.postgres.sql import Values, of_agent
from memwell.store.postgres.textsearch import find_candidates
from memwell.store.postgres.tokenizer import tokenize
from memwell.store.postgres.vocabulary import Vocabulary
from memwell.store.sqlite import fts
from memwell.store.sqlite.fts import POOL
from memwell.store.words.query import Clause, joined, to_conditions

K1, B = 1.2, 0.75
"""As in FTS5, where they cannot be changed."""
_SPARSE = 10
"""Of so many chunks one is few: their postings are looked up one by one."""
_LOOKUP = 10
"""Postings that are looked through in the time in which one is looked up."""
_LEAST_IDF = 1e-6
"""What FTS5 gives to a word in over half of the chunks."""


class WordLeg(Protocol):
    """One way of searching words in PostgreSQL."""

    def search(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the best matches, best first."""

    def scores_of(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return the scores of those of some chunks that match, as `search` would give them."""

    def ideal(self, query: WordQuery) -> float:
        """Return about what a chunk of average length scores that holds every word that ranks."""

    def restriction(self, query: WordQuery, values: Values) -> str:
        """Return conditions on ``c.id`` for what must match and must not; each begins with AND."""


class Words:
    """The words of one state of an index."""

    def __init__(self, session: Session, lexicon: Vocabulary) -> None:
        self._session = session
        self._lexicon = lexicon

    def search(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the best matches, best first."""
        self._lexicon.prepare(query)
        runner = PostingsRunner(self._session, self._lexicon, query, max(limit, POOL))
        return fts.rank_chunks(runner, self._lexicon, query, limit)

    def scores_of(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return the scores of those of some chunks that match, as `search` would give them."""
        self._lexicon.prepare(query)
        runner = PostingsRunner(self._session, self._lexicon, query, len(chunk_ids), chunk_ids)
        return fts.scores(runner, self._lexicon, query)

    def ideal(self, query: WordQuery) -> float:
        """Return about what a chunk of average length scores that holds every word that ranks."""
        self._lexicon.prepare(query)
        return fts.ideal_score(self._lexicon, query)

    def restriction(self, query: WordQuery, values: Values) -> str:
        """Return conditions on ``c.id`` for what must match and must not; each begins with AND."""
        must = joined("AND", (to_conditions(node, self._lexicon) for node in query.all_of))
        unwanted = joined("OR", (to_conditions(node, self._lexicon) for node in query.none_of))
        sql = f" AND c.id IN ({self._holding(must, values)})" if must else ""
        return sql + (f" AND c.id NOT IN ({self._holding(unwanted, values)})" if unwanted else "")

    def _holding(self, expression: str, values: Values) -> str:
        """Return the statement for the chunks that match an expression."""
        sought = read(expression, tokenize)
        numbers = {row: number for number, row in enumerate(dict.fromkeys(rows_in(sought)))}
        hits = " UNION ALL ".join(
            f"SELECT {number} AS number, m.chunk_id FROM ({find_chunks(row, values)}) AS m"
            for row, number in numbers.items()
        )
        holds = _condition(sought, numbers)
        return f"SELECT h.chunk_id FROM ({hits}) AS h GROUP BY h.chunk_id HAVING {holds}"


class PostingsRunner:
    """Runs expressions under the exclusions and filters of one query."""

    def __init__(
        self,
        session: Session,
        lexicon: Vocabulary,
        query: WordQuery,
        limit: int,
        only: Sequence[int] = (),
    ) -> None:
        self._session = session
        self._lexicon = lexicon
        self._query = query
        self._limit = limit
        self._only = only

    def run(self, selecting: str, scoring: Sequence[Clause] = ()) -> dict[int, float]:
        """Score the chunks that `selecting` matches by it and by the words that only score."""
        if not selecting:
            return {}
        unwanted = joined(
            "OR", (to_conditions(node, self._lexicon) for node in self._query.none_of)
        )
        wanted = f"({selecting} NOT {unwanted})" if unwanted else selecting
        statement, values = self._statement(
            read(wanted, tokenize), [read(unit.expression, tokenize) for unit in scoring]
        )
        return dict(self._session.rows(statement, **values))

    def top_candidates(self, words: Sequence[Clause]) -> dict[int, float]:
        """Score the best chunks for words by the agent's index of texts, if it has one."""
        some = find_candidates(self._session, self._lexicon, self._query, words, self._limit)
        if not some:
            return {}
        only = PostingsRunner(self._session, self._lexicon, self._query, len(some), some)
        return only.run(joined("OR", (word.expression for word in words)))

    def _statement(self, selecting: Sought, scoring: Sequence[Sought]) -> tuple[str, Values]:
        """Return the statement for the best chunks, each with its score.

        What only scores is looked up for those chunks alone that it could lift among the best.
        """
        values = Values()
        base = ClauseSql(selecting, self._lexicon, values, given=True)
        chunk = _chunk(few=len(self._only) * _SPARSE < self._lexicon.total)
        only = f"AND {chunk} = ANY({values([*self._only])})" if self._only else ""
        steps = [
            f"hits AS MATERIALIZED ({base.hits(only)})",
            f"chosen AS (SELECT h.chunk_id, {base.score} AS score FROM hits h"
            f" GROUP BY h.chunk_id HAVING {base.condition})",
        ]
        filters = "" if self._only else filter_sql(self._query.filters, values)
        if filters:
            steps.append(
                f"""
                allowed AS (
                    SELECT f.chunk_id, f.score FROM chosen f
                    JOIN chunks c ON {of_agent("c")} AND c.id = f.chunk_id
                    JOIN notes n ON {of_agent("n")} AND n.id = c.note_id WHERE true {filters}
                )
                """
            )
        best = f"ORDER BY score DESC, chunk_id LIMIT {values(self._limit)}"
        found = "allowed" if filters else "chosen"
        if not scoring:
            return f"WITH {', '.join(steps)} SELECT chunk_id, score FROM {found} {best}", values
        more = ClauseSql(Some(tuple(scoring)), self._lexicon, values)
        chunk = _chunk(few=base.rows * len(scoring) * _LOOKUP < more.rows)
        near = f"AND {chunk} IN (SELECT chunk_id FROM near)"
        last = f"SELECT score FROM {found} ORDER BY score DESC OFFSET {values(self._limit - 1)}"
        steps += [
            f"near AS MATERIALIZED (SELECT * FROM {found} WHERE score + {values(more.most)}"
            f" >= coalesce(({last} LIMIT 1), 0))",
            f"added AS ({more.hits(near)})",
            f"more AS (SELECT h.chunk_id, {more.score} AS score FROM added h GROUP BY h.chunk_id)",
        ]
        return (
            # Not joined: how many there are is not known beforehand, and loops would be chosen.
            f"WITH {', '.join(steps)} SELECT chunk_id, sum(score) AS score FROM"
            " (SELECT * FROM near UNION ALL SELECT * FROM more) AS parts"
            f" GROUP BY chunk_id {best}"
        ), values


class ClauseSql:
    """An expression as SQL: the hits of its rows of tokens, which of them count, and how much."""

    def __init__(
        self, sought: Sought, lexicon: Vocabulary, values: Values, *, given: bool = False
    ) -> None:
        """With `given`, only chunks that match the whole of it are looked at."""
        self._values = values
        self._average = lexicon.average
        self._numbers = {row: number for number, row in enumerate(dict.fromkeys(rows_in(sought)))}
        counts = {row: lexicon.count(row) for row in self._numbers}
        self._idf = {
            row: max(_LEAST_IDF, fts.idf(count, lexicon.total)) for row, count in counts.items()
        }
        self.rows = sum(counts.values())
        """How often a chunk holds one of its rows of tokens."""
        self._sought = sought
        self._given = given

    @property
    def most(self) -> float:
        """What a chunk can get at most."""
        return sum(self._idf.values()) * (K1 + 1)

    @property
    def condition(self) -> str:
        """Whether a chunk matches, over its hits: whichever it is, where any will do.

        The plainest questions so are one statement, which the server plans once.
        """
        parts = self._sought.parts if isinstance(self._sought, Some) else (self._sought,)
        plain = all(isinstance(part, Row) for part in parts)
        return "true" if plain else _condition(self._sought, self._numbers)

    @property
    def score(self) -> str:
        """The sum over the hits of a chunk; what a part holds that does not match is left out."""
        plain: list[str] = []
        terms = []
        for row, condition in _scoring_terms(self._sought, self._numbers, given=self._given):
            number = str(self._numbers[row])
            if condition or number in plain:  # what is written twice counts twice
                terms.append(
                    f"CASE WHEN {condition or 'true'} THEN {_sum_scores(number)} ELSE 0 END"
                )
            else:
                plain.append(number)
        if len(plain) == len(self._numbers) and not terms:
            return "sum(h.part)"
        return " + ".join([*terms, *([_sum_scores(", ".join(plain))] if plain else ())])

    def hits(self, only: str) -> str:
        """Return the statement for number, chunk_id and part of every row that a chunk holds."""
        single = [row for row in self._numbers if len(row.tokens) == 1 and not row.prefix]
        other = [row for row in self._numbers if row not in single]
        return " UNION ALL ".join(
            [
                *([self._tokens(single, only)] if single else ()),
                *(self._row(r, only) for r in other),
            ]
        )

    def _tokens(self, rows: Sequence[Row], only: str) -> str:
        tokens = self._values([row.tokens[0] for row in rows])
        numbers = self._values([self._numbers[row] for row in rows])
        idfs = self._values([self._idf[row] for row in rows])
        return f"""
            SELECT t.number, p.chunk_id, {self._bm25("t.idf", "p.frequency::float8", "p.length")}
            FROM unnest({tokens}::text[], {numbers}::int[], {idfs}::float8[])
                AS t (token, number, idf)
            CROSS JOIN LATERAL (
                SELECT p.chunk_id, p.frequency, p.length FROM postings p
                WHERE {of_agent("p")} AND p.token = t.token {only}
                OFFSET 0  -- token by token, whatever the server knows of a new tenant
            ) AS p
        """

    def _row(self, row: Row, only: str) -> str:
        part = self._bm25(f"{self._values(self._idf[row])}::float8", "m.frequency", "m.length")
        return f"""
            SELECT {self._numbers[row]} AS number, m.chunk_id, {part}
            FROM ({find_chunks(row, self._values, only)}) AS m
        """

    def _bm25(self, idf: str, frequency: str, length: str) -> str:
        norm = f"({1 - B} + {B} * {length} / {self._values(self._average)}::float8)"
        return f"{idf} * ({frequency} * {K1 + 1}) / ({frequency} + {K1} * {norm}) AS part"


def _chunk(*, few: bool) -> str:
    """Return what to choose chunks by: postings of few are looked up, else looked through."""
    return "p.chunk_id" if few else "(p.chunk_id + 0)"


def _sum_scores(numbers: str) -> str:
    return f"coalesce(sum(h.part) FILTER (WHERE h.number IN ({numbers})), 0)"


def _condition(sought: Sought, numbers: dict[Row, int]) -> str:
    """Return whether a chunk matches, as a condition on the numbers of its hits."""
    match sought:
        case Row():
            return f"bool_or(h.number = {numbers[sought]})"
        case Every(parts) | Some(parts):
            operator = " AND " if isinstance(sought, Every) else " OR "
            return f"({operator.join(_condition(part, numbers) for part in parts)})"
        case But(wanted, unwanted):
            return f"({_condition(wanted, numbers)} AND NOT {_condition(unwanted, numbers)})"


def _scoring_terms(
    sought: Sought, numbers: dict[Row, int], *, given: bool, under: str = ""
) -> list[tuple[Row, str]]:
    """Return the rows that may add to a score, each with what must hold besides ("": nothing)."""
    match sought:
        case Row():
            return [(sought, under)]
        case Some(parts):
            inner, given = parts, False
        case Every(parts):
            inner = parts
        case But(wanted, _):
            inner = (wanted,)
    if not isinstance(sought, Some) and not given:
        own = _condition(sought, numbers)
        under, given = f"{under} AND {own}" if under else own, True
    return [
        counted
        for part in inner
        for counted in _scoring_terms(part, numbers, given=given, under=under)
    ]
