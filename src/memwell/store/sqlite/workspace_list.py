"""workspaces.json: the list of an agent's workspaces.

The index can be deleted at any time; a sync rebuilds it from the folders on this list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path

from memwell.errors import HomeError
from memwell.files import hold_lock, private_file, remedy_for, write_errors
from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.values import Workspace

FILE_NAME = "workspaces.json"


class WorkspaceFile(WorkspaceList):
    """The list of workspaces in the folder of one agent."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE_NAME

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
                f"{self.file} cannot be read ({error})", remedy_for(error).capitalize()
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise HomeError(
                f"{self.file} is not a list of workspaces ({error})",
                "Delete it and run `memwell index PATH` for each workspace",
            ) from error

    def put(self, workspace: Workspace) -> None:
        with self._lock():
            others = [other for other in self.list_all() if other.root != workspace.root]
            self._write([*others, workspace])

    def remove(self, root: str) -> None:
        with self._lock():
            self._write([workspace for workspace in self.list_all() if workspace.root != root])

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
