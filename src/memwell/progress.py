"""How a long operation reports its progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Is called with the number of items that are done, and the number of all items."""


def no_progress(done: int, total: int) -> None:
    """A `Progress` that does nothing."""
