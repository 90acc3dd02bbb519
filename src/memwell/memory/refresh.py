"""Syncing workspaces: in full for `memwell index`, and as far as it is cheap before a search."""

from __future__ import annotations

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
from memwell.ingest.folder_state import FEWEST_NOTES, FolderState
from memwell.ingest.readers.formats import Format
from memwell.ingest.scan import scan
from memwell.ingest.sync import Plan
from memwell.memory.changes import Changes
from memwell.memory.sync_job import SyncJob
from memwell.model import Freshness, IndexReport
from memwell.progress import Progress, no_progress
from memwell.store.contract.index import Index, Reader
from memwell.store.contract.values import Workspace

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

    def __init__(
        self,
        index: Index,
        settings_for: Callable[[Workspace], Settings],
        changes: Changes | None = None,
        states: Path | None = None,
    ) -> None:
        """`states` is the folder for the states of large workspaces."""
        self._index = index
        self._settings_for = settings_for
        self._changes = changes or Changes()
        self._states = states

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
            tuple(self._plan_one(one, reader) for one in present),
        )

    def _plan_one(self, workspace: Workspace, reader: Reader) -> RefreshStep:
        """Sync a workspace if that is cheap or was never done; deletions are always applied."""
        head = self._read_head(workspace, reader)
        settings = head.settings
        if self._changes.is_in_step(workspace.root, head.rules):
            return RefreshStep(head, None, Freshness(checked=True))
        if not (head.never_synced or settings.sync.on_search):
            return RefreshStep(head, None, Freshness(checked=False))
        first = self._changes.is_first_look(workspace.root)
        if first and self._has_saved_state(head):
            return RefreshStep(head, None, Freshness(checked=True))
        job = self._with_files(head, reader)
        if not job.never_synced and len(job.files) > settings.sync.cheap_files:
            return RefreshStep(job, None, Freshness(checked=False))
        counted, whole = self._compare(job)
        todo = whole.limit_unsure(_CHEAP_BYTES // 2)
        if len(todo.unsure) < len(whole.unsure):
            counted = -1
        cheap = todo.size <= settings.sync.cheap_notes and todo.bytes <= _CHEAP_BYTES
        pending = 0
        if not (cheap or job.never_synced):
            pending = todo.size
            todo = todo.only_deletions()
            pending -= todo.size
        freshness = Freshness(checked=True, pending=pending)
        if todo.size or todo.unsure or job.never_synced:
            return RefreshStep(job, todo, freshness, -1 if pending else counted)
        if not pending:
            self._changes.end(workspace.root, counted, job.rules)
            if first:
                self._save_state(job, whole)
        return RefreshStep(job, None, freshness)

    def _state_file(self, job: SyncJob) -> Path | None:
        """Return the file of the state of a workspace."""
        from hashlib import blake2b

        if self._states is None or job.never_synced:
            return None
        name = blake2b(job.workspace.root.encode(), digest_size=8).hexdigest()
        return self._states / f"files-{name}.json"

    def _has_saved_state(self, job: SyncJob) -> bool:
        """Whether a workspace is as an earlier process left it, in step with the index."""
        file = self._state_file(job)
        state = FolderState.load(file) if file else None
        if not state or not state.is_current(job.workspace.path, job.version):
            return False
        self._changes.begin(job.workspace.root)  # the next look is not the first one
        return True

    def _save_state(self, job: SyncJob, compared: Plan) -> None:
        """Keep the state of a large workspace that is in step, for the next process."""
        found, file = compared.scan, self._state_file(job)
        if len(job.files) < FEWEST_NOTES or found.has_links or found.unreadable or not file:
            return
        state = FolderState.take(job.workspace.path, found.folders, job.version)
        again = job.plan()  # a file may have changed before its state was taken
        if state and not (again.size or again.unsure):
            with suppress(HomeError):
                state.save(file)

    def _compare(self, job: SyncJob) -> tuple[int, Plan]:
        """Compare files with the index; return the changes that it knows of, and what to do.

        A folder may change before it is watched, so files are looked at again after that.
        """
        root = job.workspace.root
        while True:
            counted, todo = self._changes.begin(root), job.plan()
            if counted < 0 or todo.scan.has_links or todo.scan.unreadable:
                return -1, todo
            if not self._changes.watch(root, todo.scan.folders):
                return counted, todo

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
        else:
            self._changes.end(step.job.workspace.root, step.changes, step.job.rules)
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
        indexed = any(name in paths for name in names)
        if indexed and self._changes.is_in_step(workspace.root, job.rules):
            pass
        elif job.never_synced or (sync.on_search and len(job.files) <= sync.cheap_files):
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
            return self._with_files(self._read_head(workspace, reader), reader)

    def _read_head(self, workspace: Workspace, reader: Reader) -> SyncJob:
        """Return the job of a workspace without the files that the index has."""
        rows = reader.notes.workspaces()
        key, synced_at = next(
            ((key, at) for key, root, _, at in rows if root == workspace.root), (None, None)
        )
        return SyncJob(workspace, self._settings_for(workspace), key, synced_at)

    @staticmethod
    def _with_files(head: SyncJob, reader: Reader) -> SyncJob:
        key = head.workspace_id
        return replace(head, files=reader.notes.indexed_files(key)) if key is not None else head


@dataclass(frozen=True, slots=True)
class RefreshStep:
    """One workspace of a refresh: what is still to be synced, and how fresh it is afterwards."""

    job: SyncJob
    todo: Plan | None
    freshness: Freshness
    changes: int = -1
    """The changes of the files that the index contains once `todo` is done; -1 if unknown."""


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
