"""Reading lines of a note, and writing new ones: the files themselves, not the index."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.errors import (
    BinaryFileError,
    HomeError,
    MemwellError,
    NotFoundError,
    UnreadableDocumentError,
)
from memwell.files import remedy_for
from memwell.ingest.parse_note import decode
from memwell.model import Excerpt
from memwell.store.contract.index import Index
from memwell.store.contract.values import Workspace

if TYPE_CHECKING:
    from memwell.ingest.readers.document import Document
    from memwell.ingest.readers.formats import Format

_MOST_LINKED = 20_000
"""In a larger workspace, reading the links of all notes would take longer than a second."""
_REFERENCE = re.compile(r"(?P<path>.+?)(?:(?:#L|:)(?P<start>\d+)(?:-L?(?P<end>\d+))?)?\Z", re.S)


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A file that is a note of a workspace."""

    path: str
    most_bytes: int
    setting: str
    """The setting that limits its size."""
    reader: Format | None
    """The format that it is converted from; None if it is text."""


FindNote = Callable[[Workspace, Sequence[str]], FoundNote | None]
"""Returns the first of some paths that is a note of a workspace."""


def read_excerpt(reference: str, workspaces: Sequence[Workspace], find_note: FindNote) -> Excerpt:
    """Read ``PATH``, ``PATH#L3``, ``PATH#L3-L9`` (or ``PATH:3-9``) from one of the workspaces.

    ``PATH#page=3`` names a page of a document, ``PATH#cell=5`` a cell of a notebook.
    """
    match = _REFERENCE.match(reference.strip())
    if match is None:
        raise NotFoundError("No note was named", "Name one as a hit shows it: notes/a.md#L3-L9")
    name, _, position = match["path"].partition("#")
    try:
        root, note = _find_file(match["path"], workspaces, find_note)
        position = ""
    except NotFoundError:
        if not position:
            raise
        root, note = _find_file(name, workspaces, find_note)
    file, path = root / note.path, note.path
    lines, first, last = _read_lines(file, note, position)
    start = int(match["start"] or first)
    end = int(match["end"] or match["start"] or last)
    if not 1 <= start <= end or start > len(lines):
        raise NotFoundError(
            f"{reference} names lines {start} to {end}, but {file.name} has {len(lines)}",
            f"Ask for lines between 1 and {len(lines)}",
        )
    end = min(end, len(lines))
    return Excerpt(path, str(root), start, end, "\n".join(lines[start - 1 : end]))


def _read_lines(file: Path, note: FoundNote, position: str) -> tuple[list[str], int, int]:
    """Return the lines of a note, and the first and the last one of a position in it."""
    data = _read_bytes(file, note)
    if note.reader and not note.reader.has_source_lines:
        document = _convert(file, data, note.reader)
        if not document.has_source_lines:
            return _converted_lines(document, file, position)
    try:
        text, _ = decode(data)
    except BinaryFileError:
        raise MemwellError(f"{file} holds binary data", "memwell reads text only") from None
    if position:
        raise NotFoundError(
            f"{file.name} has no position {position!r}", "Name lines instead: notes/a.md#L3-L9"
        )
    lines = text.removesuffix("\n").split("\n")
    return lines, 1, len(lines)


def _convert(file: Path, data: bytes, reader: Format) -> Document:
    from memwell.ingest.readers.convert import Converter

    with Converter() as converter:
        try:
            return converter.convert(reader, file.name, data)
        except UnreadableDocumentError as error:
            raise MemwellError(
                f"{file} cannot be read: {error.what}", "Open it with the program that wrote it"
            ) from None


def _converted_lines(document: Document, file: Path, position: str) -> tuple[list[str], int, int]:
    lines = document.text.removesuffix("\n").split("\n")
    if not position:
        return lines, 1, len(lines)
    starts = [*document.first_lines, len(lines) + 1]
    spans = [
        (starts[at], starts[at + 1] - 1)
        for at, section in enumerate(document.sections)
        if section.position == position
    ]
    if not spans:
        known = [*dict.fromkeys(one.position for one in document.sections if one.position)]
        raise NotFoundError(
            f"{file.name} has no position {position!r}",
            f"It has {known[0]} to {known[-1]}" if known else "Name lines instead: #L3-L9",
        )
    return lines, spans[0][0], spans[-1][1]


def _read_bytes(file: Path, note: FoundNote) -> bytes:
    try:
        with open(file, "rb") as handle:
            if os.fstat(handle.fileno()).st_size > note.most_bytes:
                raise MemwellError(
                    f"{file} is over the limit of {note.most_bytes / 1e6:g} MB",
                    f"Raise {note.setting} to read it",
                )
            return handle.read()
    except OSError as error:
        raise MemwellError(
            f"{file} cannot be read ({error.strerror})", remedy_for(error).capitalize()
        ) from error


def _find_file(
    name: str, workspaces: Sequence[Workspace], find_note: FindNote
) -> tuple[Path, FoundNote]:
    """Return the folder and the note in it that a path means."""
    for workspace in workspaces:
        root = workspace.path.resolve()
        paths = _paths_inside(root, name)
        if paths and (note := find_note(workspace, paths)):
            return root, note
    where = ", ".join(workspace.root for workspace in workspaces)
    raise NotFoundError(
        f"There is no note {name!r}" + (f" in {where}" if where else ": nothing is indexed yet"),
        "Use a path as `memwell search` shows it; a new note may need `memwell index PATH` first",
    )


def _paths_inside(root: Path, name: str) -> list[str]:
    """Return the paths in a folder by which an existing file may be indexed.

    That is the path as it is named, which may be a link, and that of the file it leads to.
    """
    try:
        named = root / Path(name).expanduser()
        file = named.resolve()
        short = Path(os.path.normpath(named))
        if not file.is_file():
            return []
        same = [path for path in (short, file) if path.resolve() == file]
    except (OSError, ValueError, RuntimeError):
        return []
    inside = file.is_relative_to(root)
    return [path.relative_to(root).as_posix() for path in same if inside and root in path.parents]


def with_links(excerpt: Excerpt, index: Index) -> Excerpt:
    """Return an excerpt with the notes that its note is linked with, as the index knows them."""
    from memwell.search.links import LinkGraph

    with index.reading() as reader:
        mine = [
            root
            for key, root, _, _ in reader.notes.workspaces()
            if Path(root).resolve() == Path(excerpt.workspace)
            and reader.notes.counts(key)[0] <= _MOST_LINKED
        ]
        graph = LinkGraph(reader.listing.linked_notes(mine))
    note = graph.find(excerpt.path)
    if note is None:
        return excerpt
    links, backlinks = graph.links(note), graph.backlinks(note)
    return replace(
        excerpt,
        links=tuple(one.path for one in links),
        backlinks=tuple(one.path for one in backlinks),
    )


def append_note(text: str, root: Path, folder: str, now: dt.datetime) -> Excerpt:
    """Append `text` under a heading with the time to the day's log; return where it stands."""
    text = text.strip()
    if not text:
        raise MemwellError("The note is empty", "Give it some text")
    day = f"{now:%Y-%m-%d}"
    file = root / folder / f"{day}.md"
    # A cloned folder may contain a link that leads to a file of the user.
    if not file.resolve().is_relative_to(root.resolve()):
        raise MemwellError(
            f"{file} is outside of the workspace {root}",
            "Set note.folder to a folder in the workspace that is not a link",
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), open(file, "xb", buffering=0) as handle:
            handle.write(f"# {day}\n".encode())
        ends_in_line = file.read_bytes().endswith(b"\n")
        entry = f"\n## {now:%H:%M}\n\n{text}\n".encode("utf-8", "replace")
        # One write in append mode, so that two agents' notes never mix.
        with open(file, "ab", buffering=0) as handle:
            handle.write(entry if ends_in_line else b"\n" + entry)
        written = file.read_bytes()
    except OSError as error:
        raise HomeError(
            f"{file} cannot be written ({error.strerror})", remedy_for(error).capitalize()
        ) from error
    end = written.count(b"\n", 0, written.rindex(entry) + len(entry))
    start = end - text.count("\n") - 2
    path = Path(os.path.relpath(file, root)).as_posix()
    return Excerpt(path, str(root), start, end, text)
