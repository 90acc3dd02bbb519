"""What a hook may cost the agent that calls it: so many seconds, and never its own work.

Whatever happens, the process ends in time and with success, and prints either a whole answer or
nothing. What went wrong stands in a log.
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

from memwell.files import make_private_folder

LOG = "log"
_LONGEST_LOG = 64 * 1024
_LONGEST_LINE = 500


class Log:
    """A small file that says what hooks did and why they failed; with `debug` stderr as well."""

    def __init__(self, folder: Path, command: str, *, debug: bool = False) -> None:
        self._file = folder / LOG
        self._command = command
        self._debug = debug

    def say(self, what: str) -> None:
        """Write a line; if that fails there is nobody to be told."""
        line = f"{self._command}: {' '.join(what.split())[:_LONGEST_LINE]}\n"
        with contextlib.suppress(OSError):
            if self._debug:
                sys.stderr.write(line)
                sys.stderr.flush()
            make_private_folder(self._file.parent)
            if self._file.exists() and self._file.stat().st_size > _LONGEST_LOG:
                self._file.replace(self._file.with_name(f"{LOG}.1"))
            handle = os.open(self._file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}")


def run_within(work: Callable[[], str], seconds: float, log: Log) -> NoReturn:
    """Do the work in so many seconds, print what it returns, and end the process.

    The work has a thread of its own, as a call into SQLite or a model cannot be interrupted; the
    process does not wait for one that is late.
    """
    done: list[str] = []

    def attempt() -> None:
        try:
            done.append(work())
        except BaseException as error:  # the agent has to go on, whatever it is
            log.say(f"{type(error).__name__}: {error}")
            done.append("")

    working = threading.Thread(target=attempt, daemon=True)
    working.start()
    working.join(seconds)
    if not done:
        log.say(f"gave up after {seconds:g} s")
    elif done[0]:
        with contextlib.suppress(OSError):
            sys.stdout.buffer.write(f"{done[0]}\n".encode("utf-8", "replace"))
            sys.stdout.flush()
    os._exit(0)
