"""Several legs' scores become one order. Pure functions; the score and its explanation are one.

A leg is one way of searching: keyword search ("words") or vector search ("meaning").

    standard   fused = (1 - w) z(cosine) + w z(BM25)    z(x) = (x - mean) / deviation, over the pool
               w = min(0.6, 0.21 g) x min(1, v / 0.4)

               v: the share of the query's words that a passage holds, by their weight, averaged
               over the three best of keyword search. If v is small, no passage holds much of the
               query, and keyword search weighs less.
               g: z of the best BM25 / sqrt(2 log n), which is about the best z of n random scores.
               If g is small, many passages match the words about equally well, and the words do not
               tell which one answers.
               A query in a script without spaces has w = 0.6 x min(1, v / 0.2).
    rrf        fused = sum of weight / (k + rank), ranks from 1, over (sum of weights) / (k + 1)
    weighted   fused = sum of weight x normalised score: fuse_others.py

If a leg finds nothing, the other legs share its weight. More legs fuse the same way: each has the
weight of vector search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from heapq import nlargest
from math import fsum, sqrt

from memwell.config.sections import SearchSettings
from memwell.model import LegScore
from memwell.scripts import UNSPACED
from memwell.search.calibrate import best_of_unrelated
from memwell.search.fuse_others import weighted_scores

WORDS, MEANING = "words", "meaning"
POOL = 100
"""The least number of chunks that each leg returns. The mean and the deviation are those of so many
of the best chunks of each leg."""
STANDARD, RRF, WEIGHTED = FUSIONS = ("standard", "rrf", "weighted")

COVERED_ENOUGH, MOST_WEIGHT = 0.4, 0.6
"""The constants of `standard`: see docs/ranking.md."""
UNSPACED_WEIGHT, UNSPACED_COVERED = 0.6, 0.2
"""For queries in Chinese, Japanese and Korean. Keyword search finds their words as pairs of
characters, of which even the right passage holds fewer, and it is more reliable than the model."""
_BEST_COVERED = 3
_NOISE = 1e-9


@dataclass(frozen=True, slots=True)
class Evidence:
    """The scores that one leg gives to the candidates; higher is better."""

    leg: str
    scores: Mapping[int, float]
    """By chunk id, for every candidate that the leg has a score for."""
    found: Sequence[int] = ()
    """The chunks that the leg found itself, best first."""
    neighbour_credit: Mapping[int, float] = field(default_factory=dict)
    """The score that a candidate gets for the passages beside it."""
    covered: Mapping[int, float] = field(default_factory=dict)
    """Keyword search: the share of the query's words that each candidate holds, by weight."""
    unit: float = 1.0
    """The score that counts as one, if no other leg is fused with this one."""

    def credited_scores(self) -> dict[int, float]:
        """Return the score of each candidate with the credit for its neighbours."""
        credit = self.neighbour_credit
        return {chunk: score + credit.get(chunk, 0.0) for chunk, score in self.scores.items()}

    @property
    def pool(self) -> Sequence[int]:
        """The first `POOL` chunks that the leg found, and those that score like the last of them.

        Which of several equal ones is the last depends on the order in which notes were indexed.
        """
        first = self.found[:POOL]
        if len(first) == len(self.found):
            return first
        last = self.scores[first[-1]]
        return [*first, *(chunk for chunk in self.found[POOL:] if self.scores[chunk] >= last)]

    @property
    def coverage(self) -> float:
        """The share of the query's words that the best passages of keyword search hold."""
        best = nlargest(
            _BEST_COVERED,
            ((self.scores[chunk], self.covered.get(chunk, 0.0)) for chunk in self.pool),
        )
        return fsum(covered for _, covered in best) / (len(best) or 1)


@dataclass(frozen=True, slots=True)
class Fusion:
    """How to fuse: the method and its parameters."""

    method: str = STANDARD
    vector_weight: float = SearchSettings.vector_weight
    text_weight: float = SearchSettings.text_weight
    rrf_k: float = SearchSettings.rrf_k
    normaliser: str = SearchSettings.normaliser
    words_weight: float = SearchSettings.words_weight
    """The weight of keyword search in `standard`, for g = 1 and enough covered words."""
    covered_enough: float = COVERED_ENOUGH
    """The share of the query's words from which on keyword search has its whole weight."""
    least_weight: float = 0.0
    """The least weight of keyword search in `standard`, for enough covered words."""

    def weight(self, leg: str) -> float:
        """Return the configured weight of a leg."""
        return self.text_weight if leg == WORDS else self.vector_weight


@dataclass(frozen=True)
class _LegContribution:
    """A leg, its scores on the scale of the fusion, and its weight."""

    leg: Evidence
    evidence: Mapping[int, float]
    weight: float

    @cached_property
    def ranks(self) -> Mapping[int, int]:
        """The rank of each chunk that the leg found, from 1."""
        return {chunk: rank for rank, chunk in enumerate(self.leg.found, 1)}

    def leg_score(self, chunk: int) -> LegScore:
        """Return the contribution of the leg to a candidate's score."""
        raw, evidence = self.leg.scores.get(chunk), self.evidence[chunk]
        rank = self.ranks.get(chunk)
        return LegScore(self.leg.leg, rank, raw, evidence, self.weight, self.weight * evidence)


class Fused(Mapping[int, tuple[LegScore, ...]]):
    """The fused score of each candidate. As a mapping: the parts that add up to the score."""

    def __init__(self, contributions: Sequence[_LegContribution], pool: Sequence[int]) -> None:
        self._contributions = contributions
        self.scores = {
            chunk: fsum([leg.weight * leg.evidence[chunk] for leg in contributions])
            for chunk in pool
        }

    def __getitem__(self, chunk: int) -> tuple[LegScore, ...]:
        return tuple(leg.leg_score(chunk) for leg in self._contributions)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The scores of each leg that were fused."""
        return tuple(part.leg for part in self._contributions)

    def overflow_ranks(self) -> dict[int, int]:
        """Return the candidates that are in no leg's first `POOL` chunks, with their best rank.

        They are there only because the caller asked for many hits. They follow the others in
        the order of that rank, so that a search for more hits begins with the same hits as a
        search for fewer.
        """
        best: dict[int, int] = {}
        for leg in self._contributions:
            for chunk, rank in leg.ranks.items():
                best[chunk] = min(rank, best.get(chunk, rank))
        pools = {chunk for leg in self._contributions for chunk in leg.leg.pool}
        return {chunk: rank for chunk, rank in best.items() if chunk not in pools}

    def __iter__(self) -> Iterator[int]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)


def fusion_for(text: str, fusion: Fusion) -> Fusion:
    """Return the fusion for a query: one in a script without spaces counts on its words."""
    letters = sum(map(str.isalpha, text))
    if 2 * len(_unspaced().findall(text)) > letters:
        return replace(fusion, least_weight=UNSPACED_WEIGHT, covered_enough=UNSPACED_COVERED)
    return fusion


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED}]")


def fuse(legs: Sequence[Evidence], fusion: Fusion) -> Fused:
    """Combine the legs' scores of each candidate into one score."""
    pool = sorted({chunk for leg in legs for chunk in leg.scores})
    method = {STANDARD: _standard, RRF: _rrf, WEIGHTED: _weighted}[fusion.method]
    return Fused(method(legs, pool, fusion), pool)


def fused(parts: Sequence[LegScore]) -> float:
    """Return the sum of the legs' contributions."""
    return fsum(part.contribution for part in parts)


def _standard(
    legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion
) -> list[_LegContribution]:
    legs = [leg for leg in legs if leg.scores]
    if len(legs) == 1:  # on its own scale, which is the same for every query
        (leg,) = legs
        scores = {chunk: score / leg.unit for chunk, score in leg.credited_scores().items()}
        return [_LegContribution(leg, scores, 1.0)]
    # Independent of k, so that a search for more hits begins with the hits of one for fewer.
    basis = {chunk for leg in legs for chunk in leg.pool}
    evidence = [_standardise(leg, basis) for leg in legs]
    scored_by_all = set(pool).intersection(*evidence)
    for chunk in set(pool) - scored_by_all:  # a chunk without a vector is judged by its words alone
        present = [scores[chunk] for scores in evidence if chunk in scores]
        for scores in evidence:
            scores.setdefault(chunk, fsum(present) / len(present))
    words = 0.0
    for leg, standardised in zip(legs, evidence, strict=True):
        if leg.leg == WORDS:
            best = max(standardised[chunk] for chunk in basis)
            words = weight_of_words(leg.coverage, best, len(basis), fusion)
    weights = [words if leg.leg == WORDS else 1.0 - words for leg in legs]
    total = fsum(weights)
    return [
        _LegContribution(leg, standardised, weight / (total or 1.0))
        for leg, standardised, weight in zip(legs, evidence, weights, strict=True)
    ]


def weight_of_words(coverage: float, best: float, count: int, fusion: Fusion) -> float:
    """Return w of the formula above, for v and for the best of `count` standardised scores."""
    prominence = best / best_of_unrelated(count)
    weight = max(fusion.least_weight, min(MOST_WEIGHT, fusion.words_weight * prominence))
    return weight * min(1.0, coverage / (fusion.covered_enough or 1.0))


def _standardise(leg: Evidence, basis: set[int]) -> dict[int, float]:
    scores = leg.credited_scores()
    usual = [score for chunk, score in scores.items() if chunk in basis]
    mean = fsum(usual) / (len(usual) or 1)
    deviation = sqrt(fsum([(score - mean) ** 2 for score in usual]) / (len(usual) or 1))
    if deviation <= _NOISE * abs(mean):  # the scores differ by rounding errors only
        return dict.fromkeys(scores, 0.0)
    return {chunk: (score - mean) / deviation for chunk, score in scores.items()}


def _rrf(legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion) -> list[_LegContribution]:
    best = fsum(fusion.weight(leg.leg) for leg in legs) / (fusion.rrf_k + 1)
    contributions = []
    for leg in legs:
        ranks = {chunk: rank for rank, chunk in enumerate(leg.found, 1)}
        reciprocal = {
            chunk: 1 / (fusion.rrf_k + ranks[chunk]) if chunk in ranks else 0.0 for chunk in pool
        }
        weight = fusion.weight(leg.leg) / (best or 1.0)
        contributions.append(_LegContribution(leg, reciprocal, weight))
    return contributions


def _weighted(
    legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion
) -> list[_LegContribution]:
    scored = weighted_scores(legs, pool, fusion, keyword_leg=WORDS)
    return [
        _LegContribution(leg, scores, weight)
        for leg, (scores, weight) in zip(legs, scored, strict=True)
    ]
