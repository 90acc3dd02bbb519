"""workspaces.json: the list of an agent's workspaces.

The index can be deleted at any time; a sync rebuilds it from the folders on this list.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path

from memwell.errors import HomeError
from memwell.files import hold_lock, is_utf8, private_file, remedy_for, write_errors
from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.values import Workspace

FILE_NAME = "workspaces.json"


class WorkspaceFile(WorkspaceList):
    """The list of workspaces in the folder of one agent; the index can restore a damaged one."""

    def __init__(self, folder: Path, restore: Callable[[], list[Workspace]]) -> None:
        self.file = folder / FILE_NAME
        self._restore = restore

    def list_all(self) -> list[Workspace]:
        try:
            return self._read()
        except (ValueError, KeyError, TypeError):
            with self._lock():
                return self._restore_list()

    def _restore_list(self) -> list[Workspace]:
        """Rename the damaged list and write one with the workspaces of the index."""
        with suppress(ValueError, KeyError, TypeError):
            return self._read()  # another process did it
        workspaces = self._restore()
        os.replace(self.file, self.file.with_name(f"{self.file.name}.corrupt"))
        self._write(workspaces)
        return workspaces

    def _read(self) -> list[Workspace]:
        try:
            listed = json.loads(self.file.read_text(encoding="utf-8"))
            return [
                Workspace(
                    str(item["root"]), bool(item["conventional"]), tuple(map(str, item["include"]))
                )
                for item in listed["workspaces"]
                if is_utf8(str(item["root"]))  # version 0.1 listed folders that it could not index
            ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HomeError(
                f"{self.file} cannot be read ({error})", remedy_for(error).capitalize()
            ) from error

    def put(self, workspace: Workspace) -> None:
        self.list_all()
        with self._lock():
            others = [other for other in self._read() if other.root != workspace.root]
            self._write([*others, workspace])

    def remove(self, root: str) -> None:
        self.list_all()
        with self._lock():
            self._write([workspace for workspace in self._read() if workspace.root != root])

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep other processes from changing the list between reading and writing it."""
        with write_errors(self.file), hold_lock(self.file.with_suffix(".lock"), wait=True):
            yield

    def _write(self, workspaces: Sequence[Workspace]) -> None:
        rows = [asdict(workspace) for workspace in sorted(workspaces, key=attrgetter("root"))]
        with private_file(self.file) as part:
            text = json.dumps({"workspaces": rows}, indent=2)
            part.write_text(text + "\n", encoding="utf-8")
