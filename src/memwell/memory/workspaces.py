"""Finding and registering the workspaces of one agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from memwell.config.sections import ScanSettings
from memwell.errors import MemwellError, NotFoundError
from memwell.files import is_utf8, printable_path
from memwell.ingest.readers.formats import EXTRA, find_format, find_reader_of, known_suffixes
from memwell.ingest.scan import find_workspace
from memwell.memory.sync_job import folder_id
from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.index import Index
from memwell.store.contract.values import IndexedFile, Workspace, find_innermost

_SAMPLE = 200
"""Files that are compared to recognise a folder that was moved."""
_SAME_SHARE = 0.8


def find_around(folder: Path, registered: Iterable[Workspace]) -> Workspace | None:
    """Return the workspace around a folder: a registered one, else one that looks like it."""
    known = find_innermost(registered, folder)
    if known and known.takes_all:  # also what looks like a workspace inside
        return known
    found = find_workspace(folder)
    if found is None or (known and not known.contains(found)):
        return known
    return known if known and known.path == found else Workspace(str(found), conventional=True)


def find_covered(
    workspace: Workspace | None, registered: Sequence[Workspace], transcripts: str
) -> tuple[Workspace, ...]:
    """Return the workspaces that a call in a workspace covers: it, and the transcripts.

    Outside of a workspace it covers all.
    """
    if workspace is None:
        return tuple(registered)
    others = (one for one in registered if one.root == transcripts != workspace.root)
    return (workspace, *others)


class Workspaces:
    """The registered workspaces of one agent."""

    def __init__(self, registry: WorkspaceList, index: Index) -> None:
        self.registry = registry
        self._index = index

    def register_all(self, paths: Sequence[Path], folder: Path | None) -> list[Workspace]:
        """Register folders and files; without any, the workspace around `folder`."""
        if paths:
            registered = [self.register(path) for path in paths]
            return [*{workspace.root: workspace for workspace in registered}.values()]
        workspace = find_around(folder, self.registry.list_all()) if folder else None
        if workspace is None:
            raise NotFoundError(
                f"There is no workspace around {folder or Path.cwd()}",
                "Run `memwell index .` to index all notes beneath this folder",
            )
        return [self.ensure_registered(workspace)]

    def register(self, path: Path) -> Workspace:
        """Register a whole folder or a single file."""
        if not path.exists():
            raise NotFoundError(
                f"{path} does not exist", "Check the spelling, or name another folder"
            )
        if path.is_dir():
            return self._register_folder(path)
        found = find_reader_of(path.name)
        if found is None:
            raise MemwellError(
                f"{path} is not a note",
                f"memwell reads {', '.join(known_suffixes())}: rename or convert it",
            )
        if not found.is_installed:
            raise MemwellError(f"{path.name} needs {EXTRA}", f"pip install '{EXTRA}'")
        around = find_around(path.parent, self.registry.list_all())
        return self._include(around or Workspace(str(path.parent)), path)

    def ensure_registered(
        self, workspace: Workspace, known: Iterable[Workspace] | None = None
    ) -> Workspace:
        """Register a workspace unless it is among the `known` ones; recognise a moved folder."""
        if not is_utf8(workspace.root):
            raise MemwellError(
                f"The name of the folder {printable_path(workspace.root)} is not valid UTF-8",
                "Rename it, or name another folder",
            )
        if workspace not in (self.registry.list_all() if known is None else known):
            self._adopt_moved_folder(workspace.path)
            self.registry.put(workspace)
        return workspace

    def forget(self, root: Path) -> None:
        """Remove a workspace from the list and the index; its files stay."""
        known = self.registry.list_all()
        workspace = next((one for one in known if one.path == root), None)
        if workspace is None:
            roots = ", ".join(one.root for one in known) or "none"
            raise NotFoundError(f"{root} is not a workspace", f"Known workspaces: {roots}")
        self.registry.remove(workspace.root)
        with self._index.writing() as notes:
            known_id = notes.workspace_id(workspace.root)
            if known_id is not None:
                notes.remove_workspace(known_id)

    def _register_folder(self, folder: Path) -> Workspace:
        registered = self.registry.list_all()
        if known := find_innermost(registered, folder):
            return self._include(known, folder)
        for inner in registered:
            if folder in inner.path.parents:
                self.forget(inner.path)  # its notes are part of the larger workspace now
        return self.ensure_registered(Workspace(str(folder), include=(".",)))

    def _include(self, workspace: Workspace, path: Path) -> Workspace:
        relative = path.relative_to(workspace.path).as_posix()
        found = find_format(relative)
        is_taken = workspace.takes_all and (found is None or found.name in ScanSettings.formats)
        if not (is_taken or relative in workspace.include):
            include = (".",) if relative == "." else (*workspace.include, relative)
            workspace = replace(workspace, include=include)
        return self.ensure_registered(workspace)

    def _adopt_moved_folder(self, root: Path) -> None:
        """If `root` is an indexed workspace that was moved here, let it keep its rows.

        On a shared store the folder may still exist on another machine, so nothing is moved.
        """
        if self._index.shared:
            return
        with self._index.reading() as reader:
            known = reader.notes.workspaces()
            if any(other == str(root) for _, other, _, _ in known):
                return
            lost = [row for row in known if not Path(row[1]).exists()]
            moved = next(
                (
                    row
                    for row in lost
                    if _is_same_folder(root, row[2], reader.notes.indexed_files(row[0]))
                ),
                None,
            )
        if moved:
            workspace_id, old_root, _, _ = moved
            with self._index.writing() as notes:
                notes.move_workspace(workspace_id, str(root))
            self.registry.remove(old_root)


def _is_same_folder(root: Path, known_id: str | None, files: dict[str, IndexedFile]) -> bool:
    """Whether `root` is a folder the index knew elsewhere: the same inode, or the same files."""
    if known_id == folder_id(root):
        return True
    sample = [*files.items()][:_SAMPLE]
    same = sum(_size(root / path) == file.size for path, file in sample)
    return bool(sample) and same >= _SAME_SHARE * len(sample)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
