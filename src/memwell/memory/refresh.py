"""Syncing workspaces: in full for `memwell index`, and as far as it is cheap before a search."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from memwell.config.settings import Settings
from memwell.errors import (
    CorruptIndexError,
    HomeError,
    IndexDatabaseError,
    MemwellError,
    NotFoundError,
)
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.readers.formats import Format
from memwell.ingest.scan import Selection, scan
from memwell.ingest.sync import Plan, Writing, apply, plan
from memwell.memory.scope import utc_now
from memwell.model import Freshness, IndexReport
from memwell.progress import Progress, no_progress
from memwell.reports import FillReport
from memwell.store.contract.index import Index, Reader
from memwell.store.contract.values import IndexedFile, Workspace

SEARCH_WAIT_MS = 200
"""A search waits this long to write; another process may be syncing."""

_CHEAP_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A file that is a note of a workspace."""

    path: str
    most_bytes: int
    setting: str
    """The setting that limits its size."""
    reader: Format | None
    """The format that it is converted from; None if it is text."""


class WorkspaceSync:
    """Brings the index in step with the files of workspaces."""

    def __init__(self, index: Index, settings_for: Callable[[Workspace], Settings]) -> None:
        self._index = index
        self._settings_for = settings_for

    def sync(self, workspace: Workspace, progress: Progress = no_progress) -> IndexReport:
        """Bring the index in step with a workspace, whatever that takes."""
        started = time.perf_counter()
        if not workspace.is_present:
            raise NotFoundError(
                f"The folder of the workspace {workspace.root} is missing",
                f"Its notes are kept; `memwell reset --workspace {workspace.root}` removes them",
            )
        job = self._job(workspace)
        report = job.apply(job.plan(), self._index.writing, progress)
        self._erase_deleted(report)
        return replace(report, seconds=time.perf_counter() - started)

    def sync_all(self, workspaces: Sequence[Workspace]) -> None:
        """Sync the workspaces whose folders exist."""
        for workspace in workspaces:
            if workspace.is_present:
                self.sync(workspace)

    def plan_refresh(self, workspaces: Sequence[Workspace], reader: Reader) -> Refresh:
        """Compare workspaces with the index, and decide what to sync before a search."""
        present = [workspace for workspace in workspaces if workspace.is_present]
        if self._index.shared:
            searched, consequence = [*workspaces], "its last indexed state is searched"
        else:
            searched, consequence = present, "its notes are not searched"
        missing = [workspace for workspace in workspaces if workspace not in present]
        return Refresh(
            tuple(workspace.root for workspace in searched),
            tuple(f"The folder {one.root} is missing: {consequence}" for one in missing),
            tuple(self._plan_one(self._read_job(one, reader, search=True)) for one in present),
        )

    def _plan_one(self, job: SyncJob) -> RefreshStep:
        """Sync a workspace if that is cheap or was never done; deletions are always applied."""
        settings = job.settings
        if not job.never_synced and (job.skipped or len(job.files) > settings.sync.cheap_files):
            return RefreshStep(job, None, Freshness(checked=False))
        todo = job.plan().limit_unsure(_CHEAP_BYTES // 2)
        cheap = todo.size <= settings.sync.cheap_notes and todo.bytes <= _CHEAP_BYTES
        pending = 0
        if not (cheap or job.never_synced):
            pending = todo.size
            todo = todo.only_deletions()
            pending -= todo.size
        needed = todo.size or todo.unsure or job.never_synced
        return RefreshStep(job, todo if needed else None, Freshness(checked=True, pending=pending))

    def refresh(self, todo: Refresh, progress: Progress = no_progress) -> Refresh:
        """Sync as planned; return the refresh with nothing left to sync."""
        return replace(todo, steps=tuple(self._apply(step, progress) for step in todo.steps))

    def _apply(self, step: RefreshStep, progress: Progress) -> RefreshStep:
        if step.todo is None:
            return step
        freshness = step.freshness
        try:
            writing = partial(self._index.writing, SEARCH_WAIT_MS)
            report = step.job.apply(step.todo, writing, progress)
            self._erase_deleted(report, quickly=True)
        except CorruptIndexError:
            raise
        except MemwellError as error:  # the search answers from the index as it is
            pending = freshness.pending + step.todo.size
            freshness = replace(freshness, pending=pending, note=error.what)
        return replace(step, todo=None, freshness=freshness)

    def _erase_deleted(self, report: IndexReport, *, quickly: bool = False) -> None:
        """Remove what is left of deleted notes; if that is not possible now, the next sync does."""
        if report.deleted:
            with suppress(IndexDatabaseError, HomeError):
                self._index.erase_deleted(quickly=quickly)

    def folders(self, workspace: Workspace) -> list[Path]:
        """Return the folders that hold notes of a workspace, or could."""
        return [workspace.path / folder for folder in self._job(workspace).plan().scan.folders]

    def find_left_out(self, workspace: Workspace) -> tuple[str, ...]:
        """Return sentences on files of a workspace that are not indexed, with what takes them."""
        from memwell.ingest.left_out import describe_left_out

        return describe_left_out(self._job(workspace).selection)

    def find_note(self, workspace: Workspace, names: Sequence[str]) -> FoundNote | None:
        """Return the first of these paths that is a note.

        A note is a file that the rules select now. If a search would not look at the files, it is
        a file that is indexed.
        """
        job = self._job(workspace)
        paths: Container[str] = job.files
        sync = job.settings.sync
        if job.never_synced or (sync.on_search and len(job.files) <= sync.cheap_files):
            found = scan(job.selection)
            paths = found.files
            for problem in found.problems:
                if problem.path in names:
                    raise MemwellError(f"{problem.path}: {problem.what}", problem.remedy)
        name = next((name for name in names if name in paths), None)
        if name is None:
            return None
        most_bytes, setting = job.selection.size_limit(name)
        return FoundNote(name, most_bytes, setting, job.chunk_settings.find_reader(name))

    def _job(self, workspace: Workspace) -> SyncJob:
        with self._index.reading() as reader:
            return self._read_job(workspace, reader)

    def _read_job(self, workspace: Workspace, reader: Reader, *, search: bool = False) -> SyncJob:
        settings = self._settings_for(workspace)
        rows = reader.notes.workspaces()
        row = next((row for row in rows if row[1] == workspace.root), None)
        never_synced = row is None or row[3] is None
        skipped = search and not (never_synced or settings.sync.on_search)
        files = reader.notes.indexed_files(row[0]) if row and not skipped else {}
        return SyncJob(workspace, settings, files, never_synced, skipped)


@dataclass(frozen=True, slots=True)
class RefreshStep:
    """One workspace of a refresh: what is still to be synced, and how fresh it is afterwards."""

    job: SyncJob
    todo: Plan | None
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class Refresh:
    """The workspaces that a search covers, and what is to be synced before it."""

    roots: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[RefreshStep, ...]
    unembedded: int = 0
    """Chunks that vector search cannot find yet."""
    problem: str = ""
    """Why the facts could not be synced, if they could not."""

    @property
    def is_needed(self) -> bool:
        """Whether anything is to be synced."""
        return any(step.todo is not None for step in self.steps)

    def workspace_ids(self, reader: Reader) -> tuple[int, ...] | None:
        """Return the ids of the workspaces to search; None means everything."""
        indexed = {root: key for key, root, _, _ in reader.notes.workspaces()}
        chosen = tuple(indexed[root] for root in self.roots if root in indexed)
        is_all = len(chosen) == len(indexed) and not reader.notes.fact_workspaces()
        return None if is_all else chosen

    def freshness(self, reader: Reader) -> Freshness:
        """Return how fresh the state is that a reader sees."""
        states = [step.freshness for step in self.steps]
        times = [at for _, root, _, at in reader.notes.workspaces() if root in self.roots and at]
        note = "; ".join([*self.notes, *(state.note for state in states if state.note)])
        if self.problem not in note:
            note = f"{note}; {self.problem}" if note else self.problem
        return Freshness(
            checked=bool(states) and all(state.checked for state in states),
            pending=sum(state.pending for state in states),
            unembedded=self.unembedded,
            synced_at=min(times, default=None),
            note=note,
        )


@dataclass(frozen=True, slots=True)
class SyncJob:
    """One sync of one workspace."""

    workspace: Workspace
    settings: Settings
    files: dict[str, IndexedFile]
    never_synced: bool
    skipped: bool = False
    """Whether the settings leave this workspace to a watcher, so that its files are not read."""

    @property
    def chunk_settings(self) -> ChunkSettings:
        """How notes are cut into chunks."""
        return ChunkSettings(
            self.settings.chunk.size,
            self.settings.chunk.overlap,
            file_dates=self.settings.scan.date == "file",
            formats=self.settings.scan.formats,
        )

    @property
    def selection(self) -> Selection:
        """Which files are notes."""
        extra = self.settings.scan.extra if self.workspace.conventional else ()
        return Selection(
            self.workspace.path,
            conventional=self.workspace.conventional,
            include=(*self.workspace.include, *extra),
            max_bytes=int(self.settings.scan.max_file_mb * 1e6),
            max_document_bytes=int(self.settings.scan.max_document_mb * 1e6),
            formats=self.settings.scan.formats,
        )

    def plan(self) -> Plan:
        """Compare the files with the index."""
        return plan(self.selection, self.files, self.chunk_settings)

    def apply(self, todo: Plan, writing: Writing, progress: Progress) -> IndexReport:
        """Carry a plan out, and record that it was."""
        root = self.workspace.path
        with writing() as notes:
            workspace_id = notes.workspace(self.workspace.root, folder_id(root))
        report = apply(todo, root, workspace_id, self.chunk_settings, writing, progress)
        with writing() as notes:
            notes.mark_synced(workspace_id, utc_now())
        return report


def folder_id(root: Path) -> str:
    """Return what tells a folder apart on this machine, even if it is renamed."""
    status = root.stat()
    return f"{status.st_dev}:{status.st_ino}"


def watch_workspaces(
    workspaces: Sequence[Workspace],
    sync: Callable[[Workspace], IndexReport],
    folders: Callable[[Workspace], list[Path]],
    embed: Callable[[], FillReport],
    read_transcripts: Callable[[], object] | None,
    report: Callable[[IndexReport | str], None],
    stop: threading.Event,
    something_new: threading.Event,
) -> None:
    """Sync workspaces whenever their files change, and embed after that, until `stop` is set.

    Transcripts are read at intervals: their notes are files of a workspace.
    """
    from memwell.ingest.watch import keep_embedding, keep_reading, watch

    by_root = {workspace.path: workspace for workspace in workspaces}

    def sync_root(root: Path) -> None:
        done = sync(by_root[root])
        something_new.set()
        if done.touched or done.problems:
            report(done)

    threads = [threading.Thread(target=keep_embedding, args=(embed, something_new, report, stop))]
    if read_transcripts:
        threads.append(threading.Thread(target=keep_reading, args=(read_transcripts, report, stop)))
    for thread in threads:
        thread.start()
    watch([*by_root], sync_root, lambda root: folders(by_root[root]), report, stop)
    for thread in threads:
        thread.join()
