"""Programs of Node that use memwell."""

from __future__ import annotations

from collections.abc import Callable

TASKS: dict[str, Callable[[], str]] = {}
