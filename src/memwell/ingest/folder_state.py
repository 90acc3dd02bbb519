"""Whether the files of a large workspace are as they were when it was last compared with the index.

A comparison reads the index and applies ignore files, which takes long for many notes. Much faster
is a digest of the times at which all files of its folders changed last, which no program can set.
If the digest is that of a file beside the index, nothing changed. It is used by processes that
search once; others learn of changes from the file system's events.
"""

from __future__ import annotations

import json
import os
import stat
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memwell.files import private_file

FEWEST_NOTES = 1_000
"""A smaller workspace is compared faster than it is worth to keep a file for it."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """The state of a workspace that the index has."""

    index: str
    """The rules and the moment of the last sync: a state belongs to one state of the index."""
    folders: Sequence[str]
    """The folders that hold notes, or could."""
    digest: str

    @classmethod
    def take(cls, root: Path, folders: Sequence[str], index: str) -> FolderState | None:
        """Return the state of folders as they are now; None if one of them cannot be read."""
        digest = _digest(root, folders)
        return cls(index, folders, digest) if digest else None

    @classmethod
    def load(cls, file: Path) -> FolderState | None:
        """Read a state; return None if there is none, or if it cannot be read."""
        try:
            values = json.loads(file.read_bytes())
            return cls(str(values["index"]), values["folders"], str(values["digest"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, file: Path) -> None:
        """Write it, whole or not at all."""
        values = {"index": self.index, "folders": [*self.folders], "digest": self.digest}
        with private_file(file) as part:
            part.write_text(json.dumps(values), encoding="utf-8")

    def is_current(self, root: Path, index: str) -> bool:
        """Whether neither the index nor any file changed since."""
        return self.index == index and self.digest == _digest(root, self.folders)


def _digest(root: Path, folders: Sequence[str]) -> str:
    """Return a digest of all that changes when a note does; "" if a folder cannot be read."""
    import hashlib

    times = array("Q")
    try:
        for folder in folders:
            path = os.path.join(root, folder)
            status = os.stat(path)  # it changes when an entry is added, removed or renamed
            times.extend((status.st_ino, status.st_mtime_ns, status.st_ctime_ns))
            times.extend(_file_times(path))
    except (OSError, OverflowError):
        return ""
    return hashlib.blake2b(times.tobytes(), digest_size=16).hexdigest()


def _file_times(path: str) -> list[int]:
    """Return when each file of a folder changed last.

    Names relative to an open folder are looked up in four fifths of the time of whole paths.
    """
    if os.stat not in os.supports_dir_fd:
        with os.scandir(path) as entries:
            found = [entry.stat() for entry in entries]
    else:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            found = [os.stat(name, dir_fd=folder) for name in os.listdir(folder)]
        finally:
            os.close(folder)
    return [status.st_ctime_ns for status in found if not stat.S_ISDIR(status.st_mode)]
