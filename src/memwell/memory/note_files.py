"""Reading lines of a note, and writing new ones: the files themselves, not the index."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from memwell.errors import BinaryFileError, HomeError, MemwellError, NotFoundError
from memwell.files import remedy_for
from memwell.ingest.parse_note import decode
from memwell.ingest.scan import SUFFIXES
from memwell.model import Excerpt
from memwell.store.contract.values import Workspace

_REFERENCE = re.compile(r"(?P<path>.+?)(?:(?:#L|:)(?P<start>\d+)(?:-L?(?P<end>\d+))?)?\Z", re.S)


FindNote = Callable[[Workspace, Sequence[str]], tuple[str, int] | None]
"""Returns the first of some paths that is a note of a workspace, and the most bytes it may have."""


def read_excerpt(reference: str, workspaces: Sequence[Workspace], find_note: FindNote) -> Excerpt:
    """Read ``PATH``, ``PATH#L3``, ``PATH#L3-L9`` (or ``PATH:3-9``) from one of the workspaces."""
    match = _REFERENCE.match(reference.strip())
    if match is None:
        raise NotFoundError("No note was named", "Name one as a hit shows it: notes/a.md#L3-L9")
    root, path, most_bytes = _find_file(match["path"], workspaces, find_note)
    file = root / path
    try:
        with open(file, "rb") as handle:
            if os.fstat(handle.fileno()).st_size > most_bytes:
                raise MemwellError(
                    f"{file} is over the limit of {most_bytes / 1e6:g} MB",
                    "Raise scan.max_file_mb to read it",
                )
            text, _ = decode(handle.read())
    except BinaryFileError:
        raise MemwellError(f"{file} holds binary data", "memwell reads text only") from None
    except OSError as error:
        raise MemwellError(
            f"{file} cannot be read ({error.strerror})", remedy_for(error).capitalize()
        ) from error
    lines = text.removesuffix("\n").split("\n")
    start = int(match["start"] or 1)
    end = int(match["end"] or match["start"] or len(lines))
    if not 1 <= start <= end or start > len(lines):
        raise NotFoundError(
            f"{reference} names lines {start} to {end}, but {file.name} has {len(lines)}",
            f"Ask for lines between 1 and {len(lines)}",
        )
    end = min(end, len(lines))
    return Excerpt(path, str(root), start, end, "\n".join(lines[start - 1 : end]))


def _find_file(
    name: str, workspaces: Sequence[Workspace], find_note: FindNote
) -> tuple[Path, str, int]:
    """Return the folder, the path in it and the size limit of the note that a path means."""
    for workspace in workspaces:
        root = workspace.path.resolve()
        paths = _paths_inside(root, name)
        if paths and (note := find_note(workspace, paths)):
            return root, *note
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
        if file.suffix.lower() not in SUFFIXES or not file.is_file():
            return []
        same = [path for path in (short, file) if path.resolve() == file]
    except (OSError, ValueError, RuntimeError):
        return []
    inside = file.is_relative_to(root)
    return [path.relative_to(root).as_posix() for path in same if inside and root in path.parents]


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
