"""The signals that ask a process to end."""

from __future__ import annotations

import signal
import threading
from queue import SimpleQueue

from memwell.platform import CURRENT, WINDOWS


def stop_signals(*, on: str = CURRENT) -> list[int]:
    """Return the signals of Ctrl-C and of a service manager; on Windows also Ctrl-Break."""
    names = ["SIGINT", "SIGTERM", *(["SIGBREAK"] if on == WINDOWS else [])]
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def event_on_stop(*, on: str = CURRENT) -> threading.Event:
    """Return an event that is set when a signal asks this process to end, instead of ending it.

    A signal handler runs in the main thread. If that thread is just waiting for the event, it may
    hold the event's lock, and a handler that sets the event would wait for the lock for ever. So
    the handler only tells another thread, by a queue whose `put` can be interrupted by itself.
    """
    stop, signals = threading.Event(), SimpleQueue[int]()

    def set_event() -> None:
        signals.get()
        stop.set()

    threading.Thread(target=set_event, name="memwell stop", daemon=True).start()
    for number in stop_signals(on=on):
        signal.signal(number, lambda received, _: signals.put(received))
    return stop
