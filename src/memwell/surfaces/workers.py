"""Several processes that serve one memory behind one socket.

The parent listens and starts workers, which inherit the socket; the system hands each connection to
one of them. A worker that dies is replaced. If the parent dies, its workers end.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError
from memwell.platform import CURRENT, WINDOWS
from memwell.platform.stop import call_on_stop
from memwell.surfaces.worker_group import WorkerGroup

SUPPORTED = CURRENT != WINDOWS
"""Whether a process can hand its socket to others."""
_POLL_SECONDS = 0.1
_EARLY_SECONDS, _MOST_EARLY = 3.0, 5
"""If so many workers in a row live no longer than this, starting more would not help."""
_END_SECONDS = 40.0
"""Seconds that workers have to finish their requests."""


class OneAtATime(socket.socket):
    """A listening socket from which a worker takes one connection and then looks at its requests.

    asyncio would take all that wait, so that one of the workers gets those that arrive together.
    """

    _taken = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection; every second time say that none waits."""
        self._taken = not self._taken
        if not self._taken:
            raise BlockingIOError
        return super().accept()


@dataclass(frozen=True, slots=True)
class WorkerArguments:
    """The values that the parent hands to a worker."""

    listening: int
    ready: int
    parent: int
    """A pipe that ends when the parent ends."""
    group: WorkerGroup

    def __str__(self) -> str:
        group = self.group
        numbers = (self.listening, self.ready, self.parent, group.place, *group.descriptors)
        return ",".join(map(str, numbers)) + f",{group.folder}"

    @classmethod
    def parse(cls, text: str) -> WorkerArguments:
        """Read what `str` has written."""
        *numbers, folder = text.split(",", 7)
        listening, ready, parent, *group = map(int, numbers)
        return cls(listening, ready, parent, WorkerGroup(Path(folder), *group))

    def open_socket(self) -> socket.socket:
        """Return the socket to serve at."""
        return OneAtATime(fileno=self.listening)

    def report_ready(self) -> None:
        """Tell the parent that this worker serves."""
        os.write(self.ready, b".")

    def end_with_parent(self) -> None:
        """End this process when the parent ends."""

        def wait() -> None:
            os.read(self.parent, 1)
            signal.raise_signal(signal.SIGTERM)

        threading.Thread(target=wait, name="memwell parent", daemon=True).start()


def run_workers(
    command: Sequence[str],
    environment: Mapping[str, str],
    listening: socket.socket,
    count: int,
    announce: Callable[[], None],
    report: Callable[[str], None],
) -> None:
    """Keep `count` workers running until a signal arrives; `announce` when the first one serves.

    A worker is the command with an option ``--worker`` and its `WorkerArguments`. If one ends,
    `report` says so.
    """
    stop = threading.Event()
    call_on_stop(stop.set)
    group = WorkerGroup.create()
    is_ready, ready = os.pipe()
    parent, alive = os.pipe()
    inherited = (listening.fileno(), ready, parent, *group.descriptors)
    os.set_blocking(is_ready, False)

    def start(place: int) -> tuple[subprocess.Popen[bytes], float]:
        arguments = WorkerArguments(listening.fileno(), ready, parent, group.at(place))
        worker = subprocess.Popen(
            [*command, "--worker", str(arguments)], env=environment, pass_fds=inherited
        )
        return worker, time.monotonic()

    workers = [start(place) for place in range(count)]
    early, announced = 0, False
    try:
        while not stop.wait(_POLL_SECONDS):
            if not announced and _has_data(is_ready):
                announce()
                announced = True
            for place, (worker, begun) in enumerate(workers):
                if worker.poll() is None:
                    continue
                early = early + 1 if time.monotonic() - begun < _EARLY_SECONDS else 0
                if early >= _MOST_EARLY:
                    raise MemwellError(
                        f"The workers of the server end at once, with status {worker.returncode}",
                        "Run it with `--workers 1` to see why",
                    )
                report(
                    f"A worker ended with status {worker.returncode}; another one takes its place"
                )
                workers[place] = start(place)
    finally:
        _end([worker for worker, _ in workers])
        group.close()
        for descriptor in (is_ready, ready, parent, alive):
            os.close(descriptor)


def _has_data(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, 1))
    except BlockingIOError:
        return False


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the workers; those that do not finish their requests in time are killed."""
    for worker in workers:
        worker.terminate()
    last = time.monotonic() + _END_SECONDS
    for worker in workers:
        try:
            worker.wait(max(0.0, last - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
