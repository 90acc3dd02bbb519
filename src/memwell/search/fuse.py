"""Several legs' scores become one order. Pure functions; the score and its explanation are one.

    standard   fused = (1 - w) z(cosine) + w z(BM25)    z(x) = (x - mean) / deviation, over the pool
               w = (0.4 - 0.08 (c - 3.5)) x min(1, b / 0.45)^3, between 0 and 0.8

               c: by how many deviations the best cosine lies above that of two random passages. A
               model to which all these passages are alike is believed less than their words.
               b: the best BM25 over that of a passage with every word of the query. Words are
               believed less where no passage holds much of the question.
               The three that meaning finds first are lifted, where they need it, to the fourth,
               fifth and sixth place: they are not lost to words that happen to be shared.
    rrf        fused = sum of weight / (k + rank), ranks from 1, over (sum of weights) / (k + 1)
    weighted   fused = sum of weight x score, BM25 brought between 0 and 1 by a normaliser

A leg that says nothing of any candidate has no say: its weight is given to those that spoke.
Further legs fuse the same way, each weighing as much as meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nlargest
from math import fsum, inf, sqrt

from memwell.config.sections import SearchSettings
from memwell.model import LegScore
from memwell.search.normalise import (
    min_max,
    over_maximum,
    reciprocal_position,
    saturation,
    sigmoid,
)

WORDS, MEANING, LIFT = "words", "meaning", "lift"
PLACES = (4, 5, 6)
POOL = 100
"""Chunks that each leg contributes at least; so many of the best decide what is usual."""
STANDARD, RRF, WEIGHTED = FUSIONS = ("standard", "rrf", "weighted")

SLOPE, USUAL_STANDING = 0.08, 3.5
LEAST_WEIGHT, MOST_WEIGHT = 0.05, 0.8
ENOUGH, SHARPNESS = 0.45, 3
"""The constants of `standard`: see docs/ranking.md."""
_NOISE = 1e-9
_ABOVE = 1e-6

NORMALISERS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    "saturation": lambda scores: [saturation(score) for score in scores],
    "sigmoid": lambda scores: [sigmoid(score) if score > 0 else 0.0 for score in scores],
    "min_max": min_max,
    "over_maximum": over_maximum,
    "reciprocal_position": lambda scores: [
        reciprocal_position(sum(other > score for other in scores)) for score in scores
    ],
}
"""Ways to bring the BM25 of a pool between 0 and 1, by name."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one leg says of the candidates; higher is better."""

    leg: str
    scores: Mapping[int, float]
    """Of every candidate that the leg knows of."""
    found: Sequence[int] = ()
    """Those it brought itself, best first."""
    neighbour_credit: Mapping[int, float] = field(default_factory=dict)
    """What candidates gain from the passages beside them."""
    best_cosine_z: float = USUAL_STANDING
    """Of meaning: deviations by which the best cosine lies above chance."""
    coverage: float = 1.0
    """Of words: the best score over that of a passage with every word of the query."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """How to fuse: the method and what it takes."""

    method: str = STANDARD
    vector_weight: float = SearchSettings.vector_weight
    text_weight: float = SearchSettings.text_weight
    rrf_k: float = SearchSettings.rrf_k
    normaliser: str = SearchSettings.normaliser
    words_weight: float = SearchSettings.words_weight
    """Of words, in standard, where nothing speaks for more or less."""

    def weight(self, leg: str) -> float:
        """The weight of a leg, as configured."""
        return self.text_weight if leg == WORDS else self.vector_weight


@dataclass(frozen=True)
class _LegContribution:
    """What a leg says, as the fusion sees it, and how much that weighs."""

    leg: Evidence
    evidence: Mapping[int, float]
    weight: float

    @cached_property
    def ranks(self) -> Mapping[int, int]:
        """The place of each candidate among what the leg brought."""
        return {chunk: rank for rank, chunk in enumerate(self.leg.found, 1)}

    def part(self, chunk: int) -> LegScore:
        """Return what the leg contributes to a candidate."""
        raw, evidence = self.leg.scores.get(chunk), self.evidence[chunk]
        rank = self.ranks.get(chunk)
        return LegScore(self.leg.leg, rank, raw, evidence, self.weight, self.weight * evidence)


class Fused(Mapping[int, tuple[LegScore, ...]]):
    """The score of each candidate; looked up, the parts that add up to it."""

    def __init__(self, said: Sequence[_LegContribution], pool: Sequence[int]) -> None:
        self._said = said
        self._lifts: dict[int, LegScore] = {}
        self.scores = {
            chunk: fsum([one.weight * one.evidence[chunk] for one in said]) for chunk in pool
        }

    def __getitem__(self, chunk: int) -> tuple[LegScore, ...]:
        lift = (self._lifts[chunk],) if chunk in self._lifts else ()
        return (*(one.part(chunk) for one in self._said), *lift)

    @property
    def one_leg(self) -> bool:
        """Whether only one leg spoke."""
        return len(self._said) == 1

    def late(self) -> dict[int, int]:
        """Return the candidates that are only there because many hits were asked for.

        Each with its best rank: in that order they follow the others, so that more hits begin
        with the fewer.
        """
        best: dict[int, int] = {}
        for one in self._said:
            for chunk, rank in one.ranks.items():
                best[chunk] = min(rank, best.get(chunk, rank))
        return {chunk: rank for chunk, rank in best.items() if rank > POOL}

    def __iter__(self) -> Iterator[int]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def guarantee_places(self, first: Sequence[int]) -> None:
        """Let candidates be no further back than `PLACES`."""
        late = self.late()
        early = {chunk: score for chunk, score in self.scores.items() if chunk not in late}
        for rank, (chunk, place) in enumerate(zip(first, PLACES, strict=False), 1):
            others = nlargest(place, (s for other, s in early.items() if other != chunk))
            # By more than rounding, and each by a little less than the one before it.
            enough = others[-1] + _ABOVE * (1 - rank / 10) if len(others) == place else -inf
            if self.scores[chunk] < enough:
                lift = enough - self.scores[chunk]
                self._lifts[chunk] = LegScore(LIFT, rank, None, lift, 1.0, lift)
                self.scores[chunk] = early[chunk] = fused(self[chunk])


def fuse(legs: Sequence[Evidence], fusion: Fusion) -> Fused:
    """Bring what the legs say of each candidate together."""
    pool = sorted({chunk for leg in legs for chunk in leg.scores})
    said = {STANDARD: _standard, RRF: _rrf, WEIGHTED: _weighted}[fusion.method](legs, pool, fusion)
    found = Fused(said, pool)
    if fusion.method == STANDARD:
        found.guarantee_places(next((leg.found for leg in legs if leg.leg == MEANING), ()))
    return found


def fused(parts: Sequence[LegScore]) -> float:
    """Return the sum of what the legs contribute."""
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
    # However many hits are asked for, so that more of them begin with the fewer.
    basis = {chunk for leg in legs for chunk in leg.found[:POOL]}
    return [
        _LegContribution(leg, _standardise(leg, pool, basis), weight / (total or 1.0))
        for leg, weight in zip(legs, weights, strict=True)
    ]


def weight_of_words(
    standing: float, coverage: float, usual: float = SearchSettings.words_weight
) -> float:
    """Return the weight of the words, given how telling each leg's best score is."""
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
    if deviation <= _NOISE * abs(mean):  # all alike but for rounding: nothing to tell them apart
        return dict.fromkeys(pool, 0.0)
    return {chunk: (score - mean) / deviation for chunk, score in scores.items()}


def _rrf(legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion) -> list[_LegContribution]:
    best = fsum(fusion.weight(leg.leg) for leg in legs) / (fusion.rrf_k + 1)
    made = []
    for leg in legs:
        ranks = {chunk: rank for rank, chunk in enumerate(leg.found, 1)}
        reciprocal = {
            chunk: 1 / (fusion.rrf_k + ranks[chunk]) if chunk in ranks else 0.0 for chunk in pool
        }
        made.append(_LegContribution(leg, reciprocal, fusion.weight(leg.leg) / (best or 1.0)))
    return made


def _weighted(
    legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion
) -> list[_LegContribution]:
    total = fusion.vector_weight + fusion.text_weight
    spoke = fsum(fusion.weight(leg.leg) for leg in legs)
    made = []
    for leg in legs:
        scores = [leg.scores.get(chunk, 0.0) for chunk in pool]
        if leg.leg == WORDS:
            normal = NORMALISERS[fusion.normaliser](scores)
        else:
            normal = [max(0.0, score) for score in scores]
        weight = fusion.weight(leg.leg) * total / spoke if spoke else total / len(legs)
        made.append(_LegContribution(leg, dict(zip(pool, normal, strict=True)), weight))
    return made
