"""The signals that ask a process to end."""

from __future__ import annotations

import signal
from collections.abc import Callable

from memwell.platform import CURRENT, WINDOWS


def stop_signals(*, on: str = CURRENT) -> list[int]:
    """Return the signals of Ctrl-C and of a service manager; on Windows also Ctrl-Break."""
    names = ["SIGINT", "SIGTERM", *(["SIGBREAK"] if on == WINDOWS else [])]
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def call_on_stop(act: Callable[[], object], *, on: str = CURRENT) -> None:
    """Call a function when a signal asks this process to end, instead of ending it."""
    for number in stop_signals(on=on):
        signal.signal(number, lambda *_: act())
