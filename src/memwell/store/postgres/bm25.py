"""Keyword search in PostgreSQL: BM25 over postings, with the same scores as FTS5's.

A chunk's score is the sum, over the terms of a query that the chunk holds, of
idf · f · (k1 + 1) / (f + k1 · (1 - b + b · length / average)). The module words/ranking.py decides
what is searched and which words select, here as in SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from memwell.store.contract.query import Filters, WordQuery
from memwell.store.postgres.term_hits import TermHits, find_terms
from memwell.store.postgres.textsearch import find_candidates
from memwell.store.words.query import Clause, excluded_condition
from memwell.store.words.ranking import ClauseRunner, select_idf
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term, and_not, any_of

if TYPE_CHECKING:
    from memwell.store.contract.values import Array
    from memwell.store.postgres.keywords import PostgresKeywords

K1, B = 1.2, 0.75
"""As in FTS5, where they cannot be changed."""
_LEAST_IDF = 1e-6
"""The weight that FTS5 gives to a word in over half of the chunks."""
_LOOKED_AT = 4
"""Chunks whose filters are checked for each one that is wanted, and how many more if too few
pass."""


class PostingsRunner(ClauseRunner):
    """Looks conditions up in postings, under the exclusions and filters of one query."""

    def __init__(
        self,
        vocabulary: PostgresKeywords,
        query: WordQuery,
        limit: int,
        only: Sequence[int] = (),
    ) -> None:
        self._vocabulary = vocabulary
        self._query = query
        self._limit = limit
        self._only = only

    def run(self, selecting: Condition | None, scoring: Sequence[Clause] = ()) -> dict[int, float]:
        wanted = and_not(selecting, excluded_condition(self._query, self._vocabulary))
        if not wanted:
            return {}
        hits = self._hits(wanted, np.array(self._only) if self._only else None)
        scores = _score(wanted, hits, self._vocabulary, is_met=True)
        chosen = hits.meet(wanted)
        chunks, scores = hits.chunks[chosen], scores[chosen]
        if scoring and len(chunks):
            more = AnyOf(tuple(clause.condition for clause in scoring))
            scores = scores + _score(more, self._hits(more, chunks), self._vocabulary)
        return self._best(chunks, scores)

    def _hits(self, condition: Condition, chunks: Array | None) -> TermHits:
        terms = find_terms(condition)
        postings = self._vocabulary.postings_for(terms, () if chunks is None else chunks.tolist())
        return TermHits(terms, postings, chunks)

    def top_candidates(self, clauses: Sequence[Clause]) -> dict[int, float]:
        """Score the best chunks by the agent's text index, if it has one."""
        candidates = find_candidates(self._vocabulary, self._query, clauses, self._limit)
        if not candidates:
            return {}
        runner = PostingsRunner(self._vocabulary, self._query, len(candidates), candidates)
        return runner.run(any_of(clause.condition for clause in clauses))

    def _best(self, chunks: Array, scores: Array) -> dict[int, float]:
        """Return the best chunks that the filters allow, with all that tie with the last one."""
        # Rounded: the order of additions differs from FTS5's, and equal scores must tie.
        rounded = scores.astype(np.float32)
        best_first = np.argsort(-rounded, kind="stable")
        filters = Filters() if self._only else self._query.filters
        allowed: list[int] = []
        start, step = 0, _LOOKED_AT * self._limit
        while start < len(best_first):
            last = rounded[allowed[self._limit - 1]] if len(allowed) >= self._limit else None
            if last is not None and rounded[best_first[start]] < last:
                break
            group = best_first[start : start + step]
            ids = chunks[group].tolist()
            passed = self._vocabulary.allowed(filters, ids)
            allowed += [at for at, key in zip(group.tolist(), ids, strict=True) if key in passed]
            start, step = start + step, step * _LOOKED_AT
        if len(allowed) > self._limit:
            last = rounded[allowed[self._limit - 1]]
            allowed = [at for at in allowed if rounded[at] >= last]
        return {int(chunks[at]): float(scores[at]) for at in allowed}


def _score(
    condition: Condition, hits: TermHits, vocabulary: PostgresKeywords, *, is_met: bool = False
) -> Array:
    """Return the score of each chunk by the parts of a condition that it meets.

    With `is_met`, only the scores of chunks that meet the whole condition are needed.
    """
    norm = K1 * (1 - B + B * hits.lengths / vocabulary.average)
    total = np.zeros(len(hits.chunks))
    for term, conditions in _scoring_terms(condition, is_met=is_met):
        idf = max(_LEAST_IDF, select_idf(vocabulary.count(term), vocabulary.total))
        frequencies = hits.frequencies(term)
        part = idf * frequencies * (K1 + 1) / (frequencies + norm)
        for needed in conditions:
            part = np.where(hits.meet(needed), part, 0.0)
        total += part
    return total


def _scoring_terms(
    condition: Condition, *, is_met: bool, only_if: tuple[Condition, ...] = ()
) -> Iterator[tuple[Term, tuple[Condition, ...]]]:
    """Yield the terms that add to a score, each with the conditions that must hold for it.

    A term that is written twice counts twice.
    """
    match condition:
        case Term():
            yield condition, only_if
            return
        case AnyOf(parts):
            inner, is_met = parts, False
        case AllOf(parts):
            inner = parts
        case AndNot(wanted, _):
            inner = (wanted,)
    if not isinstance(condition, AnyOf) and not is_met:
        only_if, is_met = (*only_if, condition), True
    for part in inner:
        yield from _scoring_terms(part, is_met=is_met, only_if=only_if)
