"""How words rank chunks: the same in every engine, which only looks words up and counts them.

An engine selects the chunks that may be among the best, and scoring.py scores them. Every score is
positive, and higher is better.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from memwell.store.contract.index import Keywords
from memwell.store.contract.query import Match, Word, WordQuery
from memwell.store.words.query import (
    Clause,
    RankingWords,
    ranking_words,
    required_condition,
    unknown_words,
)
from memwell.store.words.scoring import Occurrences, ScoredQuery, scored_query
from memwell.store.words.tree import Condition, Term, any_of

POOL = 100
"""Matches a search always looks for, however few the caller wants."""
_SPARE = 2
"""Chunks that an engine selects for each match: its own score differs a little from ours."""

# How `_select` chooses the words that select: up to this many postings, or this share of all
# chunks. The result is exact down to this rank; otherwise the budget grows by this factor.
_SELECT_ROWS = 2_000
_SELECT_SHARE = 0.03
_EXACT_RANK = 10
_WIDEN = 4


class ClauseRunner(Protocol):
    """Looks conditions up in one engine, under the exclusions and filters of one query.

    The engine selects chunks by a BM25 of its own, that of FTS5. If several are equally good at
    the limit, it returns them all, so that the selection does not depend on the order in which
    notes were indexed.
    """

    def run(self, selecting: Condition | None, scoring: Sequence[Clause] = ()) -> dict[int, float]:
        """Return the best chunks that meet `selecting`, by it and by clauses that only score."""

    def top_candidates(self, clauses: Sequence[Clause]) -> dict[int, float]:
        """Return the best chunks by an index that finds them directly; {} without such an index."""


class RankedKeywords(Keywords):
    """The search of a keyword index, as it is in every engine."""

    @abstractmethod
    def runner(self, query: WordQuery, limit: int, only: Sequence[int] = ()) -> ClauseRunner:
        """Return a runner that looks conditions up for a query, in `only` if it is not empty."""

    @abstractmethod
    def occurrences(
        self, terms: Sequence[Term], chunk_ids: Sequence[int]
    ) -> tuple[float, Mapping[int, Occurrences]]:
        """Count terms in chunks; return the average length of all chunks, and those with any term.

        The length of a chunk is its number of tokens.
        """

    def prepare(self, query: WordQuery) -> None:
        """Look up all words of a query at once, if that is faster than one by one."""

    def search(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the best matches of a query, best first, with all that tie with the last one."""
        words, _ = self._ranking(query)
        runner = self.runner(query, _SPARE * max(limit, POOL))
        if required := required_condition(query, self):
            candidates = runner.run(required, words.clauses)
        else:
            candidates = _select(runner, words.clauses, self.total)
        matches = self._score(query, [*candidates]).values()
        best_first = sorted(matches, key=lambda match: (-match.score, match.chunk_id))
        last = best_first[limit - 1].score if len(best_first) > limit else 0.0
        return [match for match in best_first if match.score >= last]

    def scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, Match]:
        """Return those of the chunks that match, as `search` would return them, by id."""
        required = required_condition(query, self)
        if required or query.none_of:
            wanted = required or any_of(
                clause.condition for clause in self._ranking(query)[0].clauses
            )
            chunk_ids = [*self.runner(query, len(chunk_ids), chunk_ids).run(wanted)]
        return self._score(query, chunk_ids)

    def ideal_score(self, query: WordQuery) -> float:
        """Return what a chunk of average length scores that holds every word that ranks once.

        A word that no chunk holds counts as the rarest there could be.
        """
        return self._ranking(query)[1].ideal

    def unknown_words(self, words: Iterable[Word]) -> list[str]:
        """Return those of the words that no chunk contains."""
        return unknown_words(words, self)

    def _score(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, Match]:
        words, scored = self._ranking(query)
        if not chunk_ids or not scored.words:
            return {}
        return {
            chunk: Match(chunk, score, 0.0 if words.only_grammar else covered)
            for chunk, score, covered in self.rate(scored, chunk_ids)
            if score
        }

    def rate(
        self, scored: ScoredQuery, chunk_ids: Sequence[int]
    ) -> Iterable[tuple[int, float, float]]:
        """Return those of the chunks with any term, each with its score and what it covers."""
        average, counted = self.occurrences(scored.terms, chunk_ids)
        return (
            (chunk, scored.score(counts, average), scored.covered(counts))
            for chunk, counts in counted.items()
        )

    @cached_property
    def _rankings(self) -> dict[WordQuery, tuple[RankingWords, ScoredQuery]]:
        return {}

    def _ranking(self, query: WordQuery) -> tuple[RankingWords, ScoredQuery]:
        """Return the words to rank by and their weights, computed once for each query."""
        if query not in self._rankings:
            self.prepare(query)
            words = ranking_words(query, self)
            scored = scored_query(words.clauses, words.pairs, words.unknown, self.total)
            self._rankings[query] = words, scored
        return self._rankings[query]


def select_idf(document_frequency: int, total: int) -> float:
    """Return the weight of a word in the BM25 of FTS5, by which the engines select."""
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


def _select(runner: ClauseRunner, clauses: Sequence[Clause], total: int) -> dict[int, float]:
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
    could_matter = sum(select_idf(clause.document_frequency, total) for clause in scoring)
    return sorted(scores.values(), reverse=True)[_EXACT_RANK - 1] >= could_matter
