"""A digest of each week that is over, out of its daily logs. Pure functions but for reading files.

A log is a note whose name is a day. Its points, and the first sentences of its paragraphs, stand in
the digest below their day, with a link to the log.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LOG = re.compile(r"\d{4}-\d\d-\d\d\.md")
_POINT = re.compile(r"\s*(?:[-*+]|\d{1,2}[.)])\s+(?:\[[ xX]\]\s+)?")
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[。！？]|$)")
_FEWEST_LOGS = 2
_MOST_POINTS = 8
_LONGEST_POINT = 200
FOLDER = "weekly"


@dataclass(frozen=True, slots=True)
class Log:
    """A daily log: its day, its path in the workspace and its text."""

    day: dt.date
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Week:
    """The logs of a week that is over and has no digest."""

    monday: dt.date
    path: str
    """Where the digest goes."""
    logs: tuple[Log, ...]

    @property
    def name(self) -> str:
        """Its ISO number: 2026-W07."""
        return f"{self.monday:%G-W%V}"


def find_weeks(root: Path, folder: str, today: dt.date) -> list[Week]:
    """Return the weeks before this one that have several logs and no digest yet."""
    weeks: dict[dt.date, list[Log]] = defaultdict(list)
    for file in sorted((root / folder).glob("*.md")) if (root / folder).is_dir() else ():
        day = _day_of(file)
        if day is None or day > today:
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        monday = day - dt.timedelta(days=day.weekday())
        weeks[monday].append(Log(day, f"{folder}/{file.name}", text))
    this_monday = today - dt.timedelta(days=today.weekday())
    found = []
    for monday, logs in sorted(weeks.items()):
        path = f"{folder}/{FOLDER}/{monday:%G-W%V}.md"
        if monday < this_monday and len(logs) >= _FEWEST_LOGS and not (root / path).exists():
            found.append(Week(monday, path, tuple(logs)))
    return found


def digest(week: Week, summary: str = "") -> str:
    """Return the note: the summary of a language model, if there is one, and the points by day."""
    sunday = week.monday + dt.timedelta(days=6)
    parts = [
        f"---\ndate: {sunday}\ntags: [digest]\n---",
        f"# Week {week.name}: {week.monday} to {sunday}",
        *([summary.strip()] if summary.strip() else []),
    ]
    for log in week.logs:
        points = "\n".join(f"- {point}" for point in find_points(log.text))
        link = f"[{log.day}](../{log.day}.md)"
        parts.append(
            f"## {log.day:%A}, {link}\n\n{points}" if points else f"## {log.day:%A}, {link}"
        )
    return "\n\n".join(parts) + "\n"


def find_points(text: str) -> list[str]:
    """Return the points of a log, and the first sentences of its paragraphs."""
    found = []
    for block in re.split(r"\n\s*\n", _without_front_matter(text)):
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        if not lines:
            continue
        if any(_POINT.match(line) for line in lines):
            found += [_POINT.sub("", line, count=1) for line in lines if _POINT.match(line)]
        else:
            sentence = _SENTENCE.match(" ".join(line.strip() for line in lines))
            found += [sentence[0]] if sentence else []
    return [_shorten(point) for point in _distinct(found)[:_MOST_POINTS]]


def _without_front_matter(text: str) -> str:
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)


def _distinct(points: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(point.strip() for point in points if point.strip())]


def _shorten(point: str) -> str:
    return point if len(point) <= _LONGEST_POINT else f"{point[:_LONGEST_POINT].rstrip()}…"


def _day_of(file: Path) -> dt.date | None:
    if not _LOG.fullmatch(file.name):
        return None
    try:
        return dt.date.fromisoformat(file.stem)
    except ValueError:
        return None
