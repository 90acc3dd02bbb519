"""State that the workers of a server share: who leads, a bell, a folder for counters.

One worker leads: it watches the files and embeds new texts. The others ring the bell if they have
new texts. All of it is in descriptors that the workers inherit, so that nothing stays behind when
they end, and a lock ends with the process that holds it.
"""

from __future__ import annotations

import os
import select
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import mmap
from pathlib import Path

from memwell.platform.files import lock_byte, unlock_byte

_LEADER, _INDEXER = 0, 1
"""Bytes of the locked file."""
MOST_WORKERS = 64


class Group:
    """The workers of a server; this one has a single process, which leads."""

    folder: Path | None = None
    """Where several workers keep their counters."""
    place: int = 0
    """The number of this worker; one that dies is replaced by another of the same number."""

    def try_to_lead(self) -> bool:
        """Become the leader if there is none; return whether this worker leads."""
        return True

    def ring(self) -> None:
        """Tell the leader that there is work."""

    def wait_for_bell(self, seconds: float) -> bool:
        """Wait so long at most; return whether another worker rang."""
        return False

    @contextmanager
    def indexing(self) -> Iterator[None]:
        """Let one worker at a time bring the index of a vector store in step."""
        yield


class ConnectionCounts:
    """How many connections each worker of a server has, in memory that all of them map."""

    SIZE = 4 * MOST_WORKERS

    def __init__(self, descriptor: int, place: int) -> None:
        # One more than the connections; 0 where there is no worker.
        self._numbers = memoryview(mmap(descriptor, self.SIZE)).cast("i")
        self._place = place
        self._numbers[place] = 1

    def add(self, change: int) -> None:
        """Count connections of this worker that were opened or closed."""
        self._numbers[self._place] += change

    def has_fewest(self) -> bool:
        """Whether no other worker has fewer connections."""
        return self._numbers[self._place] == min(filter(None, self._numbers))


class WorkerGroup(Group):
    """The workers of a server that has several."""

    def __init__(self, folder: Path, place: int, lock: int, bell: int, clapper: int) -> None:
        self.folder: Path = folder
        self.place = place
        self.descriptors = lock, bell, clapper
        """The descriptors that workers inherit."""

    @classmethod
    def create(cls) -> WorkerGroup:
        """Make what the workers will share; `close` removes it."""
        bell, clapper = os.pipe()
        os.set_blocking(bell, False)
        os.set_blocking(clapper, False)
        with tempfile.TemporaryFile() as file:
            file.truncate(ConnectionCounts.SIZE)
            lock = os.dup(file.fileno())
        return cls(Path(tempfile.mkdtemp(prefix="memwell-workers-")), 0, lock, bell, clapper)

    def at(self, place: int) -> WorkerGroup:
        """Return the same group for the worker at a place."""
        return WorkerGroup(self.folder, place, *self.descriptors)

    def close(self) -> None:
        """Remove all of it; the parent calls this when no worker is left."""
        import shutil

        for descriptor in self.descriptors:
            os.close(descriptor)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connection_counts(self) -> ConnectionCounts:
        """Return the counts, in which this worker begins with none."""
        lock, _, _ = self.descriptors
        return ConnectionCounts(lock, self.place)

    def try_to_lead(self) -> bool:
        lock, _, _ = self.descriptors
        return lock_byte(lock, _LEADER, wait=False)

    def ring(self) -> None:
        _, _, clapper = self.descriptors
        with suppress(BlockingIOError):  # it has rung many times already
            os.write(clapper, b"!")

    def wait_for_bell(self, seconds: float) -> bool:
        _, bell, _ = self.descriptors
        if not select.select([bell], [], [], seconds)[0]:
            return False
        with suppress(BlockingIOError):
            return bool(os.read(bell, 4096))
        return False

    @contextmanager
    def indexing(self) -> Iterator[None]:
        lock, _, _ = self.descriptors
        lock_byte(lock, _INDEXER, wait=True)
        try:
            yield
        finally:
            unlock_byte(lock, _INDEXER)
