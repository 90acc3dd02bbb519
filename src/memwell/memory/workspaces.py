"""Finding, registering and syncing workspaces: what `Memory` does before it can search them."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memwell import config
from memwell.config.settings import Value
from memwell.errors import CorruptIndexError, MemwellError, NotFoundError
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.scan import SUFFIXES, Selection, find_workspace
from memwell.ingest.sync import Plan, Progress, Writing, apply, no_progress, plan
from memwell.model import Freshness, IndexReport
from memwell.reports import FillReport
from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.index import Index
from memwell.store.contract.values import IndexedFile, Workspace

_SEARCH_WAIT_MS = 200
"""How long a search waits to write; a sync of another process may be under way."""

_CHEAP_BYTES = 2_000_000
_SAMPLE = 200
_SAME_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class RefreshedWorkspaces:
    """The workspaces a search covers, and how fresh they are."""

    ids: tuple[int, ...] | None
    freshness: Freshness


class Workspaces:
    """The workspaces of one agent, kept in step with their files."""

    def __init__(
        self, registry: WorkspaceList, index: Index, settings: Mapping[str, Value] | None = None
    ) -> None:
        """`settings` go before those of files and the environment."""
        self.registry = registry
        self._index = index
        self._overrides = settings or {}

    # -- which workspace -----------------------------------------------------------------------

    def find_around(self, path: Path) -> Workspace | None:
        """Return the workspace around a folder: a registered one, else one that looks like it."""
        known = self.registry.find_around(path)
        found = find_workspace(path)
        # A registered folder that is taken whole holds what is inside it, whatever it looks like.
        if found is None or (known and (known.takes_all or known.contains(found) is False)):
            return known
        return known if known and known.path == found else Workspace(str(found), conventional=True)

    def register_all(self, paths: Sequence[Path], place: Path | None) -> list[Workspace]:
        """Take folders and files into the list; the workspace around a place if none is named."""
        if paths:
            registered = [self.register(path) for path in paths]
            return [*{entry.root: entry for entry in registered}.values()]
        entry = self.find_around(place) if place else None
        if entry is None:
            raise NotFoundError(
                f"There is no workspace around {place or Path.cwd()}",
                "Run `memwell index .` to take all notes beneath this folder",
            )
        return [self.ensure_registered(entry)]

    def register(self, path: Path) -> Workspace:
        """Take a folder (all of it) or a single file into the list of workspaces."""
        if not path.exists():
            raise NotFoundError(
                f"{path} does not exist", "Check the spelling, or name another folder"
            )
        if path.is_dir():
            return self._register_folder(path)
        if path.suffix.lower() not in SUFFIXES:
            raise MemwellError(
                f"{path} is not a note",
                f"memwell reads {', '.join(SUFFIXES)}: rename or convert it",
            )
        around = self.find_around(path.parent) or Workspace(str(path.parent))
        return self._include(around, path)

    def ensure_registered(self, entry: Workspace) -> Workspace:
        """Put a workspace on the list, recognising one whose folder was moved."""
        if entry not in self.registry.list_all():
            self._adopt_moved_folder(entry.path)
            self.registry.put(entry)
        return entry

    def forget(self, root: Path) -> None:
        """Take a workspace off the list and out of the index; its files stay."""
        entry = next((known for known in self.registry.list_all() if known.path == root), None)
        if entry is None:
            listed = ", ".join(known.root for known in self.registry.list_all()) or "none"
            raise NotFoundError(f"{root} is not a workspace", f"Known workspaces: {listed}")
        self.registry.remove(entry.root)
        with self._index.writing() as notes:
            known_id = notes.workspace_id(entry.root)
            if known_id is not None:
                notes.remove_workspace(known_id)

    def _register_folder(self, folder: Path) -> Workspace:
        known = self.registry.find_around(folder)
        if known:
            return self._include(known, folder)
        for inner in self.registry.list_all():
            if folder in inner.path.parents:
                self.forget(inner.path)  # its notes are part of the larger workspace now
        return self.ensure_registered(Workspace(str(folder), include=(".",)))

    def _include(self, entry: Workspace, path: Path) -> Workspace:
        relative = path.relative_to(entry.path).as_posix()
        if not (entry.takes_all or relative in entry.include):
            include = (".",) if relative == "." else (*entry.include, relative)
            entry = replace(entry, include=include)
        return self.ensure_registered(entry)

    def _adopt_moved_folder(self, root: Path) -> None:
        """If `root` is a known workspace that was moved here, let it keep its rows.

        Not where it may as well be on another machine.
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
                    if _same_folder(root, row[2], reader.notes.indexed_files(row[0]))
                ),
                None,
            )
        if moved:
            workspace_id, old_root, _, _ = moved
            with self._index.writing() as notes:
                notes.move_workspace(workspace_id, str(root))
            self.registry.remove(old_root)

    # -- keeping in step -----------------------------------------------------------------------

    def sync(self, entry: Workspace, progress: Progress = no_progress) -> IndexReport:
        """Bring the index in step with a workspace, whatever that takes."""
        started = time.perf_counter()
        if not entry.path.is_dir():
            raise NotFoundError(
                f"The workspace {entry.root} is not there now",
                f"Its notes are kept; `memwell reset --workspace {entry.root}` forgets them",
            )
        job = self._job(entry)
        report = job.apply(job.plan(), self._index.writing, progress)
        return replace(report, seconds=time.perf_counter() - started)

    def sync_all(self) -> None:
        """Bring up to date what is there of the workspaces."""
        for entry in self.registry.list_all():
            if entry.path.is_dir():
                self.sync(entry)

    def refresh(
        self, entries: Sequence[Workspace], progress: Progress = no_progress
    ) -> RefreshedWorkspaces:
        """Sync workspaces before a search where that is cheap; say what was left."""
        present = [entry for entry in entries if entry.path.is_dir()]
        states = [self._refresh_one(entry, progress) for entry in present]
        away = [entry for entry in entries if entry not in present]
        if self._index.shared:
            searched, what = [*entries], "searched as it was last seen"
        else:
            searched, what = present, "its notes were not searched"
        notes = [f"{entry.root} is not there now, {what}" for entry in away]
        notes += [state.note for state in states if state.note]
        with self._index.reading() as reader:
            synced = {root: (key, at) for key, root, _, at in reader.notes.workspaces()}
            facts = reader.notes.fact_workspaces()
        chosen = [synced[entry.root] for entry in searched if entry.root in synced]
        return RefreshedWorkspaces(
            None if len(chosen) == len(synced) and not facts else tuple(key for key, _ in chosen),
            Freshness(
                checked=bool(states) and all(state.checked for state in states),
                pending=sum(state.pending for state in states),
                synced_at=min((at for _, at in chosen if at), default=None),
                note="; ".join(notes),
            ),
        )

    def _refresh_one(self, entry: Workspace, progress: Progress) -> Freshness:
        """Sync one workspace if that is cheap or was never done; what is gone goes in any case."""
        settings = self._settings(entry)
        if not settings["sync.on_search"] and self._was_synced(entry):
            return Freshness(checked=False)
        job = self._job(entry)
        if not job.never_synced and len(job.stamps) > settings["sync.cheap_files"]:
            return Freshness(checked=False)
        todo = job.plan()
        cheap = todo.size <= settings["sync.cheap_notes"] and todo.bytes <= _CHEAP_BYTES
        pending = 0
        if not (cheap or job.never_synced):
            pending = todo.size
            todo = todo.only_deletions()
            pending -= todo.size
        if not (todo.size or todo.unsure or job.never_synced):
            return Freshness(checked=True, pending=pending)
        try:
            job.apply(todo, lambda: self._index.writing(_SEARCH_WAIT_MS), progress)
        except CorruptIndexError:
            raise
        except MemwellError as error:  # the search answers from what it has
            return Freshness(checked=True, pending=pending + todo.size, note=error.what)
        return Freshness(checked=True, pending=pending)

    def folders(self, entry: Workspace) -> list[Path]:
        """Return the folders that notes of a workspace are, or could appear, in."""
        return [entry.path / folder for folder in self._job(entry).plan().scan.folders]

    def _job(self, entry: Workspace) -> SyncJob:
        with self._index.reading() as reader:
            row = next((row for row in reader.notes.workspaces() if row[1] == entry.root), None)
            stamps = reader.notes.indexed_files(row[0]) if row else {}
        never_synced = row is None or row[3] is None
        return SyncJob(entry, self._settings(entry), stamps, never_synced=never_synced)

    def _settings(self, entry: Workspace) -> config.Config:
        return config.load(entry.path).with_overrides(self._overrides)

    def _was_synced(self, entry: Workspace) -> bool:
        with self._index.reading() as reader:
            known = reader.notes.workspaces()
        return any(root == entry.root and at is not None for _, root, _, at in known)

    def watch(
        self,
        entries: Sequence[Workspace],
        sync: Callable[[Workspace], IndexReport],
        fill: Callable[[], FillReport],
        report: Callable[[IndexReport | str], None],
        stop: threading.Event,
        something_new: threading.Event,
    ) -> None:
        """Sync workspaces whenever their files change, and fill after that, until `stop` is set."""
        from memwell.ingest.watch import keep_embedding, watch

        by_root = {entry.path: entry for entry in entries}

        def synced(root: Path) -> None:
            done = sync(by_root[root])
            something_new.set()
            if done.touched or done.problems:
                report(done)

        filling = threading.Thread(target=keep_embedding, args=(fill, something_new, report, stop))
        filling.start()
        watch([*by_root], synced, lambda root: self.folders(by_root[root]), report, stop)
        filling.join()


@dataclass(frozen=True, slots=True)
class SyncJob:
    """One sync of one workspace."""

    entry: Workspace
    settings: config.Config
    stamps: dict[str, IndexedFile]
    never_synced: bool

    @property
    def chunk_settings(self) -> ChunkSettings:
        return ChunkSettings(self.settings["chunk.size"], self.settings["chunk.overlap"])

    def plan(self) -> Plan:
        """Compare the files with the index."""
        extra = self.settings["scan.extra"] if self.entry.conventional else ()
        selection = Selection(
            self.entry.path,
            conventional=self.entry.conventional,
            include=(*self.entry.include, *extra),
            max_bytes=int(self.settings["scan.max_file_mb"] * 1e6),
        )
        return plan(selection, self.stamps, self.chunk_settings)

    def apply(self, todo: Plan, writing: Writing, progress: Progress) -> IndexReport:
        """Do what the plan says, and record that it was done."""
        with writing() as notes:
            workspace_id = notes.workspace(self.entry.root, _folder_id(self.entry.path))
        report = apply(todo, self.entry.path, workspace_id, self.chunk_settings, writing, progress)
        with writing() as notes:
            notes.mark_synced(workspace_id, dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
        return report


def _folder_id(root: Path) -> str:
    status = root.stat()
    return f"{status.st_dev}:{status.st_ino}"


def _same_folder(root: Path, folder_id: str | None, stamps: dict[str, IndexedFile]) -> bool:
    """Whether `root` is a folder the index knew elsewhere: the same inode, or the same files."""
    if folder_id == _folder_id(root):
        return True
    sample = [*stamps.items()][:_SAMPLE]
    same = sum(_size(root / path) == stamp.size for path, stamp in sample)
    return bool(sample) and same >= _SAME_SHARE * len(sample)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
