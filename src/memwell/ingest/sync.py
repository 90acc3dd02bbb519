"""Sync the index with the files of a workspace.

1. Scan the folder: size and mtime of every note, no content.
2. Compare them with the stamps in the index: which notes are new, changed or gone.
3. Read the new and changed files. If the content is the same, only the stamp is updated. If a file
   that is gone had the same content, the note moved. Otherwise the note is written.
4. Delete the notes whose files are gone.

Notes are written in batches, each in one transaction: if the process is killed, the index contains
whole notes, and the next sync continues. Two syncs at the same time do the work twice and agree.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.scan import FoundFile, Scan, Selection, scan
from memwell.model import IndexReport, Note, Problem
from memwell.progress import Progress
from memwell.store.contract.index import Notes
from memwell.store.contract.values import IndexedFile, SourceFile

if TYPE_CHECKING:
    from memwell.ingest.file_dates import FileDates

BATCH_NOTES = 200
BATCH_BYTES = 4_000_000
_FINE_CLOCK_NS = 50_000_000
_COARSE_CLOCK_NS = 2_000_000_000
"""A file that was read this soon after its mtime may have changed again with the same mtime."""

Writing = Callable[[], AbstractContextManager[Notes]]


@dataclass(slots=True)
class Plan:
    """The work of a sync: which notes are new, changed, unsure or gone."""

    scan: Scan
    new: list[FoundFile] = field(default_factory=list)
    changed: list[tuple[FoundFile, IndexedFile]] = field(default_factory=list)
    unsure: list[tuple[FoundFile, IndexedFile]] = field(default_factory=list)
    """Read so soon after they were written that an equal stamp proves nothing."""
    gone: dict[str, IndexedFile] = field(default_factory=dict)
    unchanged: int = 0

    @property
    def size(self) -> int:
        """The number of notes that are known to have changed."""
        return len(self.new) + len(self.changed) + len(self.gone)

    @property
    def bytes(self) -> int:
        """The number of bytes to read."""
        indexed = (*self.changed, *self.unsure)
        return sum(file.size for file in (*self.new, *(file for file, _ in indexed)))

    def only_deletions(self) -> Plan:
        """Return the part that costs nothing: a search must not show a note that is gone."""
        return Plan(self.scan, gone=self.gone, unchanged=self.unchanged)


def plan(
    selection: Selection, stamps: dict[str, IndexedFile], chunk_settings: ChunkSettings
) -> Plan:
    """Compare the files of a workspace with their stamps in the index."""
    result = Plan(scan(selection))
    for path, file in result.scan.files.items():
        stamp = stamps.get(path)
        if stamp is None:
            result.new.append(file)
        elif (file.size, file.mtime_ns, str(chunk_settings)) != (
            stamp.size,
            stamp.mtime_ns,
            stamp.recipe,
        ):
            result.changed.append((file, stamp))
        elif _may_have_changed_since(stamp):
            result.unsure.append((file, stamp))
        else:
            result.unchanged += 1
    result.gone = {
        path: stamp
        for path, stamp in stamps.items()
        if path not in result.scan.files and not result.scan.may_hide(path)
    }
    return result


def _may_have_changed_since(stamp: IndexedFile) -> bool:
    """Whether the file was read within one tick of the file system's clock after its mtime."""
    whole_seconds = stamp.mtime_ns % 1_000_000_000 == 0
    tick = _COARSE_CLOCK_NS if whole_seconds else _FINE_CLOCK_NS
    return stamp.mtime_ns >= stamp.read_ns - tick


def apply(
    todo: Plan,
    root: Path,
    workspace_id: int,
    chunk_settings: ChunkSettings,
    writing: Writing,
    progress: Progress,
) -> IndexReport:
    """Carry out a plan and report the result."""
    work = SyncRun(todo, root, workspace_id, chunk_settings, progress)
    for batch in _batches(work.read()):
        with writing() as notes:
            work.write(batch, notes)
    if todo.gone:
        with writing() as notes:
            notes.delete([stamp.note_id for stamp in todo.gone.values()])
    work.counts["unchanged"] += todo.unchanged
    problems = (*todo.scan.problems, *work.problems)
    return IndexReport(str(root), **work.counts, deleted=len(todo.gone), problems=problems)


@dataclass(frozen=True, slots=True)
class _ReadNote:
    """A file that was read; `note` is None if its content did not change."""

    file: SourceFile
    note: Note | None
    stamp: IndexedFile | None


def _batches(items: Iterator[_ReadNote]) -> Iterator[list[_ReadNote]]:
    batch: list[_ReadNote] = []
    weight = 0
    for item in items:
        batch.append(item)
        weight += item.file.size
        if len(batch) >= BATCH_NOTES or weight >= BATCH_BYTES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


@dataclass(slots=True)
class SyncRun:
    """Reads and writes the notes of one sync, and counts them."""

    todo: Plan
    root: Path
    workspace_id: int
    chunk_settings: ChunkSettings
    progress: Progress
    problems: list[Problem] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """The fields of the report that this run counts."""
    gone_by_hash: dict[str, list[str]] = field(default_factory=dict)
    file_dates: FileDates | None = None

    def __post_init__(self) -> None:
        for path, stamp in self.todo.gone.items():
            self.gone_by_hash.setdefault(stamp.hash, []).append(path)

    def read(self) -> Iterator[_ReadNote]:
        """Yield the new, changed and unsure files, read and parsed."""
        files: list[tuple[FoundFile, IndexedFile | None]] = [(file, None) for file in self.todo.new]
        files += [*self.todo.changed, *self.todo.unsure]
        for done, (file, stamp) in enumerate(files):
            self.progress(done, len(files))
            if item := self._read_one(file, stamp):
                yield item
        self.progress(len(files), len(files))

    def _read_one(self, found: FoundFile, stamp: IndexedFile | None) -> _ReadNote | None:
        # Imported here, because most searches find nothing changed and need not wait for these.
        import hashlib

        from memwell.errors import BinaryFileError
        from memwell.ingest.parse_note import decode, parse_note

        read_ns = time.time_ns()
        try:
            with open(os.path.join(self.root, found.path), "rb") as handle:
                data = handle.read()
                status = os.fstat(handle.fileno())
        except FileNotFoundError:
            return None  # deleted after the scan: the next sync removes the note
        except OSError as error:
            reason = error.strerror or str(error)
            self.problems.append(
                Problem(found.path, f"cannot be read: {reason}", "check its permissions")
            )
            return None
        file = SourceFile(
            found.path,
            status.st_size,
            status.st_mtime_ns,
            read_ns,
            hashlib.blake2b(data, digest_size=16).hexdigest(),
            str(self.chunk_settings),
        )
        if stamp and (stamp.hash, stamp.recipe) == (file.hash, file.recipe):
            return _ReadNote(file, None, stamp)
        try:
            text, wrong_bytes = decode(data)
        except BinaryFileError:
            self.problems.append(Problem(found.path, "skipped, it holds binary data"))
            text, wrong_bytes = "", ""
        note, wrong_fields = parse_note(found.path, text, self.chunk_settings)
        if note.date is None and self.chunk_settings.file_dates:
            note = replace(note, date=self._file_date(found.path, status.st_mtime_ns))
        self.problems += [Problem(found.path, what) for what in (wrong_bytes, wrong_fields) if what]
        return _ReadNote(file, note, stamp)

    def _file_date(self, path: str, mtime_ns: int) -> str:
        from memwell.ingest.file_dates import FileDates

        self.file_dates = self.file_dates or FileDates(self.root)
        return self.file_dates.date(path, mtime_ns)

    def write(self, batch: list[_ReadNote], notes: Notes) -> None:
        """Write a batch of notes."""
        notes.restamp(
            (item.stamp.note_id, item.file) for item in batch if item.stamp and not item.note
        )
        for item in batch:
            if item.note is None:
                self.counts["unchanged"] += 1
                continue
            origin = None if item.stamp else self._claim_moved_note(item.file.hash)
            moved_from = origin.note_id if origin else None
            _, written = notes.put(self.workspace_id, item.file, item.note, moved_from=moved_from)
            self.counts["changed" if item.stamp else "moved" if origin else "added"] += 1
            self.counts["chunks_written"] += written

    def _claim_moved_note(self, content_hash: str) -> IndexedFile | None:
        """Return the note with this content that is gone, and remove it from the deletions."""
        paths = self.gone_by_hash.get(content_hash)
        return self.todo.gone.pop(paths.pop()) if paths else None
