"""Tell whether one run is better than another, or only looks better.

Both runs have the same questions, so each question has a difference. We draw as many questions as
there are, with replacement, average their differences, and repeat this. The middle 95 % of the
averages is the interval (Efron's percentile bootstrap). If the interval excludes 0, the choice of
questions alone hardly explains the difference.
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
    """A metric in two runs, and the confidence interval of second minus first."""

    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def compare(first: Evaluation, second: Evaluation) -> tuple[Difference, ...]:
    """Return the difference of each metric between two runs of the same questions."""
    return tuple(_difference(metric, first, second) for metric in first.scores)


def paired_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of the resampled averages; the seed is fixed."""
    import numpy as np

    values = np.asarray(differences, dtype=np.float64)
    random = np.random.default_rng(_SEED)
    averages = [
        values[random.integers(len(values), size=len(values))].mean() for _ in range(RESAMPLES)
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
