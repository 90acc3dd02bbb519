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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import fsum, inf, nextafter, sqrt

from memwell.model import Part
from memwell.search.normalise import (
    min_max,
    over_maximum,
    reciprocal_position,
    saturation,
    sigmoid,
)

WORDS, MEANING, LIFT = "words", "meaning", "lift"
PLACES = (4, 5, 6)
BASIS = 100
"""Of what each leg brought, so many of the best decide what is usual."""
STANDARD, RRF, WEIGHTED = FUSIONS = ("standard", "rrf", "weighted")

WORDS_WEIGHT, SLOPE, USUAL_STANDING = 0.4, 0.08, 3.5
LEAST_WEIGHT, MOST_WEIGHT = 0.05, 0.8
ENOUGH, SHARPNESS = 0.45, 3
"""The constants of `standard`: see docs/ranking.md."""
_NOISE = 1e-9

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
    borrowed: Mapping[int, float] = field(default_factory=dict)
    """What candidates gain from the passages beside them."""
    standing: float = USUAL_STANDING
    """Of meaning: deviations by which the best cosine lies above chance."""
    coverage: float = 1.0
    """Of words: the best score over that of a passage with every word of the query."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """How to fuse: the method and what it takes."""

    method: str = STANDARD
    vector_weight: float = 0.7
    text_weight: float = 0.3
    rrf_k: float = 60.0
    normaliser: str = "saturation"
    words_weight: float = WORDS_WEIGHT
    """Of words, in standard, where nothing speaks for more or less."""

    def weight(self, leg: str) -> float:
        """The weight of a leg, as configured."""
        return self.vector_weight if leg == MEANING else self.text_weight


def fuse(legs: Sequence[Evidence], fusion: Fusion) -> dict[int, tuple[Part, ...]]:
    """Return what each leg contributes to each candidate; the sum of a candidate's is its score."""
    pool = sorted({chunk for leg in legs for chunk in leg.scores})
    made = {STANDARD: _standard, RRF: _rrf, WEIGHTED: _weighted}[fusion.method](legs, pool, fusion)
    summed = {chunk: tuple(parts[chunk] for parts in made) for chunk in pool}
    return _lifted(summed, legs) if fusion.method == STANDARD else summed


def fused(parts: Sequence[Part]) -> float:
    """Return the sum of what the legs contribute."""
    return fsum(part.contribution for part in parts)


def _lifted(
    parts: dict[int, tuple[Part, ...]], legs: Sequence[Evidence]
) -> dict[int, tuple[Part, ...]]:
    """Let what meaning finds first be no further back than `PLACES`."""
    first = next((leg.found for leg in legs if leg.leg == MEANING), ())
    scores = {chunk: fused(said) for chunk, said in parts.items()}
    for rank, (chunk, place) in enumerate(zip(first, PLACES, strict=False), 1):
        others = nlargest(place, (score for other, score in scores.items() if other != chunk))
        if len(others) == place and scores[chunk] <= others[-1]:
            lift = nextafter(others[-1], inf) - scores[chunk]
            parts[chunk] = (*parts[chunk], Part(LIFT, rank, None, lift, 1.0, lift))
            scores[chunk] = fused(parts[chunk])
    return parts


Contributions = list[dict[int, Part]]


def _standard(legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion) -> Contributions:
    by_name = {leg.leg: leg for leg in legs}
    standing = by_name[MEANING].standing if MEANING in by_name else USUAL_STANDING
    coverage = by_name[WORDS].coverage if WORDS in by_name else 1.0
    words = weight_of_words(standing, coverage, fusion.words_weight)
    weights = {MEANING: 1.0 - words, WORDS: words}
    total = fsum(weights[leg.leg] for leg in legs)
    # However many hits are asked for, so that more of them begin with the fewer.
    basis = {chunk for leg in legs for chunk in leg.found[:BASIS]}
    return [
        _parts(leg, pool, _standardised(leg, pool, basis), weights[leg.leg] / (total or 1.0))
        for leg in legs
    ]


def weight_of_words(standing: float, coverage: float, usual: float = WORDS_WEIGHT) -> float:
    """Return the weight of the words, given how telling each leg's best score is."""
    weight = usual - SLOPE * (standing - USUAL_STANDING)
    weight = min(MOST_WEIGHT, max(LEAST_WEIGHT, weight))
    return weight * min(1.0, max(0.0, coverage) / ENOUGH) ** SHARPNESS


def _standardised(leg: Evidence, pool: Sequence[int], basis: set[int]) -> dict[int, float]:
    lowest = min(leg.scores.values(), default=0.0)
    scores = {chunk: leg.scores.get(chunk, lowest) + leg.borrowed.get(chunk, 0.0) for chunk in pool}
    usual = [score for chunk, score in scores.items() if chunk in basis]
    mean = fsum(usual) / (len(usual) or 1)
    deviation = sqrt(fsum((score - mean) ** 2 for score in usual) / (len(usual) or 1))
    if deviation <= _NOISE * abs(mean):  # all alike but for rounding: nothing to tell them apart
        return dict.fromkeys(pool, 0.0)
    return {chunk: (score - mean) / deviation for chunk, score in scores.items()}


def _rrf(legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion) -> Contributions:
    best = fsum(fusion.weight(leg.leg) for leg in legs) / (fusion.rrf_k + 1)
    made = []
    for leg in legs:
        ranks = {chunk: rank for rank, chunk in enumerate(leg.found, 1)}
        reciprocal = {
            chunk: 1 / (fusion.rrf_k + ranks[chunk]) if chunk in ranks else 0.0 for chunk in pool
        }
        made.append(_parts(leg, pool, reciprocal, fusion.weight(leg.leg) / (best or 1.0)))
    return made


def _weighted(legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion) -> Contributions:
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
        made.append(_parts(leg, pool, dict(zip(pool, normal, strict=True)), weight))
    return made


def _parts(
    leg: Evidence, pool: Sequence[int], evidence: Mapping[int, float], weight: float
) -> dict[int, Part]:
    ranks = {chunk: rank for rank, chunk in enumerate(leg.found, 1)}
    return {
        chunk: Part(
            leg=leg.leg,
            rank=ranks.get(chunk),
            raw=leg.scores.get(chunk),
            evidence=evidence[chunk],
            weight=weight,
            contribution=weight * evidence[chunk],
        )
        for chunk in pool
    }
