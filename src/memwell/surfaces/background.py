"""The background work of a server: sync notes that changed, embed texts that are new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from memwell.config.fields import Value
from memwell.config.providers import LOCAL_EMBEDDERS
from memwell.errors import MemwellError
from memwell.memory import Memory
from memwell.model import IndexReport
from memwell.platform.events import has_immediate_events
from memwell.search.fuse import WORDS
from memwell.search.retrieve import HYBRID
from memwell.surfaces.worker_group import Group

SERVER_SETTINGS: dict[str, Value] = {
    "sync.on_search": has_immediate_events(),
    "embedding.on_search": 0,
}
"""Settings of a memory with a background thread: no search waits for an embedding. On Linux the
events of the file system tell a search whether a note changed a moment ago (see `Changes`);
elsewhere a search does not look at the files either."""

_POLL_SECONDS = 2.0
"""How often the list of workspaces is read: another process may have indexed one."""

_LEAD_SECONDS = 0.5
"""How often a worker tries to become the leader: the one that leads may have died."""


class Background:
    """Syncs and embeds in a thread while its `with` block runs.

    Args:
        memory: the memory to sync.
        report: is called with every report and error, for the server's log.
        group: the workers of the server, of which one does the work.

    """

    def __init__(
        self,
        memory: Memory,
        report: Callable[[IndexReport | str], None],
        group: Group | None = None,
    ) -> None:
        self._memory = memory
        self._report = report
        self._group = group or Group()
        self._stop = threading.Event()
        self._new_texts = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memwell background", daemon=True)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._new_texts.set()
        self._thread.join()

    def wake(self) -> None:
        """Embed new texts now."""
        self._new_texts.set()
        self._group.ring()

    def _run(self) -> None:
        with suppress(MemwellError):  # the first client is told
            self._warm_up()
        while not self._group.try_to_lead():
            if self._stop.wait(_LEAD_SECONDS):
                return
        if self._group.folder:
            threading.Thread(target=self._listen, name="memwell bell", daemon=True).start()
        while not self._stop.is_set():
            try:
                self._watch() if self._memory.folders() else self._fill()
            except MemwellError as error:
                self._report(str(error))
                self._stop.wait(_POLL_SECONDS)

    def _warm_up(self) -> None:
        """Search twice: the first client would wait for imports, the model and arrays of words.

        The second search of a process is the first one that keeps anything for the next.
        """
        is_local = LOCAL_EMBEDDERS.issuperset(self._memory.settings.embedding.chain)
        for _ in range(2):
            self._memory.search("memory", k=1, mode=HYBRID if is_local else WORDS)

    def _listen(self) -> None:
        """Embed when another worker has new texts."""
        while not self._stop.is_set():
            if self._group.wait_for_bell(_LEAD_SECONDS):
                self._new_texts.set()

    def _watch(self) -> None:
        """Watch the workspaces until the list of workspaces changes."""
        known, changed = self._memory.folders(), threading.Event()
        watching = threading.Thread(
            target=self._memory.watch, args=(self._report, changed, self._new_texts), daemon=True
        )
        watching.start()
        while watching.is_alive() and not self._stop.wait(_POLL_SECONDS):
            if self._memory.folders() != known:
                break
        changed.set()
        watching.join()

    def _fill(self) -> None:
        """Embed facts; there are no notes."""
        if self._new_texts.wait(_POLL_SECONDS):
            self._new_texts.clear()
            self._memory.fill(stop=self._stop)
