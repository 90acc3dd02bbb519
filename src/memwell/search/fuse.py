"""Several legs' scores become one ranking: the standardised, weighted sum.

    fused(chunk) = sum over legs of  weight x (score(chunk) - mean) / deviation

Mean and deviation of a leg are those over the pool, the candidates of all legs together. A chunk
of which a leg knows nothing counts there as the lowest of the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

WEIGHTS = {"meaning": 0.7, "words": 0.3}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one leg says of the candidates; higher is better."""

    leg: str
    scores: Mapping[int, float]


def standardised_sum(legs: Sequence[Evidence]) -> dict[int, float]:
    """Return the fused score of every candidate."""
    pool = {chunk for leg in legs for chunk in leg.scores}
    fused = dict.fromkeys(pool, 0.0)
    for leg in legs:
        for chunk, score in _standardised(leg.scores, pool).items():
            fused[chunk] += WEIGHTS[leg.leg] * score
    return fused


def _standardised(scores: Mapping[int, float], pool: set[int]) -> dict[int, float]:
    lowest = min(scores.values(), default=0.0)
    filled = {chunk: scores.get(chunk, lowest) for chunk in pool}
    mean = fsum(filled.values()) / len(filled)
    deviation = sqrt(fsum((score - mean) ** 2 for score in filled.values()) / len(filled))
    return {chunk: (score - mean) / (deviation or 1.0) for chunk, score in filled.items()}
