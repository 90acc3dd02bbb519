"""Several legs' scores become one order. Pure functions; the score and its explanation are one.

A leg is one way of searching: keyword search ("words") or vector search ("meaning").

    standard   fused = (1 - w) z(cosine) + w z(BM25)    z(x) = (x - mean) / deviation, over the pool
               w = (0.4 - 0.08 (c - 3.5)) x min(1, b / 0.45)^3, between 0 and 0.8

               c: how many deviations the best cosine lies above the cosine of two random passages.
               If c is small, all passages look alike to the model, and keyword search weighs more.
               b: the best BM25 divided by the BM25 of a passage with every word of the query. If b
               is small, no passage holds much of the query, and keyword search weighs less.
               The three best passages of vector search get at least places 4, 5 and 6, so that
               they do not disappear behind passages that share only a few words with the query.
    rrf        fused = sum of weight / (k + rank), ranks from 1, over (sum of weights) / (k + 1)
    weighted   fused = sum of weight x normalised score: fuse_others.py

If a leg finds nothing, the other legs share its weight. More legs fuse the same way: each has the
weight of vector search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nlargest
from math import fsum, inf, sqrt

from memwell.config.sections import SearchSettings
from memwell.model import LegScore
from memwell.search.fuse_others import weighted_scores

WORDS, MEANING, LIFT = "words", "meaning", "lift"
PLACES = (4, 5, 6)
POOL = 100
"""The least number of chunks that each leg returns. The mean and the deviation are those of so many
of the best chunks of each leg."""
STANDARD, RRF, WEIGHTED = FUSIONS = ("standard", "rrf", "weighted")

SLOPE, USUAL_STANDING = 0.08, 3.5
LEAST_WEIGHT, MOST_WEIGHT = 0.05, 0.8
ENOUGH, SHARPNESS = 0.45, 3
"""The constants of `standard`: see docs/ranking.md."""
_NOISE = 1e-9
_ABOVE = 1e-6


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
    best_cosine_z: float = USUAL_STANDING
    """Vector search: how many deviations the best cosine lies above that of random passages."""
    coverage: float = 1.0
    """Keyword search: the best score over that of a passage with every word of the query."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """How to fuse: the method and its parameters."""

    method: str = STANDARD
    vector_weight: float = SearchSettings.vector_weight
    text_weight: float = SearchSettings.text_weight
    rrf_k: float = SearchSettings.rrf_k
    normaliser: str = SearchSettings.normaliser
    words_weight: float = SearchSettings.words_weight
    """The weight of keyword search in `standard`, before c and b change it."""

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
        self._lifts: dict[int, LegScore] = {}
        self.scores = {
            chunk: fsum([leg.weight * leg.evidence[chunk] for leg in contributions])
            for chunk in pool
        }

    def __getitem__(self, chunk: int) -> tuple[LegScore, ...]:
        lift = (self._lifts[chunk],) if chunk in self._lifts else ()
        return (*(leg.leg_score(chunk) for leg in self._contributions), *lift)

    @property
    def has_one_leg(self) -> bool:
        """Whether only one leg found something."""
        return len(self._contributions) == 1

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
        return {chunk: rank for chunk, rank in best.items() if rank > POOL}

    def __iter__(self) -> Iterator[int]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def guarantee_places(self, first: Sequence[int]) -> None:
        """Raise the scores of the first candidates so that they reach at least `PLACES`."""
        overflow = self.overflow_ranks()
        early = {chunk: score for chunk, score in self.scores.items() if chunk not in overflow}
        for rank, (chunk, place) in enumerate(zip(first, PLACES, strict=False), 1):
            others = nlargest(place, (s for other, s in early.items() if other != chunk))
            # More than a rounding error above the others, and below the one lifted before it.
            enough = others[-1] + _ABOVE * (1 - rank / 10) if len(others) == place else -inf
            if self.scores[chunk] < enough:
                lift = enough - self.scores[chunk]
                self._lifts[chunk] = LegScore(LIFT, rank, None, lift, 1.0, lift)
                self.scores[chunk] = early[chunk] = fused(self[chunk])


def fuse(legs: Sequence[Evidence], fusion: Fusion) -> Fused:
    """Combine the legs' scores of each candidate into one score."""
    pool = sorted({chunk for leg in legs for chunk in leg.scores})
    method = {STANDARD: _standard, RRF: _rrf, WEIGHTED: _weighted}[fusion.method]
    result = Fused(method(legs, pool, fusion), pool)
    if fusion.method == STANDARD:
        result.guarantee_places(next((leg.found for leg in legs if leg.leg == MEANING), ()))
    return result


def fused(parts: Sequence[LegScore]) -> float:
    """Return the sum of the legs' contributions."""
    return fsum(part.contribution for part in parts)


def _standard(
    legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion
) -> list[_LegContribution]:
    by_name = {leg.leg: leg for leg in legs}
    standing = by_name[MEANING].best_cosine_z if MEANING in by_name else USUAL_STANDING
    coverage = by_name[WORDS].coverage if WORDS in by_name else 1.0
    words = weight_of_words(standing, coverage, fusion.words_weight)
    weights = [words if leg.leg == WORDS else 1.0 - words for leg in legs]
    total = fsum(weights)
    # Independent of k, so that a search for more hits begins with the hits of one for fewer.
    basis = {chunk for leg in legs for chunk in leg.found[:POOL]}
    return [
        _LegContribution(leg, _standardise(leg, pool, basis), weight / (total or 1.0))
        for leg, weight in zip(legs, weights, strict=True)
    ]


def weight_of_words(
    standing: float, coverage: float, usual: float = SearchSettings.words_weight
) -> float:
    """Return the weight of keyword search: w of the formula above, for c and b."""
    weight = usual - SLOPE * (standing - USUAL_STANDING)
    weight = min(MOST_WEIGHT, max(LEAST_WEIGHT, weight))
    return weight * min(1.0, max(0.0, coverage) / ENOUGH) ** SHARPNESS


def _standardise(leg: Evidence, pool: Sequence[int], basis: set[int]) -> dict[int, float]:
    lowest = min(leg.scores.values(), default=0.0)
    scores = {
        chunk: leg.scores.get(chunk, lowest) + leg.neighbour_credit.get(chunk, 0.0)
        for chunk in pool
    }
    usual = [score for chunk, score in scores.items() if chunk in basis]
    mean = fsum(usual) / (len(usual) or 1)
    deviation = sqrt(fsum((score - mean) ** 2 for score in usual) / (len(usual) or 1))
    if deviation <= _NOISE * abs(mean):  # the scores differ by rounding errors only
        return dict.fromkeys(pool, 0.0)
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
