"""Find the files to extract facts from, inside one folder, and split them into parts.

Neither a pattern nor a link may lead out of the folder: a cloned repository must not make memwell
read other files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from memwell.errors import MemwellError


@dataclass(frozen=True, slots=True)
class FilePart:
    """Lines of a file: from 1, both ends included."""

    text: str
    start_line: int
    end_line: int


def find_files(root: Path, patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files that match patterns, relative to a folder, and notices on skipped ones."""
    real = root.resolve()
    found: dict[str, None] = {}
    skipped: dict[str, None] = {}
    for pattern in patterns:
        for path in _find_matches(root, _check_pattern(pattern)):
            name = path.relative_to(root).as_posix()
            if not _is_utf8(name):
                skipped[f"{name!r}: its name is not UTF-8"] = None
            elif not path.resolve().is_relative_to(real):
                skipped[f"{name}: it is a link that leads out of the folder"] = None
            elif path.is_file():
                found[name] = None
    return [*found], [*skipped]


def _is_utf8(name: str) -> bool:
    """Whether a name is valid UTF-8: Linux allows any bytes."""
    return name.encode("utf-8", "replace").decode() == name


def _check_pattern(pattern: str) -> str:
    """Return a pattern in plain form; raise an error if it is not valid."""
    plain = pattern.strip().replace("\\", "/")
    inside = not (PurePosixPath(plain).is_absolute() or PureWindowsPath(plain).drive)
    parts = PurePosixPath(plain).parts
    if not inside or ".." in parts or plain.startswith("~"):
        raise MemwellError(
            f"{pattern!r} leads out of the workspace",
            "Use a pattern for files inside it, or name another workspace with --workspace",
        )
    if any("**" in part and part != "**" for part in parts) or "\0" in plain or not parts:
        raise MemwellError(f"{pattern!r} is not a file pattern", "Write it like skills/**/*.md")
    return plain


def _find_matches(root: Path, pattern: str) -> Iterator[Path]:
    """Yield the matches of a pattern in order; hidden files only if the pattern names them."""
    named = {part for part in PurePosixPath(pattern).parts if part.startswith(".")}
    for path in sorted(root.glob(pattern)):
        parts = path.relative_to(root).parts
        if all(not part.startswith(".") or part in named for part in parts):
            yield path


def split_text(text: str, size: int, overlap: int) -> list[FilePart]:
    """Split a text at its lines into parts of about `size` characters.

    Each part repeats about `overlap` characters, in whole lines, of the part before it. A line
    that is longer than `size` is cut.
    """
    overlap = min(overlap, size // 2)
    rows = [
        (number, row)
        for number, line in enumerate(text.split("\n"), 1)
        for row in _split_long_line(line.rstrip("\r"), size)
    ]
    found, begin = [], 0
    while begin < len(rows):
        end = _part_end(rows, begin, size)
        joined = "\n".join(row for _, row in rows[begin:end])
        if joined.strip():
            found.append(FilePart(joined, rows[begin][0], rows[end - 1][0]))
        begin = end if end == len(rows) else _next_begin(rows, begin, end, size, overlap)
    return found


def _split_long_line(line: str, size: int) -> Iterator[str]:
    for at in range(0, max(1, len(line)), size):
        yield line[at : at + size]


def _part_end(rows: Sequence[tuple[int, str]], begin: int, size: int) -> int:
    """Return the end of the part that begins at a row; a part has at least one row."""
    end, length = begin + 1, len(rows[begin][1])
    while end < len(rows) and length + 1 + len(rows[end][1]) <= size:
        length += 1 + len(rows[end][1])
        end += 1
    return end


def _next_begin(
    rows: Sequence[tuple[int, str]], begin: int, end: int, size: int, overlap: int
) -> int:
    """Return the begin of the next part: with an overlap, if the next row still fits then."""
    room = min(overlap, size - len(rows[end][1]) - 1)
    next_begin, repeated = end, 0
    while next_begin - 1 > begin and repeated + len(rows[next_begin - 1][1]) + 1 <= room:
        next_begin -= 1
        repeated += len(rows[next_begin][1]) + 1
    return next_begin
