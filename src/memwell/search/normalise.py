"""Ways to turn BM25 into a number between 0 and 1.

They take scores as the keyword leg gives them: r, positive, higher is better. (FTS5's own
``bm25()`` is -r; only `sigmoid` takes either, since it looks at the magnitude alone.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SIGMOID_MIDPOINT = 2.0


def sigmoid(rank: float) -> float:
    """Return 1 / (1 + e^(midpoint - |rank|)): .5 at the midpoint, 0 for what is not a number."""
    if not math.isfinite(rank):
        return 0.0
    return 1.0 / (1.0 + math.exp(min(SIGMOID_MIDPOINT - abs(rank), 700.0)))


def saturation(score: float) -> float:
    """Return r / (1 + r): half at 1, never quite 1; 0 for what is not a match or not a number."""
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
    """Return each score over the greatest of the list; all 0 if none is above 0."""
    greatest = max(scores, default=0.0)
    return [score / greatest if greatest > 0 else 0.0 for score in scores]
