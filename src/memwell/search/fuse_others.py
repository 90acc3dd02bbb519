"""Weighted fusion, and the normalisers that it needs. Choose `standard` (fuse.py) instead.

    weighted   fused = sum of weight x score

The cosine is used as it is. A normaliser brings BM25 between 0 and 1. On the labelled sets every
one of them ranks worse than `standard` (docs/ranking.md). They are here to be compared with it.

The normalisers take the scores of keyword search: positive numbers, higher is better. (FTS5's own
``bm25()`` has the opposite sign. Only `sigmoid` accepts both, because it uses the magnitude.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memwell.search.fuse import Evidence, Fusion

SIGMOID_MIDPOINT = 2.0


def weighted_scores(
    legs: Sequence[Evidence], pool: Sequence[int], fusion: Fusion, keyword_leg: str
) -> list[tuple[dict[int, float], float]]:
    """Return for each leg the normalised score of every chunk of the pool, and the leg's weight.

    The weight of a leg that found nothing is shared among the legs that found something.
    """
    total = fusion.vector_weight + fusion.text_weight
    weight_present = math.fsum(fusion.weight(leg.leg) for leg in legs)
    result = []
    for leg in legs:
        scores = [leg.scores.get(chunk, 0.0) for chunk in pool]
        if leg.leg == keyword_leg:
            normal = NORMALISERS[fusion.normaliser](scores)
        else:
            normal = [max(0.0, score) for score in scores]
        weight = fusion.weight(leg.leg) * total
        weight = weight / weight_present if weight_present else total / len(legs)
        result.append((dict(zip(pool, normal, strict=True)), weight))
    return result


def sigmoid(rank: float) -> float:
    """Return 1 / (1 + e^(midpoint - |rank|)): .5 at the midpoint, 0 for nan and infinity."""
    if not math.isfinite(rank):
        return 0.0
    return 1.0 / (1.0 + math.exp(min(SIGMOID_MIDPOINT - abs(rank), 700.0)))


def saturation(score: float) -> float:
    """Return r / (1 + r): half at 1, always below 1; 0 for a negative score, nan and infinity."""
    if not math.isfinite(score) or score <= 0:
        return 0.0
    return score / (1.0 + score)


def reciprocal_position(position: int) -> float:
    """Return 1 / (1 + position), position counted from 0: 1, 1/2, 1/3 ..."""
    return 1.0 / (1.0 + position)


def min_max(scores: Sequence[float]) -> list[float]:
    """Return (score - worst) / (best - worst) over the results; all 1 if they are equal."""
    if not scores:
        return []
    worst, best = min(scores), max(scores)
    span = best - worst
    return [1.0 if span == 0 else (score - worst) / span for score in scores]


def over_maximum(scores: Sequence[float]) -> list[float]:
    """Return each score divided by the greatest of the list; all 0 if none is above 0."""
    greatest = max(scores, default=0.0)
    return [score / greatest if greatest > 0 else 0.0 for score in scores]


NORMALISERS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    "saturation": lambda scores: [saturation(score) for score in scores],
    "sigmoid": lambda scores: [sigmoid(score) if score > 0 else 0.0 for score in scores],
    "min_max": min_max,
    "over_maximum": over_maximum,
    "reciprocal_position": lambda scores: [
        reciprocal_position(sum(other > score for other in scores)) for score in scores
    ],
}
"""By name: functions that bring the BM25 scores of a pool between 0 and 1."""
