"""The sizes of the long tests: a sample for `make test`, the whole for `make soak`."""

from __future__ import annotations

import os
import sys

import pytest

SCALE = float(os.environ.get("SOAK_SCALE", "1"))
"""The share of the whole size that `make soak` runs, for a first look: SOAK_SCALE=0.1."""
SECONDS = 3_600
"""The time limit of a whole part: far more than it takes, so that a busy machine fails none."""


def sizes(sample: int, whole: int) -> pytest.MarkDecorator:
    """Run a test with two sizes: the sample, and with the mark `soak` the whole."""
    scaled = max(sample, round(whole * SCALE))
    marks = [pytest.mark.soak, pytest.mark.timeout(SECONDS)]
    return pytest.mark.parametrize(
        "size", [pytest.param(sample, id="sample"), pytest.param(scaled, id="whole", marks=marks)]
    )


def print_figures(part: str, **figures: object) -> None:
    """Print the figures of a part on one line, past what pytest captures."""
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items())
    sys.__stderr__.write(f"\nsoak {part}: {text}\n")  # type: ignore[union-attr]
