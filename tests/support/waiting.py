"""Wait for a condition instead of sleeping for a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable

_TIMEOUT = 60.0
"""Seconds: far more than any condition needs, so that a busy machine does not fail a test."""
_INTERVAL = 0.02


def wait_until(condition: Callable[[], bool], seconds: float = _TIMEOUT) -> None:
    """Wait until a condition holds; fail if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(_INTERVAL)
