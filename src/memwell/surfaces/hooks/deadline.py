"""A time limit for hooks: a hook must never delay or stop the agent that runs it.

The process always ends in time and with exit status 0. It prints either a complete answer or
nothing. Errors are written to a log.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from memwell.files import append_private, make_private_folder

LOG_NAME = "log"
_MOST_LOG_BYTES = 64 * 1024
_MOST_LINE_CHARACTERS = 500


class HookLog:
    """A small file with the results and errors of hooks; `debug` also prints them to stderr."""

    def __init__(self, folder: Path, command: str, *, debug: bool = False) -> None:
        self._file = folder / LOG_NAME
        self._command = command
        self._debug = debug

    def write(self, message: str) -> None:
        """Write a line; if that fails, nobody can be told."""
        line = f"{self._command}: {' '.join(message.split())[:_MOST_LINE_CHARACTERS]}\n"
        with contextlib.suppress(OSError):
            if self._debug:
                sys.stderr.write(line)
                sys.stderr.flush()
            make_private_folder(self._file.parent)
            if self._file.exists() and self._file.stat().st_size > _MOST_LOG_BYTES:
                self._file.replace(self._file.with_name(f"{LOG_NAME}.1"))
            append_private(self._file, f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}")


def run_within(work: Callable[[], str], seconds: float, log: HookLog) -> NoReturn:
    """Run a function, print the text it returns, and end the process within `seconds`.

    The function runs in a thread, as a call into SQLite or a model cannot be interrupted. The
    process does not wait for it after the deadline.
    """
    results: list[str] = []

    def attempt() -> None:
        try:
            results.append(work())
        except BaseException as error:  # no error may stop the agent
            log.write(f"{type(error).__name__}: {error}")
            results.append("")

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    if not results:
        log.write(f"gave up after {seconds:g} s")
    elif results[0]:
        with contextlib.suppress(OSError):
            sys.stdout.buffer.write(f"{results[0]}\n".encode("utf-8", "replace"))
            sys.stdout.flush()
    os._exit(0)
