"""Whether something changed in folders, by the events of the file system.

Linux queues an event before the call that made the change returns (inotify). So a look at the queue
tells whether anything changed up to now. Other systems deliver their events later, and network
file systems none for changes by other machines: there nothing can be concluded, and the caller has
to look at the files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from memwell.platform import LINUX
from memwell.platform.mounts import file_system, network_kind

_NONBLOCK_CLOEXEC = 0o2004000
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_ONLY_FOLDERS = 0x01000000
_CHANGES = (
    _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
)
_QUEUE_BYTES = 1 << 20
_SHARED = frozenset({"virtiofs", "vboxsf", "prl_fs", "drvfs"})
"""Folders of the machine around a virtual one."""


def has_immediate_events() -> bool:
    """Whether the system queues an event before the call that made the change returns."""
    return sys.platform == "linux"


class FileEvents:
    """The events of some folders, without the folders inside them.

    An `OSError` says that they cannot be watched: at the system's limits, for example.
    """

    def __init__(self) -> None:
        import ctypes

        if not has_immediate_events():
            raise OSError(f"{sys.platform} delivers its events too late")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._process = os.getpid()
        self._queue = self._check(self._libc.inotify_init1(_NONBLOCK_CLOEXEC))
        self._watched: dict[str, int] = {}

    def close(self) -> None:
        """Stop watching."""
        if self._queue >= 0:
            os.close(self._queue)
            self._queue = -1

    def watch(self, folders: Iterable[str]) -> bool:
        """Watch these folders; return whether any of them was not watched before.

        A folder that was replaced by another one of the same name counts as a new one.
        """
        before = self._watched.copy()
        for folder in folders:
            self._watched[folder] = self._check(
                self._libc.inotify_add_watch(
                    self._queue, os.fsencode(folder), _CHANGES | _ONLY_FOLDERS
                )
            )
        return self._watched != before

    def drain(self) -> bool:
        """Empty the queue; return whether anything changed since the last call."""
        if os.getpid() != self._process:
            raise OSError("the events belong to the process that this one was forked from")
        changed = False
        while True:
            try:
                changed |= bool(os.read(self._queue, _QUEUE_BYTES))
            except BlockingIOError:
                return changed

    def _check(self, result: int) -> int:
        import ctypes

        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def delivers_events(folder: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Whether a folder is on a file system that delivers an event for every change."""
    kind = file_system(folder, mounts=mounts, on=LINUX)
    if network_kind(folder, mounts=mounts, on=LINUX):
        return False
    return bool(kind) and not kind.startswith("fuse") and kind not in _SHARED
