"""State that all viewers of one memory share."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from memwell.config.providers import LOCAL_EMBEDDERS
from memwell.config.settings import Settings
from memwell.memory.changes import Changes

if TYPE_CHECKING:
    from memwell.memory.vectors import VectorIndex

_SEARCHES_AT_ONCE = 2
"""One computes while the other waits for the disk."""


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
        self._waits = waits
        self._slots = threading.BoundedSemaphore(_SEARCHES_AT_ONCE)

    def search_slot(self, settings: Settings) -> AbstractContextManager[object]:
        """Let few searches run at once if they only compute: Python runs one thread at a time.

        More threads would only take turns, which cost a fifth of the processor time.
        """
        local = LOCAL_EMBEDDERS.issuperset(settings.embedding.chain)
        waits = self._waits or settings.remote.base_url
        return self._slots if local and not waits else nullcontext()
