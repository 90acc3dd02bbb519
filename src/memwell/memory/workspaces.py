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
from memwell.ingest.chunk_settings import Recipe
from memwell.ingest.scan import SUFFIXES, Selection, find_workspace
from memwell.ingest.sync import Plan, Progress, Writing, carry_out, plan, unwatched
from memwell.model import Freshness, IndexReport
from memwell.reports import FillReport
from memwell.store.contract.facts import Registry
from memwell.store.contract.index import Index
from memwell.store.sqlite.notes import Stamp
from memwell.store.sqlite.workspace_list import Entry

_IMPATIENT_MS = 200
"""How long a search waits to write; a sync of another process may be under way."""

_CHEAP_BYTES = 2_000_000
_SAMPLE = 200
_SAME_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Scope:
    """The workspaces a search covers, and how fresh they are."""

    ids: tuple[int, ...] | None
    freshness: Freshness


class Workspaces:
    """The workspaces of one agent, kept in step with their files."""

    def __init__(
        self, registry: Registry, index: Index, settings: Mapping[str, Value] | None = None
    ) -> None:
        """`settings` go before those of files and the environment."""
        self.registry = registry
        self._index = index
        self._own = settings or {}

    # -- which workspace -----------------------------------------------------------------------

    def around(self, path: Path) -> Entry | None:
        """Return the workspace around a folder: a registered one, else one that looks like it."""
        known = self.registry.around(path)
        found = find_workspace(path)
        # A registered folder that is taken whole holds what is inside it, whatever it looks like.
        if found is None or (known and (known.everything or known.contains(found) is False)):
            return known
        return known if known and known.path == found else Entry(str(found), conventional=True)

    def taken(self, paths: Sequence[Path], place: Path | None) -> list[Entry]:
        """Take folders and files into the list; the workspace around a place if none is named."""
        if paths:
            registered = [self.register(path) for path in paths]
            return [*{entry.root: entry for entry in registered}.values()]
        entry = self.around(place) if place else None
        if entry is None:
            raise NotFoundError(
                f"There is no workspace around {place or Path.cwd()}",
                "Run `memwell index .` to take all notes beneath this folder",
            )
        return [self.remember(entry)]

    def register(self, path: Path) -> Entry:
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
        around = self.around(path.parent) or Entry(str(path.parent))
        return self._including(around, path)

    def remember(self, entry: Entry) -> Entry:
        """Put a workspace on the list, recognising one whose folder was moved."""
        if entry not in self.registry.entries():
            self._recognise(entry.path)
            self.registry.put(entry)
        return entry

    def forget(self, root: Path) -> None:
        """Take a workspace off the list and out of the index; its files stay."""
        entry = next((known for known in self.registry.entries() if known.path == root), None)
        if entry is None:
            listed = ", ".join(known.root for known in self.registry.entries()) or "none"
            raise NotFoundError(f"{root} is not a workspace", f"Known workspaces: {listed}")
        self.registry.remove(entry.root)
        with self._index.writing() as notes:
            known_id = notes.workspace_id(entry.root)
            if known_id is not None:
                notes.remove_workspace(known_id)

    def _register_folder(self, folder: Path) -> Entry:
        known = self.registry.around(folder)
        if known:
            return self._including(known, folder)
        for inner in self.registry.entries():
            if folder in inner.path.parents:
                self.forget(inner.path)  # its notes are part of the larger workspace now
        return self.remember(Entry(str(folder), include=(".",)))

    def _including(self, entry: Entry, path: Path) -> Entry:
        relative = path.relative_to(entry.path).as_posix()
        if not (entry.everything or relative in entry.include):
            include = (".",) if relative == "." else (*entry.include, relative)
            entry = replace(entry, include=include)
        return self.remember(entry)

    def _recognise(self, root: Path) -> None:
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
                (row for row in lost if _same_folder(root, row[2], reader.notes.stamps(row[0]))),
                None,
            )
        if moved:
            workspace_id, old_root, _, _ = moved
            with self._index.writing() as notes:
                notes.move_workspace(workspace_id, str(root))
            self.registry.remove(old_root)

    # -- keeping in step -----------------------------------------------------------------------

    def sync(self, entry: Entry, progress: Progress = unwatched) -> IndexReport:
        """Bring the index in step with a workspace, whatever that takes."""
        started = time.perf_counter()
        if not entry.path.is_dir():
            raise NotFoundError(
                f"The workspace {entry.root} is not there now",
                f"Its notes are kept; `memwell reset --workspace {entry.root}` forgets them",
            )
        job = self._job(entry)
        report = job.carry_out(job.look(), self._index.writing, progress)
        return replace(report, seconds=time.perf_counter() - started)

    def sync_all(self) -> None:
        """Bring up to date what is there of the workspaces."""
        for entry in self.registry.entries():
            if entry.path.is_dir():
                self.sync(entry)

    def refreshed(self, entries: Sequence[Entry], progress: Progress = unwatched) -> Scope:
        """Sync workspaces before a search where that is cheap; say what was left."""
        present = [entry for entry in entries if entry.path.is_dir()]
        states = [self._refresh(entry, progress) for entry in present]
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
        return Scope(
            None if len(chosen) == len(synced) and not facts else tuple(key for key, _ in chosen),
            Freshness(
                checked=bool(states) and all(state.checked for state in states),
                pending=sum(state.pending for state in states),
                synced_at=min((at for _, at in chosen if at), default=None),
                note="; ".join(notes),
            ),
        )

    def _refresh(self, entry: Entry, progress: Progress) -> Freshness:
        """Sync one workspace if that is cheap or was never done; what is gone goes in any case."""
        settings = self._settings(entry)
        if not settings["sync.on_search"] and self._was_synced(entry):
            return Freshness(checked=False)
        job = self._job(entry)
        if not job.never_synced and len(job.stamps) > settings["sync.cheap_files"]:
            return Freshness(checked=False)
        todo = job.look()
        cheap = todo.size <= settings["sync.cheap_notes"] and todo.bytes <= _CHEAP_BYTES
        pending = 0
        if not (cheap or job.never_synced):
            pending = todo.size
            todo = todo.only_deletions()
            pending -= todo.size
        if not (todo.size or todo.unsure or job.never_synced):
            return Freshness(checked=True, pending=pending)
        try:
            job.carry_out(todo, lambda: self._index.writing(_IMPATIENT_MS), progress)
        except CorruptIndexError:
            raise
        except MemwellError as error:  # the search answers from what it has
            return Freshness(checked=True, pending=pending + todo.size, note=error.what)
        return Freshness(checked=True, pending=pending)

    def folders(self, entry: Entry) -> list[Path]:
        """Return the folders that notes of a workspace are, or could appear, in."""
        return [entry.path / folder for folder in self._job(entry).look().scan.folders]

    def _job(self, entry: Entry) -> _Job:
        with self._index.reading() as reader:
            row = next((row for row in reader.notes.workspaces() if row[1] == entry.root), None)
            stamps = reader.notes.stamps(row[0]) if row else {}
        never_synced = row is None or row[3] is None
        return _Job(entry, self._settings(entry), stamps, never_synced=never_synced)

    def _settings(self, entry: Entry) -> config.Config:
        return config.load(entry.path).but(self._own)

    def _was_synced(self, entry: Entry) -> bool:
        with self._index.reading() as reader:
            known = reader.notes.workspaces()
        return any(root == entry.root and at is not None for _, root, _, at in known)

    def watch(
        self,
        entries: Sequence[Entry],
        sync: Callable[[Entry], IndexReport],
        fill: Callable[[], FillReport],
        report: Callable[[IndexReport | str], None],
        stop: threading.Event,
        something_new: threading.Event,
    ) -> None:
        """Sync workspaces whenever their files change, and fill after that, until `stop` is set."""
        from memwell.ingest.watch import keep_filling, watch

        by_root = {entry.path: entry for entry in entries}

        def synced(root: Path) -> None:
            done = sync(by_root[root])
            something_new.set()
            if done.touched or done.problems:
                report(done)

        filling = threading.Thread(target=keep_filling, args=(fill, something_new, report, stop))
        filling.start()
        watch([*by_root], synced, lambda root: self.folders(by_root[root]), report, stop)
        filling.join()


@dataclass(frozen=True, slots=True)
class _Job:
    """One sync of one workspace."""

    entry: Entry
    settings: config.Config
    stamps: dict[str, Stamp]
    never_synced: bool

    @property
    def recipe(self) -> Recipe:
        return Recipe(self.settings["chunk.size"], self.settings["chunk.overlap"])

    def look(self) -> Plan:
        """Compare the files with the index."""
        extra = self.settings["scan.extra"] if self.entry.conventional else ()
        selection = Selection(
            self.entry.path,
            conventional=self.entry.conventional,
            include=(*self.entry.include, *extra),
            max_bytes=int(self.settings["scan.max_file_mb"] * 1e6),
        )
        return plan(selection, self.stamps, self.recipe)

    def carry_out(self, todo: Plan, writing: Writing, progress: Progress) -> IndexReport:
        """Do what the plan says, and record that it was done."""
        with writing() as notes:
            workspace_id = notes.workspace(self.entry.root, _folder_id(self.entry.path))
        report = carry_out(todo, self.entry.path, workspace_id, self.recipe, writing, progress)
        with writing() as notes:
            notes.synced(workspace_id, dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
        return report


def _folder_id(root: Path) -> str:
    status = root.stat()
    return f"{status.st_dev}:{status.st_ino}"


def _same_folder(root: Path, folder_id: str | None, stamps: dict[str, Stamp]) -> bool:
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
