"""Ways to turn BM25 into a number between 0 and 1.

`rank` is what FTS5's ``bm25()`` returns: negative, and the more negative the better. The other
functions take scores as the keyword leg gives them, positive and higher is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SIGMOID_MIDPOINT = 2.0


def sigmoid(rank: float) -> float:
    """1 / (1 + e^(midpoint - |rank|)): .5 at the midpoint, 0 for what is not a number."""
    if not math.isfinite(rank):
        return 0.0
    return 1.0 / (1.0 + math.exp(min(SIGMOID_MIDPOINT - abs(rank), 700.0)))


def saturation(rank: float) -> float:
    """R / (1 + r) with r = -rank: half at 1, never 1, no ties; 0 for what is not a match."""
    if not math.isfinite(rank) or rank >= 0:
        return 0.0
    return -rank / (1.0 - rank)


def reciprocal_position(position: int) -> float:
    """1 / (1 + position), position counted from 0: 1, 1/2, 1/3 ..."""
    return 1.0 / (1.0 + position)


def min_max(ranks: Sequence[float]) -> list[float]:
    """(worst - rank) / (worst - best) over the results; all 1 if there is nothing between them."""
    if not ranks:
        return []
    best, worst = min(ranks), max(ranks)
    span = worst - best
    return [1.0 if span == 0 else (worst - rank) / span for rank in ranks]


def over_maximum(scores: Sequence[float]) -> list[float]:
    """Return each score over the greatest of the list; all 0 if none is above 0."""
    greatest = max(scores, default=0.0)
    return [score / greatest if greatest > 0 else 0.0 for score in scores]
