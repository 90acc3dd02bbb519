"""The few lines of a passage that match the query best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memwell.model import Hit

_ELLIPSIS = "…"
_BLANK_LINES = 1
_FOCUS_WORDS = 2


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show, and the spans of it to highlight."""

    number: int
    text: str
    marks: tuple[tuple[int, int], ...]


def snippet(hit: Hit, lines: int = 3, width: int = 200) -> list[Line]:
    """Return the `lines` lines of a passage that match best, each cut to `width`.

    They hold the most different words of the query; the item of a list that is most similar to the
    query counts as two of them.
    """
    split = _split_lines(hit.text, hit.marks, hit.start_line)
    not_blank = [line for line in split if line.text.strip()]
    if not not_blank:
        return []
    focus = split[hit.text[: hit.focus[0]].count("\n")] if hit.focus else None

    def value(start: int) -> tuple[int, int]:
        window = not_blank[start : start + lines]
        has_focus = focus in window
        return _count_words(window) + _FOCUS_WORDS * has_focus, -start

    best = max(range(len(not_blank)), key=value)
    return [_shorten(line, width) for line in not_blank[best : best + lines]]


def group_adjacent(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Group hits that are adjacent in one section, each group in the order of its lines.

    A group takes the place of its best hit.
    """
    groups: list[list[Hit]] = []
    for hit in hits:
        adjacent = next(
            (group for group in groups if any(_are_adjacent(hit, other) for other in group)), None
        )
        if adjacent is None:
            groups.append([hit])
        else:
            adjacent.append(hit)
            adjacent.sort(key=lambda member: member.start_line)
    return groups


def _are_adjacent(one: Hit, other: Hit) -> bool:
    """Whether two hits of one section overlap, or only blank lines lie between them."""
    same = (one.workspace, one.path, one.heading) == (other.workspace, other.path, other.heading)
    gap = max(one.start_line, other.start_line) - min(one.end_line, other.end_line)
    return same and gap <= _BLANK_LINES + 1


def _split_lines(text: str, marks: Sequence[tuple[int, int]], first_line: int) -> list[Line]:
    """Split a passage into numbered lines, each with its marks."""
    lead = text[: len(text) - len(text.lstrip())].count("\n")
    found, offset = [], 0
    for number, line in enumerate(text.split("\n"), first_line - lead):
        inside = (
            (max(start - offset, 0), min(end - offset, len(line)))
            for start, end in marks
            if start < offset + len(line) and end > offset
        )
        found.append(Line(number, line, tuple(inside)))
        offset += len(line) + 1
    return found


def _count_words(lines: Sequence[Line]) -> int:
    return len({line.text[start:end].casefold() for line in lines for start, end in line.marks})


def _cut(line: Line, start: int, width: int) -> Line:
    """Return a line with the marks inside a part of it only."""
    inside = tuple((a, b) for a, b in line.marks if start <= a and b <= start + width)
    return Line(line.number, line.text, inside)


def _shorten(line: Line, width: int) -> Line:
    """Shorten a long line to the part with the most different marked words."""
    text = line.text.rstrip()
    if len(text) <= width:
        return Line(line.number, text, line.marks)
    starts = [max(0, mark - width // 4) for mark, _ in line.marks] or [0]
    start = max(starts, key=lambda start: (_count_words([_cut(line, start, width)]), -start))
    start = min(start, len(text) - width)
    end = start + width
    before, after = _ELLIPSIS if start else "", _ELLIPSIS if end < len(text) else ""
    shift = len(before) - start
    inside = tuple((a + shift, b + shift) for a, b in _cut(line, start, width).marks)
    return Line(line.number, before + text[start:end] + after, inside)
