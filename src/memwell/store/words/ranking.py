"""How words rank chunks: the same in every engine, which only looks conditions up.

Every score is positive, and higher is better.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

from memwell.store.contract.index import Keywords
from memwell.store.contract.query import Match, Node, Word, WordQuery
from memwell.store.words.query import Clause, required_condition, to_clauses, unknown_words
from memwell.store.words.tree import Condition, any_of

COLUMN_WEIGHTS = {"content": 1.0, "heading": 1.5, "name": 1.0, "parts": 1.0}
"""Occurrences in a heading or title count half as much again: measured, see docs/ranking.md."""

POOL = 100
"""Matches a search always looks for, however few the caller wants."""

MAX_CLAUSES = 64
"""Clauses of a query that are searched, rarest first."""

# How `_rank` chooses the words that select: up to this many postings, or this share of all
# chunks. The result is exact down to this rank; otherwise the budget grows by this factor.
_SELECT_ROWS = 2_000
_SELECT_SHARE = 0.03
_EXACT_RANK = 10
_WIDEN = 4


class ClauseRunner(Protocol):
    """Looks conditions up in one engine, under the exclusions and filters of one query."""

    def run(self, selecting: Condition | None, scoring: Sequence[Clause] = ()) -> dict[int, float]:
        """Score the chunks that meet `selecting`, by it and by the clauses that only score."""

    def top_candidates(self, clauses: Sequence[Clause]) -> dict[int, float]:
        """Score the best chunks by an index that finds them directly; {} without such an index."""


class RankedKeywords(Keywords):
    """The search of a keyword index, as it is in every engine."""

    @abstractmethod
    def runner(self, query: WordQuery, limit: int, only: Sequence[int] = ()) -> ClauseRunner:
        """Return a runner that looks conditions up for a query, in `only` if it is not empty."""

    def prepare(self, query: WordQuery) -> None:
        """Look up all words of a query at once, if that is faster than one by one."""

    def search(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the best matches of a query, best first."""
        self.prepare(query)
        runner = self.runner(query, max(limit, POOL))
        clauses = self._ranking(query)
        if required := required_condition(query, self):
            scores = runner.run(required, clauses)
        else:
            scores = _rank(runner, clauses, self.total)
        best_first = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return [Match(chunk_id, score) for chunk_id, score in best_first[:limit]]

    def scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return the scores of those of the chunks that match, as `search` would give them."""
        self.prepare(query)
        runner = self.runner(query, len(chunk_ids), chunk_ids)
        clauses = _drop_stopwords(self._ranking(query), self.total)
        if required := required_condition(query, self):
            return runner.run(required, clauses)
        return runner.run(any_of(clause.condition for clause in clauses))

    def ideal_score(self, query: WordQuery) -> float:
        """Return about what a chunk of average length scores that holds every word that ranks.

        A word that no chunk holds counts as the rarest there could be.
        """
        self.prepare(query)
        frequencies = [clause.document_frequency for clause in self._ranking(query)]
        frequencies += [0] * len(unknown_words(query.any_of, self))
        return sum(idf(frequency, self.total) for frequency in frequencies)

    def unknown_words(self, words: Iterable[Word]) -> list[str]:
        """Return those of the words that no chunk contains."""
        return unknown_words(words, self)

    @cached_property
    def _rankings(self) -> dict[Sequence[Node], list[Clause]]:
        return {}

    def _ranking(self, query: WordQuery) -> list[Clause]:
        """Return the clauses to rank by, rarest first; computed once for each state of an index."""
        if query.any_of not in self._rankings:
            clauses = to_clauses(query.any_of, self)
            rarest_first = sorted(clauses, key=lambda clause: clause.document_frequency)
            self._rankings[query.any_of] = rarest_first[:MAX_CLAUSES]
        return self._rankings[query.any_of]


def idf(document_frequency: int, total: int) -> float:
    """Return the weight of a word in BM25; the frequency of a prefix is an estimate."""
    frequency = min(document_frequency, total)
    return max(0.0, math.log((total - frequency + 0.5) / (frequency + 0.5)))


def _drop_stopwords(clauses: Sequence[Clause], total: int) -> Sequence[Clause]:
    """Leave out words in over half of the chunks, if looking all words up would cost much.

    They have next to no weight in BM25.
    """
    if _postings(clauses) <= _budget(total):
        return clauses
    return [clause for clause in clauses if clause.document_frequency <= total / 2] or clauses[:1]


def _postings(clauses: Sequence[Clause]) -> int:
    return sum(clause.document_frequency for clause in clauses)


def _budget(total: int) -> float:
    """Return how many postings are cheap enough to look up at once."""
    return max(_SELECT_ROWS, _SELECT_SHARE * total)


def _rank(runner: ClauseRunner, clauses: Sequence[Clause], total: int) -> dict[int, float]:
    """Rank chunks by the sum of their words' BM25, without looking at every chunk with "the".

    After MaxScore (Turtle and Flood 1995): the rarest words select, the common ones only add
    to the score of the selected chunks. A chunk of common words alone is missed, so the choice
    stands only if such a chunk could hardly matter: if the tenth best score is at least what a
    chunk of average length would get that holds each common word once. Otherwise more words
    select, and so on, until all do. An index that finds the best directly makes this needless.
    """
    budget, weighty = _budget(total), _drop_stopwords(clauses, total)
    if _postings(clauses) > budget and (best := runner.top_candidates(weighty)):
        return best
    while True:
        selecting, scoring = _split(weighty, budget)
        scores = runner.run(any_of(clause.condition for clause in selecting), scoring)
        if not scoring or _is_exact_enough(scores, scoring, total):
            return scores
        budget = max(budget * _WIDEN, _postings(weighty[: len(selecting) + 1]))


def _split(clauses: Sequence[Clause], budget: float) -> tuple[Sequence[Clause], Sequence[Clause]]:
    """Divide clauses, rarest first, where their postings exceed the budget."""
    spent = 0
    for position, clause in enumerate(clauses):
        spent += clause.document_frequency
        if position and spent > budget:
            return clauses[:position], clauses[position:]
    return clauses, ()


def _is_exact_enough(scores: dict[int, float], scoring: Sequence[Clause], total: int) -> bool:
    if len(scores) < POOL:
        return False
    could_matter = sum(idf(clause.document_frequency, total) for clause in scoring)
    return sorted(scores.values(), reverse=True)[_EXACT_RANK - 1] >= could_matter
