"""Keyword search in PostgreSQL: BM25 over postings, with the same scores as FTS5's.

A chunk's score is the sum, over the terms of a query that the chunk holds, of
idf · f · (k1 + 1) / (f + k1 · (1 - b + b · length / average)). The module words/ranking.py decides
what is searched and which words select, here as in SQLite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memwell.store.contract.query import WordQuery
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.postings import chunks_with_term, condition_sql, number_terms
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import Values, of_agent
from memwell.store.postgres.textsearch import find_candidates
from memwell.store.words.query import Clause, excluded_condition
from memwell.store.words.ranking import ClauseRunner, select_idf
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term, and_not, any_of

if TYPE_CHECKING:
    from memwell.store.postgres.keywords import PostgresKeywords

K1, B = 1.2, 0.75
"""As in FTS5, where they cannot be changed."""
_SPARSE = 10
"""If fewer than one in this many chunks is allowed, their postings are looked up one by one."""
_LOOKUP = 10
"""Postings that can be scanned in the time that looking up one takes."""
_LEAST_IDF = 1e-6
"""The weight that FTS5 gives to a word in over half of the chunks."""


class PostingsRunner(ClauseRunner):
    """Looks conditions up in postings, under the exclusions and filters of one query."""

    def __init__(
        self,
        session: Session,
        vocabulary: PostgresKeywords,
        query: WordQuery,
        limit: int,
        only: Sequence[int] = (),
    ) -> None:
        self._session = session
        self._vocabulary = vocabulary
        self._query = query
        self._limit = limit
        self._only = only

    def run(self, selecting: Condition | None, scoring: Sequence[Clause] = ()) -> dict[int, float]:
        wanted = and_not(selecting, excluded_condition(self._query, self._vocabulary))
        if not wanted:
            return {}
        statement, values = self._statement(wanted, [clause.condition for clause in scoring])
        return dict(self._session.rows(statement, **values))

    def top_candidates(self, clauses: Sequence[Clause]) -> dict[int, float]:
        """Score the best chunks by the agent's text index, if it has one."""
        candidates = find_candidates(
            self._session, self._vocabulary, self._query, clauses, self._limit
        )
        if not candidates:
            return {}
        runner = PostingsRunner(
            self._session, self._vocabulary, self._query, len(candidates), candidates
        )
        return runner.run(any_of(clause.condition for clause in clauses))

    def _statement(self, selecting: Condition, scoring: Sequence[Condition]) -> tuple[str, Values]:
        """Return the statement for the best chunks, each with its score.

        Conditions that only score are looked up for those chunks alone that they could lift
        among the best.
        """
        values = Values()
        base = ConditionSql(selecting, self._vocabulary, values, is_met=True)
        chunk = _chunk_column(look_up=len(self._only) * _SPARSE < self._vocabulary.total)
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
        # Rounded: the order in which the server adds is not fixed, and equal scores must tie.
        best = f"ORDER BY score::real DESC FETCH FIRST {values(self._limit)} ROWS WITH TIES"
        selected = "allowed" if filters else "chosen"
        if not scoring:
            return f"WITH {', '.join(steps)} SELECT chunk_id, score FROM {selected} {best}", values
        more = ConditionSql(AnyOf(tuple(scoring)), self._vocabulary, values)
        chunk = _chunk_column(look_up=base.postings * len(scoring) * _LOOKUP < more.postings)
        near = f"AND {chunk} IN (SELECT chunk_id FROM near)"
        last = f"SELECT score FROM {selected} ORDER BY score DESC OFFSET {values(self._limit - 1)}"
        steps += [
            f"near AS MATERIALIZED (SELECT * FROM {selected} WHERE score + {values(more.max_score)}"
            f" >= coalesce(({last} LIMIT 1), 0))",
            f"added AS ({more.hits(near)})",
            f"more AS (SELECT h.chunk_id, {more.score} AS score FROM added h GROUP BY h.chunk_id)",
        ]
        return (
            # Not joined: the server does not know how many rows there are, and would choose loops.
            f"WITH {', '.join(steps)} SELECT chunk_id, score FROM ("
            "SELECT chunk_id, sum(score) AS score FROM"
            " (SELECT * FROM near UNION ALL SELECT * FROM more) AS parts GROUP BY chunk_id"
            f") AS sums {best}"
        ), values


class ConditionSql:
    """A condition as SQL: the hits of its terms, whether they meet it, and their score."""

    def __init__(
        self,
        condition: Condition,
        vocabulary: PostgresKeywords,
        values: Values,
        *,
        is_met: bool = False,
    ) -> None:
        """With `is_met`, the statement scores only chunks that meet the whole condition."""
        self._condition = condition
        self._is_met = is_met
        self._values = values
        self._average = vocabulary.average
        self._numbers = number_terms(condition)
        frequencies = {term: vocabulary.count(term) for term in self._numbers}
        self._idf = {
            term: max(_LEAST_IDF, select_idf(frequency, vocabulary.total))
            for term, frequency in frequencies.items()
        }
        self.postings = sum(frequencies.values())
        """How many hits its terms have together."""

    @property
    def max_score(self) -> float:
        """The highest score that a chunk can get."""
        return sum(self._idf.values()) * (K1 + 1)

    @property
    def condition(self) -> str:
        """Whether a chunk meets the condition, over its hits; "true" where any hit will do.

        So the simplest queries are one statement, which the server plans once.
        """
        whole = self._condition
        parts = whole.parts if isinstance(whole, AnyOf) else (whole,)
        if all(isinstance(part, Term) for part in parts):
            return "true"
        return condition_sql(whole, self._numbers)

    @property
    def score(self) -> str:
        """The sum over the hits of a chunk, without those of parts that the chunk does not meet."""
        plain: list[str] = []
        sums = []
        for term, condition in _scoring_terms(self._condition, self._numbers, is_met=self._is_met):
            number = str(self._numbers[term])
            if condition or number in plain:  # a term that is written twice counts twice
                sums.append(
                    f"CASE WHEN {condition or 'true'} THEN {_sum_scores(number)} ELSE 0 END"
                )
            else:
                plain.append(number)
        if len(plain) == len(self._numbers) and not sums:
            return "sum(h.part)"
        return " + ".join([*sums, *([_sum_scores(", ".join(plain))] if plain else ())])

    def hits(self, only: str) -> str:
        """Return the statement for the hits: the number of a term, a chunk, and its score there."""
        tokens = [term for term in self._numbers if len(term.tokens) == 1 and not term.prefix]
        others = [term for term in self._numbers if term not in tokens]
        return " UNION ALL ".join(
            [
                *([self._token_hits(tokens, only)] if tokens else ()),
                *(self._term_hits(term, only) for term in others),
            ]
        )

    def _token_hits(self, terms: Sequence[Term], only: str) -> str:
        tokens = self._values([term.tokens[0] for term in terms])
        numbers = self._values([self._numbers[term] for term in terms])
        idfs = self._values([self._idf[term] for term in terms])
        return f"""
            SELECT t.number, p.chunk_id, {self._bm25("t.idf", "p.frequency::float8", "p.length")}
            FROM unnest({tokens}::text[], {numbers}::int[], {idfs}::float8[])
                AS t (token, number, idf)
            CROSS JOIN LATERAL (
                SELECT p.chunk_id, p.frequency, p.length FROM postings p
                WHERE {of_agent("p")} AND p.token = t.token {only}
                OFFSET 0  -- token by token, even if the server has no statistics of a new tenant
            ) AS p
        """

    def _term_hits(self, term: Term, only: str) -> str:
        part = self._bm25(f"{self._values(self._idf[term])}::float8", "m.frequency", "m.length")
        return f"""
            SELECT {self._numbers[term]} AS number, m.chunk_id, {part}
            FROM ({chunks_with_term(term, self._values, only)}) AS m
        """

    def _bm25(self, idf: str, frequency: str, length: str) -> str:
        norm = f"({1 - B} + {B} * {length} / {self._values(self._average)}::float8)"
        return f"{idf} * ({frequency} * {K1 + 1}) / ({frequency} + {K1} * {norm}) AS part"


def _chunk_column(*, look_up: bool) -> str:
    """Return the column to choose chunks by; the sum keeps the server from looking each up."""
    return "p.chunk_id" if look_up else "(p.chunk_id + 0)"


def _sum_scores(numbers: str) -> str:
    return f"coalesce(sum(h.part) FILTER (WHERE h.number IN ({numbers})), 0)"


def _scoring_terms(
    condition: Condition, numbers: dict[Term, int], *, is_met: bool, only_if: str = ""
) -> list[tuple[Term, str]]:
    """Return the terms that add to a score, each with the SQL that must hold for it, or ""."""
    match condition:
        case Term():
            return [(condition, only_if)]
        case AnyOf(parts):
            inner, is_met = parts, False
        case AllOf(parts):
            inner = parts
        case AndNot(wanted, _):
            inner = (wanted,)
    if not isinstance(condition, AnyOf) and not is_met:
        holds = condition_sql(condition, numbers)
        only_if, is_met = f"{only_if} AND {holds}" if only_if else holds, True
    return [
        scoring
        for part in inner
        for scoring in _scoring_terms(part, numbers, is_met=is_met, only_if=only_if)
    ]
