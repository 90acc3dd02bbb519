"""How far the transcript of a session was read: a small file each, which is its own lock.

Lines are appended, and the last whole one counts: whatever a process is cut off in, the file is
never broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2s
from pathlib import Path

from memwell.files import hold_lock
from memwell.surfaces.hooks.transcript import Mark

_MOST_SESSIONS = 500


class Cursor:
    """How far one transcript was read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.mark = _last_mark(file)

    def advance(self, mark: Mark) -> None:
        """Write down that all before a mark is done."""
        if mark != self.mark:
            with self._file.open("a", encoding="ascii") as file:
                file.write(f"{mark.offset} {mark.line}\n")
            self.mark = mark


@contextmanager
def open_cursor(whose: Sequence[str | None], folder: Path) -> Iterator[Cursor]:
    """Lend the progress of a session, to one process at a time."""
    key = blake2s(json.dumps(whose).encode(), digest_size=12).hexdigest()
    file = folder / f"{key}.read"
    if not file.exists():
        _make_room(folder)
    with hold_lock(file, wait=True):
        yield Cursor(file)


def _last_mark(file: Path) -> Mark:
    if not file.exists():  # where there are no locks
        return Mark()
    for line in reversed(file.read_text(encoding="ascii", errors="replace").split("\n")[:-1]):
        offset, _, number = line.partition(" ")
        if offset.isdecimal() and number.isdecimal():
            return Mark(int(offset), int(number))
    return Mark()


def _make_room(folder: Path) -> None:
    """Delete what is known of the sessions that ended longest ago."""
    files = sorted(folder.glob("*.read"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_MOST_SESSIONS:]:
        file.unlink(missing_ok=True)
