"""Files written whole or not at all, private folders, locks between processes, SQL, digests."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from memwell.errors import HomeError
from memwell.platform.files import (
    flush_file,
    flush_folder,
    lock_file,
    modes_of_others,
    replace_file,
)

_ABANDONED_SECONDS = 3600
"""A part of a file that is so old belongs to a process that was killed; a younger one may not."""


@contextmanager
def atomic_write(
    file: Path, *, keep_permissions: bool = False, durable: bool = False
) -> Iterator[Path]:
    """Yield a path to write to; it takes the place of `file` if the block ends without an error.

    Only this user can read the file, unless it shall keep the permissions it had; then a new one
    gets those that the system gives to new files. A `durable` file survives a power cut.
    """
    part = file.with_name(f".{file.name}.{secrets.token_hex(6)}.part")
    mode = 0o666 if keep_permissions else 0o600
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        if keep_permissions and file.exists():
            part.chmod(file.stat().st_mode & 0o777)
        yield part
        if durable:
            flush_file(part)
        replace_file(part, file)
        if durable:
            flush_folder(file.parent)
    finally:
        part.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left of files that `atomic_write` wrote in a folder."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            if part.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                part.unlink()


@contextmanager
def private_file(file: Path) -> Iterator[Path]:
    """Yield a path to write to, as `atomic_write` does, durably; raise `HomeError` on failure."""
    with write_errors(file), atomic_write(file, durable=True) as part:
        yield part


def append_private(file: Path, text: str) -> None:
    """Append to a file that only this user can read; one write, so that processes do not mix."""
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(handle, "ab", buffering=0) as stream:
        stream.write(text.encode("utf-8", "replace"))


_REMEDIES = {
    errno.EMFILE: "this process has too many files open; raise its limit with `ulimit -n`",
    errno.ENFILE: "the system has too many files open; close some programs",
    errno.ENAMETOOLONG: "shorten the names in its path",
    errno.ELOOP: "its symbolic links lead in a circle; remove one of them",
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some of your quota of disk space",
    errno.EROFS: "its disk is mounted read-only",
    errno.EIO: "check the disk",
}


def remedy_for(error: OSError) -> str:
    """Return what to do about an error of the system, as the end of a message."""
    return _REMEDIES.get(error.errno or 0, "check its permissions")


def is_utf8(path: str) -> bool:
    """Whether a path is valid UTF-8; Linux allows any bytes."""
    return path.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in path)


def printable_path(path: str | Path) -> str:
    """Return a path in which bytes that are not UTF-8 are escapes."""
    return str(path).encode("utf-8", "backslashreplace").decode()


@contextmanager
def write_errors(file: Path) -> Iterator[None]:
    """Turn an error of the system into one that names the file and the remedy."""
    otherwise = "Check the permissions of the folder, or set MEMWELL_HOME to one you can write to"
    try:
        yield
    except OSError as error:
        raise HomeError(
            f"{file} cannot be written ({error})",
            remedy_for(error).capitalize() if error.errno in _REMEDIES else otherwise,
        ) from error


def make_private_folder(folder: Path) -> None:
    """Create `folder` and the missing folders above it, for this user alone."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)


def close_to_others(home: Path, *, own_names: Collection[str]) -> list[str]:
    """Take the rights of other users from a home, and return a notice if they had any.

    A folder with other files and none of memwell's may be shared on purpose: it stays as it is.
    """
    with suppress(OSError):
        names = os.listdir(home)
        mode = stat.S_IMODE(home.stat().st_mode)
        if modes_of_others(home) and (not names or not set(own_names).isdisjoint(names)):
            home.chmod(0o700)
            return [f"{home} was open to other users (mode {mode:o}); now it is yours alone (700)"]
    return []


@contextmanager
def hold_lock(file: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a lock between processes; yield False if another process has it and `wait` is not set.

    The system releases the lock when the process ends, however it ends.
    """
    make_private_folder(file.parent)
    lock = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        yield lock_file(lock, wait=wait)
    finally:
        os.close(lock)


# -- state files: small JSON files that are useful but not needed ----------------------------------


def read_state(file: Path) -> dict[str, Any]:
    """Return the object in a state file; an empty one if the file is missing or damaged."""
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(file: Path, state: Mapping[str, Any]) -> None:
    """Write a state file; if that fails, leave it as it was."""
    with suppress(OSError):
        make_private_folder(file.parent)
        with atomic_write(file) as part:
            part.write_text(json.dumps(state), encoding="utf-8")


# -- SQL -------------------------------------------------------------------------------------------


def read_migrations(file: Path) -> tuple[tuple[str, str], ...]:
    """Return the steps of an SQL file, each with its name, which a line ``-- step: NAME`` gives."""
    _, *parts = re.split(r"^-- step: (.+)\n", file.read_text(encoding="utf-8"), flags=re.M)
    return tuple(zip(parts[::2], parts[1::2], strict=True))


# -- digests of texts ------------------------------------------------------------------------------


def digest_of(text: str) -> bytes:
    """Return the 16-byte BLAKE2b digest of a text: it identifies a text without storing it."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
