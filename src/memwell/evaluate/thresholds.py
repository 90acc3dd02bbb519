"""Thresholds that the figures of an evaluation must reach."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memwell.errors import MemwellError

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Threshold:
    """The minimum of a metric."""

    metric: str
    least: float


def parse_threshold(text: str, metrics: Collection[str]) -> Threshold:
    """Parse ``METRIC=VALUE``; ``recall`` stands for ``recall@10`` if that is among the metrics."""
    name, _, value = text.partition("=")
    name = name.strip().lower()
    metric = next((known for known in metrics if name in (known, known.split("@")[0])), None)
    if metric is None:
        raise MemwellError(f"{text!r} does not name a metric", f"Use one of {', '.join(metrics)}")
    try:
        least = float(value)
    except ValueError:
        least = -1.0
    if not 0 <= least <= 1:
        raise MemwellError(
            f"{text!r} has no number between 0 and 1", f"Write for example {metric}=0.8"
        )
    return Threshold(metric, least)


def find_missed(
    figures: Mapping[str, float], thresholds: Sequence[Threshold]
) -> list[tuple[Threshold, float]]:
    """Return the thresholds that are not reached, each with the figure."""
    return [
        (threshold, figures[threshold.metric])
        for threshold in thresholds
        if figures[threshold.metric] < threshold.least - _ROUNDING
    ]
