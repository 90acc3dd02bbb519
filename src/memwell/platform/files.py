"""Locks between processes, flushing to the disk, replacing files, privacy."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

from memwell.platform import CURRENT, MACOS, WINDOWS

_LOCK_PAUSE_SECONDS = 0.05
_REPLACE_ATTEMPTS = 20


def lock_file(descriptor: int, *, wait: bool, on: str = CURRENT) -> bool:
    """Lock an open file until it is closed; return False if another process has it.

    The system releases the lock when the process ends, however it ends.
    """
    if on == WINDOWS:
        return _lock_on_windows(descriptor, wait)
    return _lock_on_unix(descriptor, wait)


def _lock_on_unix(descriptor: int, wait: bool) -> bool:
    import fcntl

    lock: Any = fcntl  # the type checker knows only the names of its own platform
    try:
        lock.flock(descriptor, lock.LOCK_EX | (0 if wait else lock.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(descriptor: int, wait: bool) -> bool:
    import msvcrt

    while True:
        os.lseek(descriptor, 0, os.SEEK_SET)  # the lock is on the byte at the position
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            if not wait:
                return False
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return True


def lock_byte(descriptor: int, byte: int, *, wait: bool) -> bool:
    """Lock a byte of a file that processes have inherited; return False if another one has it.

    Such a lock belongs to a process, not to a descriptor. Windows has no workers, and none of it.
    """
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, byte)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock_byte(descriptor: int, byte: int) -> None:
    """Give up the lock of a byte."""
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, byte)


def flush_file(path: Path, *, on: str = CURRENT) -> None:
    """Wait until a file is on the disk."""
    # Windows flushes only what is open for writing.
    descriptor = os.open(path, os.O_RDWR if on == WINDOWS else os.O_RDONLY)
    try:
        if on == MACOS:  # fsync leaves the data in the cache of the drive
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined,unused-ignore]
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(path: Path, *, on: str = CURRENT) -> None:
    """Wait until the names in a folder are on the disk; Windows cannot open a folder."""
    if on == WINDOWS:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(source: Path, target: Path, *, on: str = CURRENT) -> None:
    """Rename a file to the name of another; on Windows another process may have it open."""
    for attempt in range(_REPLACE_ATTEMPTS if on == WINDOWS else 1):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if on != WINDOWS or attempt == _REPLACE_ATTEMPTS - 1:
                raise
            time.sleep(_LOCK_PAUSE_SECONDS)


def modes_of_others(path: Path, *, on: str = CURRENT) -> int:
    """Return the rights of other users; 0 on Windows, where a profile is private by itself."""
    return 0 if on == WINDOWS else stat.S_IMODE(path.stat().st_mode) & 0o077
