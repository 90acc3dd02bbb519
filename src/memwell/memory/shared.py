"""State that all viewers of one memory share."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from memwell.config.providers import LOCAL_EMBEDDERS
from memwell.config.settings import Settings
from memwell.memory.changes import Changes

if TYPE_CHECKING:
    from memwell.memory.vectors import VectorIndex

_SEARCHES_AT_ONCE = 1
"""A second one takes turns with the first, which costs a twentieth of the processor time."""


class Shared:
    """All that is opened or found out once for a memory.

    Args:
        waits: whether a search waits for a server that keeps the index.

    """

    def __init__(self, *, waits: bool) -> None:
        self.lock = threading.Lock()
        self.vectors: VectorIndex | None = None
        self.changes = Changes()
        self.erasures_checked = False
        self.only_computes = False
        """Whether the last search asked no server, so that many threads would not be faster."""
        self._waits = waits
        self._slots = Slots(_SEARCHES_AT_ONCE)

    def search_slot(self, settings: Settings) -> AbstractContextManager[object]:
        """Let one search run at a time if it only computes: Python runs one thread at a time."""
        local = LOCAL_EMBEDDERS.issuperset(settings.embedding.chain)
        self.only_computes = local and not self._waits and not settings.remote.base_url
        return self._slots if self.only_computes else nullcontext()


class Slots:
    """A number of slots, each of which one thread has while its `with` block runs.

    Threads get them in the order in which they came. A semaphore lets a thread that has just come
    overtake one that was woken, and some requests then wait many times as long as others.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:  # a signal that ends the program
            self._give_up(turn)
            raise

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._pass_on()

    def _give_up(self, turn: threading.Lock) -> None:
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._pass_on()

    def _pass_on(self) -> None:
        """Hand a slot to the thread that has waited longest."""
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._free += 1
