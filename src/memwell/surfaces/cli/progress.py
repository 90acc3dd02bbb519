"""A progress bar on a terminal: how many of how many, how fast, how long still."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memwell.progress import Progress

_WIDTH = 30
_EVERY_SECONDS = 0.1
_CLEAR = "\r\x1b[K"


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """Yield a progress callback: a bar on a terminal, nothing in a transcript or a log."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    bar = _Bar(label)
    try:
        yield bar.show
    finally:
        if bar.shown_at is not None:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


class _Bar:
    """One line that is written over again and again, and gone at the end."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.begun_at = time.monotonic()
        self.shown_at: float | None = None

    def show(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and self.shown_at is not None and now < self.shown_at + _EVERY_SECONDS:
            return
        self.shown_at = now
        sys.stderr.write(_CLEAR + line(self.label, done, total, now - self.begun_at))
        sys.stderr.flush()


def line(label: str, done: int, total: int, seconds: float) -> str:
    """Return the bar as it looks after so many seconds."""
    filled = _WIDTH * done // total if total else _WIDTH
    text = f"{label} {'█' * filled}{'░' * (_WIDTH - filled)} {done}/{total}"
    if done and seconds:
        left = int((total - done) * seconds / done)
        text += f"  {done / seconds:.0f}/s  {left // 60}:{left % 60:02} left"
    return text
