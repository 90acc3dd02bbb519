"""Calls that run in a thread of their own while the caller goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def call_in_thread(work: Callable[[], T]) -> Future[T]:
    """Begin a call; the future waits for its result or raises its error.

    The thread is a daemon: a request may hang, and the process must be able to end.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="memwell-call", daemon=True).start()
    return outcome
