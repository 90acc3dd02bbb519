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
from memwell.platform.stop import event_on_stop
from memwell.surfaces.worker_group import ConnectionCounts, WorkerGroup

SUPPORTED = CURRENT != WINDOWS
"""Whether a process can hand its socket to others."""
_POLL_SECONDS = 0.1
_REFUSED_SECONDS, _PAUSE_SECONDS = 0.02, 0.2
"""For so long a worker refuses a connection; a refusal after such a pause is that of another."""
_EARLY_SECONDS, _MOST_EARLY = 3.0, 5
"""If so many workers in a row live no longer than this, starting more would not help."""
_END_SECONDS = 40.0
"""Seconds that workers have to finish their requests."""


class BalancedSocket(socket.socket):
    """A listening socket that leaves connections to the worker that has fewest of them.

    All workers wait at one socket, and whichever looks first would take all that arrive together.
    """

    _counts: ConnectionCounts
    _refused_first = _refused_last = 0.0

    @classmethod
    def open(cls, descriptor: int, counts: ConnectionCounts) -> BalancedSocket:
        """Return the socket with a descriptor."""
        listening = cls(fileno=descriptor)
        listening._counts = counts
        return listening

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection; say that none waits if another worker should take it."""
        if not self._counts.has_fewest() and not self._refused_long():
            raise BlockingIOError
        accepted, address = super().accept()
        self._counts.add(1)
        self._refused_last = 0.0
        connection = _CountedSocket(fileno=accepted.detach())
        connection.counts = self._counts
        return connection, address

    def _refused_long(self) -> bool:
        """Whether a connection waits although another worker should have taken it long ago.

        It may be busy, or have died. A refusal follows the one before at once while a connection
        waits, as the event loop is told of it again.
        """
        now = time.monotonic()
        if now - self._refused_last > _PAUSE_SECONDS:
            self._refused_first = now
        self._refused_last = now
        return now - self._refused_first > _REFUSED_SECONDS


class _CountedSocket(socket.socket):
    """A connection that no longer counts when it is closed."""

    counts: ConnectionCounts | None = None

    def close(self) -> None:
        if self.counts:
            self.counts.add(-1)
            self.counts = None
        super().close()


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
        return BalancedSocket.open(self.listening, self.group.connection_counts())

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
    stop = event_on_stop()
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
