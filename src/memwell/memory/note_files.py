"""Reading lines of a note, and writing new ones: the files themselves, not the index."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from memwell.errors import BinaryFileError, HomeError, MemwellError, NotFoundError
from memwell.files import remedy_for
from memwell.ingest.parse_note import decode
from memwell.ingest.scan import SUFFIXES
from memwell.model import Excerpt

_REFERENCE = re.compile(r"(?P<path>.+?)(?:(?:#L|:)(?P<start>\d+)(?:-L?(?P<end>\d+))?)?\Z", re.S)


def read_excerpt(reference: str, roots: Sequence[Path]) -> Excerpt:
    """Read ``PATH``, ``PATH#L3``, ``PATH#L3-L9`` (or ``PATH:3-9``) from one of the workspaces."""
    match = _REFERENCE.match(reference.strip())
    if match is None:
        raise NotFoundError("No note was named", "Name one as a hit shows it: notes/a.md#L3-L9")
    root, file = _find_file(match["path"], roots)
    try:
        text, _ = decode(file.read_bytes())
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
    path = file.relative_to(root).as_posix()
    return Excerpt(path, str(root), start, end, "\n".join(lines[start - 1 : end]))


def _find_file(name: str, roots: Sequence[Path]) -> tuple[Path, Path]:
    """Return the workspace and file that a path means; never a file outside of them."""
    for root in roots:
        real_root = root.resolve()
        try:
            file = (real_root / Path(name).expanduser()).resolve()
        except (OSError, ValueError, RuntimeError):
            continue
        inside = real_root in file.parents
        if inside and file.suffix.lower() in SUFFIXES and os.path.isfile(file):
            return real_root, file
    where = ", ".join(map(str, roots)) or "no workspace (run `memwell index PATH` first)"
    raise NotFoundError(
        f"There is no note {name!r} in {where}", "Use a path as `memwell search` shows it"
    )


def append_note(text: str, root: Path, folder: str, now: dt.datetime) -> Excerpt:
    """Append `text` under a heading with the time to the day's log; return where it stands."""
    text = text.strip()
    if not text:
        raise MemwellError("The note is empty", "Give it some text")
    day = f"{now:%Y-%m-%d}"
    file = root / folder / f"{day}.md"
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
    return Excerpt(file.relative_to(root).as_posix(), str(root), start, end, text)
