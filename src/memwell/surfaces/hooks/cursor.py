"""The position up to which a transcript was read: one small file per session, also its lock.

Lines are appended, and the last complete line counts. A process that is killed while it writes
cannot damage the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2s
from pathlib import Path

from memwell.files import hold_lock
from memwell.surfaces.hooks.transcript import Position

_MOST_SESSIONS = 500


class Cursor:
    """The position in one transcript."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.position = _last_position(file)

    def advance(self, position: Position) -> None:
        """Save that everything before a position was read."""
        if position != self.position:
            with self._file.open("a", encoding="ascii") as file:
                file.write(f"{position.offset} {position.line}\n")
            self.position = position


@contextmanager
def open_cursor(key: Sequence[str | None], folder: Path) -> Iterator[Cursor]:
    """Lend the cursor of a session, to one process at a time."""
    digest = blake2s(json.dumps(key).encode(), digest_size=12).hexdigest()
    file = folder / f"{digest}.read"
    if not file.exists():
        _delete_oldest(folder)
    with hold_lock(file, wait=True):
        yield Cursor(file)


def _last_position(file: Path) -> Position:
    if not file.exists():  # on systems without locks
        return Position()
    for line in reversed(file.read_text(encoding="ascii", errors="replace").split("\n")[:-1]):
        offset, _, number = line.partition(" ")
        if offset.isdecimal() and number.isdecimal():
            return Position(int(offset), int(number))
    return Position()


def _delete_oldest(folder: Path) -> None:
    """Delete the files of the oldest sessions, if there are too many."""
    files = sorted(folder.glob("*.read"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_MOST_SESSIONS:]:
        file.unlink(missing_ok=True)
