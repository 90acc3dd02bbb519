"""Which folders an agent remembers: a small text file that outlives the index.

The index may be deleted at any time; this list is what it comes back from.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from memwell.errors import HomeError
from memwell.store.sqlite.filesystem import hold_lock, make_private_folder

FILE_NAME = "workspaces.json"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace: its folder, and what of it is taken."""

    root: str
    conventional: bool = False
    include: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.root)

    @property
    def takes_all(self) -> bool:
        """Whether all notes beneath the folder are taken."""
        return "." in self.include

    def contains(self, path: Path) -> bool:
        """Whether `path` is the folder or lies beneath it."""
        return path == self.path or self.path in path.parents


def find_innermost(entries: Iterable[Workspace], path: Path) -> Workspace | None:
    """Return the innermost of some workspaces that contains `path`."""
    holding = [entry for entry in entries if entry.contains(path)]
    return max(holding, key=lambda entry: len(entry.path.parts), default=None)


class WorkspaceFile:
    """The list of workspaces of one agent."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE_NAME

    def list_all(self) -> list[Workspace]:
        """Return the workspaces; none if there is no list yet."""
        try:
            listed = json.loads(self.file.read_text(encoding="utf-8"))
            return [
                Workspace(
                    str(item["root"]), bool(item["conventional"]), tuple(map(str, item["include"]))
                )
                for item in listed["workspaces"]
            ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HomeError(
                f"{self.file} cannot be read ({error})", "Check its permissions"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise HomeError(
                f"{self.file} is not a list of workspaces ({error})",
                "Delete it and run `memwell index PATH` for each workspace",
            ) from error

    def find_around(self, path: Path) -> Workspace | None:
        """Return the innermost workspace that contains `path`."""
        return find_innermost(self.list_all(), path)

    def _save(self, entries: Sequence[Workspace]) -> None:
        """Write the list, whole or not at all."""
        text = json.dumps({"workspaces": [asdict(entry) for entry in entries]}, indent=2)
        with self._translated_errors():
            make_private_folder(self.file.parent)
            handle, temporary = tempfile.mkstemp(dir=self.file.parent, prefix=FILE_NAME)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.file)

    def put(self, entry: Workspace) -> Workspace:
        """Add a workspace, or replace the one with the same folder."""
        with self._locked():
            others = [known for known in self.list_all() if known.root != entry.root]
            self._save(sorted([*others, entry], key=lambda known: known.root))
        return entry

    def remove(self, root: str) -> None:
        """Take a workspace off the list."""
        with self._locked():
            self._save([known for known in self.list_all() if known.root != root])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the list between our reading and writing it."""
        with self._translated_errors(), hold_lock(self.file.with_suffix(".lock"), wait=True):
            yield

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HomeError(
                f"{self.file} cannot be written ({error})",
                "Check the permissions of the folder, or set MEMWELL_HOME to one you can write to",
            ) from error
