"""What a server does beside answering: notes that change are taken in, what is new is embedded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from memwell.config.fields import Value
from memwell.errors import MemwellError
from memwell.memory import Memory
from memwell.model import IndexReport

SERVER_SETTINGS: dict[str, Value] = {"sync.on_search": False, "embedding.on_search": 0}
"""Settings of a memory that is kept in step in the background: no answer waits for it."""

_LOOK_AGAIN_SECONDS = 2.0
"""How often the list of workspaces is looked at: another process may have indexed one."""


class Background:
    """Keeps a memory in step from a thread of its own, from `with` to the end of it.

    Args:
        say: is told what happens; a server's log.

    """

    def __init__(self, memory: Memory, say: Callable[[IndexReport | str], None]) -> None:
        self._memory = memory
        self._say = say
        self._stop = threading.Event()
        self._something_new = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memwell background", daemon=True)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._something_new.set()
        self._thread.join()

    def wake(self) -> None:
        """Have what was just written embedded."""
        self._something_new.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._watch() if self._memory.folders() else self._fill()
            except MemwellError as error:
                self._say(str(error))
                self._stop.wait(_LOOK_AGAIN_SECONDS)

    def _watch(self) -> None:
        """Watch the workspaces that there are, until there are others."""
        known, others = self._memory.folders(), threading.Event()
        watching = threading.Thread(
            target=self._memory.watch, args=(self._say, others, self._something_new), daemon=True
        )
        watching.start()
        while watching.is_alive() and not self._stop.wait(_LOOK_AGAIN_SECONDS):
            if self._memory.folders() != known:
                break
        others.set()
        watching.join()

    def _fill(self) -> None:
        """Embed facts, where there are no notes."""
        if self._something_new.wait(_LOOK_AGAIN_SECONDS):
            self._something_new.clear()
            self._memory.fill(stop=self._stop)
