"""Sync the index with the files of a workspace.

1. Scan the folder: size and mtime of every note, no content.
2. Compare them with the stamps in the index: which notes are new, changed or gone.
3. Read the new and changed files. If the content is the same, only the stamp is updated. If a file
   that is gone had the same content, the note moved. Otherwise the note is written.
4. Delete the notes whose files are gone.

A note that cannot be read or written as it is never stops the others: it is indexed as plain text,
or left out, and named as a problem.

Notes are written in batches, each in one transaction: if the process is killed, the index contains
whole notes, and the next sync continues. Two syncs at the same time do the work twice and agree.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from memwell.errors import MemwellError
from memwell.files import remedy_for
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.scan import FoundFile, Scan, Selection, scan, stored_mtime
from memwell.model import IndexReport, Note, Problem
from memwell.progress import Progress
from memwell.store.contract.index import Notes
from memwell.store.contract.values import IndexedFile, SourceFile

if TYPE_CHECKING:
    from memwell.ingest.file_dates import FileDates
    from memwell.ingest.readers.convert import Converter
    from memwell.ingest.readers.formats import Format

BATCH_NOTES = 200
BATCH_BYTES = 4_000_000
_FINE_CLOCK_NS = 50_000_000
_COARSE_CLOCK_NS = 2_000_000_000
"""A file that was read this soon after it changed may have changed again at the same time."""

Writing = Callable[[], AbstractContextManager[Notes]]


@dataclass(slots=True)
class Plan:
    """The work of a sync: which notes are new, changed, unsure or gone."""

    scan: Scan
    new: list[FoundFile] = field(default_factory=list)
    changed: list[tuple[FoundFile, IndexedFile]] = field(default_factory=list)
    unsure: list[tuple[FoundFile, IndexedFile]] = field(default_factory=list)
    """Changed so soon before they were read, or later, that an equal stamp proves nothing."""
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

    def limit_unsure(self, most_bytes: int) -> Plan:
        """Return the plan with so many bytes of unsure notes; the others wait for the next sync.

        A change of mode or owner makes all notes of a workspace unsure at once.
        """
        unsure = []
        for file, stamp in self.unsure:
            if file.size <= most_bytes:
                unsure.append((file, stamp))
                most_bytes -= file.size
        return replace(self, unsure=unsure)


def plan(
    selection: Selection, stamps: dict[str, IndexedFile], chunk_settings: ChunkSettings
) -> Plan:
    """Compare the files of a workspace with their stamps in the index."""
    result = Plan(scan(selection))
    recipe = cache(chunk_settings.recipe)  # by suffix
    for path, file in result.scan.files.items():
        stamp = stamps.get(path)
        if stamp is None:
            result.new.append(file)
        elif (file.size, file.mtime_ns, recipe(path[path.rfind(".") :])) != (
            stamp.size,
            stamp.mtime_ns,
            stamp.recipe,
        ):
            result.changed.append((file, stamp))
        elif _may_have_changed_since(file, stamp):
            result.unsure.append((file, stamp))
        else:
            result.unchanged += 1
    result.gone = {
        path: stamp
        for path, stamp in stamps.items()
        if path not in result.scan.files and not result.scan.may_hide(path)
    }
    return result


def _may_have_changed_since(file: FoundFile, stamp: IndexedFile) -> bool:
    """Whether the file changed within one tick of its clock before it was read, or later.

    The mtime does not tell all changes: programs that copy files set it (rsync -t, tar, unzip).
    """
    if max(stamp.mtime_ns, file.ctime_ns) < stamp.read_ns - _COARSE_CLOCK_NS:
        return False
    return any(
        moment >= stamp.read_ns - (_FINE_CLOCK_NS if moment % 1_000_000_000 else _COARSE_CLOCK_NS)
        for moment in (stamp.mtime_ns, file.ctime_ns)
    )


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
    with work.converting():
        for batch in _batches(work.read()):
            work.write(batch, writing)
    if todo.gone:
        with writing() as notes:
            notes.delete([stamp.note_id for stamp in todo.gone.values()])
    work.counts["unchanged"] += todo.unchanged
    problems = (*todo.scan.problems, *work.problems)
    return IndexReport(
        str(root), **work.counts, deleted=len(todo.gone), problems=problems, left_out=()
    )


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
    converter: Converter | None = None

    def __post_init__(self) -> None:
        for path, stamp in self.todo.gone.items():
            self.gone_by_hash.setdefault(stamp.hash, []).append(path)

    @contextmanager
    def converting(self) -> Iterator[None]:
        """End the process that converts documents, if one was started."""
        try:
            yield
        finally:
            if self.converter:
                self.converter.close()

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
        # Imported here, because most searches find nothing changed and need not wait for it.
        import hashlib

        read_ns = time.time_ns()
        try:
            with open(os.path.join(self.root, found.path), "rb") as handle:
                data = handle.read()
                status = os.fstat(handle.fileno())
        except FileNotFoundError:
            return None  # deleted after the scan: the next sync removes the note
        except OSError as error:
            reason = error.strerror or str(error)
            self._report(found.path, f"cannot be read: {reason}", remedy_for(error))
            return None
        file = SourceFile(
            found.path,
            status.st_size,
            stored_mtime(status),
            read_ns,
            hashlib.blake2b(data, digest_size=16).hexdigest(),
            self.chunk_settings.recipe(found.path),
        )
        if stamp and (stamp.hash, stamp.recipe) == (file.hash, file.recipe):
            return _ReadNote(file, None, stamp)
        try:
            return _ReadNote(file, self._parse(file, data), stamp)
        except Exception as error:
            self._report(found.path, f"cannot be indexed ({_describe(error)})")
            return None

    def _parse(self, file: SourceFile, data: bytes) -> Note:
        """Return the note in the bytes of a file, with the date of the file if it has none."""
        if found := self.chunk_settings.find_reader(file.path):
            note = self._parse_document(file.path, data, found)
        else:
            note = self._parse_text(file, data)
        if note.date is None and self.chunk_settings.file_dates:
            note = replace(note, date=self._file_date(file.path, file.mtime_ns))
        return note

    def _parse_document(self, path: str, data: bytes, found: Format) -> Note:
        """Return the note of a document; one that cannot be read is empty, and named."""
        from memwell.errors import UnreadableDocumentError
        from memwell.ingest.parse_document import parse_document
        from memwell.ingest.readers.convert import Converter
        from memwell.ingest.readers.document import Document

        self.converter = self.converter or Converter()
        try:
            document = self.converter.convert(found, path, data)
        except UnreadableDocumentError as error:
            self._report(path, f"skipped, {error.what}")
            document = Document(())
        return parse_document(path, document, self.chunk_settings)

    def _parse_text(self, file: SourceFile, data: bytes) -> Note:
        """Return the note in a text, without structure if it cannot be parsed."""
        # Imported here for the same reason.
        from memwell.errors import BinaryFileError
        from memwell.ingest.parse_note import decode, parse_note, plain_note

        try:
            text, wrong = decode(data)
        except BinaryFileError:
            text, wrong = "", "skipped, it holds binary data"
        if wrong:
            self._report(file.path, wrong)
        try:
            note, wrong = parse_note(file.path, text, self.chunk_settings)
        except Exception as error:
            note = plain_note(file.path, text, self.chunk_settings)
            wrong = f"cannot be parsed ({_describe(error)}); indexed as plain text"
        if wrong:
            self._report(file.path, wrong)
        return note

    def _report(self, path: str, what: str, remedy: str = "") -> None:
        self.problems.append(Problem(path, what, remedy))

    def _file_date(self, path: str, mtime_ns: int) -> str | None:
        from memwell.ingest.file_dates import FileDates

        self.file_dates = self.file_dates or FileDates(self.root)
        return self.file_dates.date(path, mtime_ns)

    def write(self, batch: list[_ReadNote], writing: Writing) -> None:
        """Write a batch of notes; if the store refuses one of them, write each by itself."""
        try:
            self._write_together(batch, writing)
        except MemwellError:
            raise  # the store cannot be written at all
        except Exception:
            for item in batch:
                self._write_alone(item, writing)

    def _write_alone(self, item: _ReadNote, writing: Writing) -> None:
        """Write a note; without its fields, tags and headings if the store refuses them."""
        path, outcome = item.file.path, "cannot be indexed"
        for attempt in (item, _without_structure(item)):
            try:
                self._write_together([attempt], writing)
            except MemwellError:
                raise
            except Exception as error:
                outcome = f"cannot be indexed ({_describe(error)})"
            else:
                if attempt is not item:
                    self._report(path, f"{outcome} as it is; indexed as plain text")
                return
        self._report(path, outcome)

    def _write_together(self, batch: list[_ReadNote], writing: Writing) -> None:
        """Write notes in one transaction; count them if it is committed."""
        counts: Counter[str] = Counter()
        moved: list[IndexedFile] = []
        try:
            with writing() as notes:
                notes.restamp(
                    (item.stamp.note_id, item.file)
                    for item in batch
                    if item.stamp and not item.note
                )
                for item in batch:
                    if item.note is None:
                        counts["unchanged"] += 1
                        continue
                    origin = None if item.stamp else self._claim_moved_note(item.file.hash)
                    if origin:
                        moved.append(origin)
                    moved_from = origin.note_id if origin else None
                    _, written = notes.put(
                        self.workspace_id, item.file, item.note, moved_from=moved_from
                    )
                    counts["changed" if item.stamp else "moved" if origin else "added"] += 1
                    counts["chunks_written"] += written
        except BaseException:
            for origin in moved:
                self.todo.gone[origin.path] = origin
                self.gone_by_hash[origin.hash].append(origin.path)
            raise
        self.counts.update(counts)

    def _claim_moved_note(self, content_hash: str) -> IndexedFile | None:
        """Return the note with this content that is gone, and remove it from the deletions."""
        paths = self.gone_by_hash.get(content_hash)
        return self.todo.gone.pop(paths.pop()) if paths else None


def _without_structure(item: _ReadNote) -> _ReadNote:
    if item.note is None:
        return item
    chunks = tuple(replace(part, heading=()) for part in item.note.chunks)
    title = PurePosixPath(item.file.path).stem
    return replace(item, note=Note(title, item.note.date, (), (), (), {}, chunks))


def _describe(error: Exception) -> str:
    """Return the first line of an error, if it has any, with the type of the error."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
