"""Which folders an agent remembers: a small text file that outlives the index.

The index may be deleted at any time; this list is what it comes back from.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from memwell.errors import HomeError
from memwell.store.contract import override
from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.values import Workspace
from memwell.store.sqlite.filesystem import hold_lock, make_private_folder

FILE_NAME = "workspaces.json"


class WorkspaceFile(WorkspaceList):
    """The list of workspaces of one agent."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE_NAME

    @override
    def list_all(self) -> list[Workspace]:
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

    @override
    def put(self, entry: Workspace) -> Workspace:
        with self._locked():
            others = [known for known in self.list_all() if known.root != entry.root]
            self._save(sorted([*others, entry], key=lambda known: known.root))
        return entry

    @override
    def remove(self, root: str) -> None:
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
