"""Which workspaces are known to be in step with the index, so that a search need not look at files.

A workspace is in step from the moment when its files were compared with the index and nothing was
left to do. It stays so until the file system reports a change. This is used from the second search
of a process on: one that searches once has to look at the files anyway.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from memwell.platform.events import FileEvents, delivers_events

CHECK_AGAIN_SECONDS = 60.0
"""After this time the files are looked at in any case: a program may write a file through a
mapping of its memory, for which there is no event."""


@dataclass(slots=True)
class _Watched:
    """The events of one workspace, and up to which of them it is in step."""

    events: FileEvents
    changes: int = 0
    """How often a look at the queue found events."""
    in_step: int = -1
    """The number of changes that the index contains."""
    rules: Hashable = None
    """The settings that it was compared by."""
    compared_at: float = 0.0


@dataclass(slots=True)
class Changes:
    """Remembers what was compared; all threads of a process share it."""

    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: set[str] = field(default_factory=set)
    _watched: dict[str, _Watched | None] = field(default_factory=dict)
    """None for a workspace whose events cannot be relied on."""

    def is_in_step(self, root: str, rules: Hashable) -> bool:
        """Whether nothing changed since the index was in step with a workspace."""
        with self._lock:
            if not (watched := self._current(root)):
                return False
            recent = self.clock() - watched.compared_at < CHECK_AGAIN_SECONDS
            return recent and (watched.in_step, watched.rules) == (watched.changes, rules)

    def is_first_look(self, root: str) -> bool:
        """Whether this process has not looked at the files of a workspace yet."""
        return root not in self._seen

    def begin(self, root: str) -> int:
        """Return the number of changes so far, before the files are looked at; -1 if unknown."""
        with self._lock:
            if root not in self._seen:
                self._seen.add(root)
                return -1
            if root not in self._watched:
                self._watched[root] = None
                with suppress(OSError):
                    if delivers_events(Path(root)):
                        self._watched[root] = _Watched(FileEvents())
            watched = self._current(root)
            return watched.changes if watched else -1

    def watch(self, root: str, folders: Iterable[str]) -> bool:
        """Watch the folders of a workspace; return whether files have to be looked at again.

        Other file systems that are mounted inside the workspace may deliver no events.
        """
        with self._lock:
            if not (watched := self._current(root)):
                return False
            paths = [os.path.join(root, folder) for folder in folders]
            try:
                if len({os.stat(path).st_dev for path in (root, *paths)}) == 1:
                    return watched.events.watch(paths)
            except FileNotFoundError:
                return True
            except OSError:
                pass  # at the system's limits
            self._drop(root)
            return False

    def end(self, root: str, changes: int, rules: Hashable) -> None:
        """Record that the index contains the changes that `begin` had counted."""
        with self._lock:
            if changes >= 0 and (watched := self._watched.get(root)):
                watched.in_step, watched.rules = changes, rules
                watched.compared_at = self.clock()

    def close(self) -> None:
        """Stop watching."""
        with self._lock:
            for root in [*self._watched]:
                self._drop(root)
            self._watched.clear()

    def _current(self, root: str) -> _Watched | None:
        """Return a workspace that is watched, with all changes up to now counted."""
        if not (watched := self._watched.get(root)):
            return None
        try:
            watched.changes += watched.events.drain()
        except OSError:
            self._drop(root)
            return None
        return watched

    def _drop(self, root: str) -> None:
        if watched := self._watched.get(root):
            watched.events.close()
        self._watched[root] = None
