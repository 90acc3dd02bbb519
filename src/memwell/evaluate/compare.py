"""Whether one run is better than another, or only looks so.

The questions are the same in both, so each has a difference. Questions are drawn again and again
(with replacement, as many as there are) and the differences averaged: the middle 95 % of these
averages is the interval (Efron's percentile bootstrap). If it leaves 0 out, chance in the choice
of questions hardly explains the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from memwell.evaluate.report import Evaluation

RESAMPLES = 1000
CONFIDENCE = 0.95
_SEED = 20_260_210


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric in two runs, and the interval of the second less the first."""

    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def compare(first: Evaluation, second: Evaluation) -> tuple[Difference, ...]:
    """Return the difference of each metric between two runs of the same questions."""
    return tuple(_difference(metric, first, second) for metric in first.scores)


def paired_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return between which averages the middle 95 % of the resamples lie; always the same."""
    import numpy as np

    values = np.asarray(differences, dtype=np.float64)
    chance = np.random.default_rng(_SEED)
    averages = [
        values[chance.integers(len(values), size=len(values))].mean() for _ in range(RESAMPLES)
    ]
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(averages, [outside, 1 - outside])
    return float(low), float(high)


def _difference(metric: str, first: Evaluation, second: Evaluation) -> Difference:
    one, other = first.scores[metric], second.scores[metric]
    differences = [other[unit] - one[unit] for unit in one]
    return Difference(
        metric,
        first.overall[metric],
        second.overall[metric],
        fmean(differences),
        *paired_interval(differences),
    )
