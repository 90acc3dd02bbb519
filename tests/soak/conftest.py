"""The sizes of the long tests: a sample for `make test`, the whole for `make soak`."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

import pytest

SCALE = float(os.environ.get("SOAK_SCALE", "1"))
"""The share of the whole size that `make soak` runs, for a first look: SOAK_SCALE=0.1."""
SECONDS = 3_600
"""The time limit of a whole part: far more than it takes, so that a busy machine fails none."""


WHOLE = [pytest.mark.soak, pytest.mark.timeout(SECONDS)]


def sizes(sample: int, whole: int) -> pytest.MarkDecorator:
    """Run a test with two sizes: the sample, and with the mark `soak` the whole."""
    params = [
        pytest.param(sample, id="sample"),
        pytest.param(_scaled(sample, whole), id="whole", marks=WHOLE),
    ]
    return pytest.mark.parametrize("size", params)


def sizes_of(
    operations: Collection[str], sampled: Collection[str], sample: int, whole: int
) -> pytest.MarkDecorator:
    """Run a test for each operation; the whole is shared by them, and some have a sample."""
    share = _scaled(sample, whole // len(operations))
    params = [
        *(pytest.param(name, sample, id=f"{name}-sample") for name in sampled),
        *(pytest.param(name, share, id=f"{name}-whole", marks=WHOLE) for name in operations),
    ]
    return pytest.mark.parametrize(("operation", "size"), params)


def _scaled(sample: int, whole: int) -> int:
    return max(sample, round(whole * SCALE))


def print_figures(part: str, **figures: object) -> None:
    """Print the figures of a part on one line, past what pytest captures."""
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items())
    sys.__stderr__.write(f"\nsoak {part}: {text}\n")  # type: ignore[union-attr]
