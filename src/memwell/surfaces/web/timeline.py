"""Notes and facts by day: a list of a year, and its heat map."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import shorten

from memwell.memory import Memory
from memwell.model import Fact
from memwell.search.time_languages import LANGUAGES
from memwell.store.contract.values import ListedNote
from memwell.surfaces.web.views import fact_link, note_link

_NAMES = "|".join(
    form
    for language in LANGUAGES.values()
    for form in (language.months + " " + language.weekdays).split()
)
_DATE_ONLY = re.compile(rf"(?:[\W\d_]|年|月|日|년|월|일|(?<!\w)(?:{_NAMES})(?!\w))*", re.I)
_LEVELS = (1, 2, 4, 7)
"""From so many entries on, a day has the shade 1, 2, 3 or 4."""
_MOST_HEADINGS = 3


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A note or a fact, with its day."""

    day: str
    kind: str
    text: str
    link: str


@dataclass(frozen=True, slots=True)
class HeatDay:
    """A day of the heat map: its column and row, its entries and its shade."""

    day: str
    week: int
    weekday: int
    count: int
    shade: int


def list_events(
    memory: Memory, notes: Iterable[ListedNote], facts: Iterable[Fact]
) -> list[TimelineEvent]:
    """Return notes and facts, the newest first; those without a date last."""
    events = [
        TimelineEvent(
            (note.date or "")[:10],
            "note",
            describe_note(memory, note),
            note_link(note.path, note.workspace),
        )
        for note in notes
    ]
    events += [
        TimelineEvent(fact.created_at[:10], "fact", fact.text, fact_link(fact.id)) for fact in facts
    ]
    return sorted(events, key=lambda event: event.day, reverse=True)


def is_date(title: str) -> bool:
    """Whether a title consists of a date alone, in one of eight languages."""
    return _DATE_ONLY.fullmatch(title) is not None


def describe_note(memory: Memory, note: ListedNote) -> str:
    """Return the title of a note; if it is only a date, its headings or its first line."""
    if not is_date(note.title):
        return note.title
    chunks = memory.contents.chunks(note.path, note.workspace)
    headings = [heading for chunk in chunks for heading in chunk.heading[1:2]]
    telling = [text for text in dict.fromkeys(headings) if not is_date(text)]
    if telling:
        more = " …" if len(telling) > _MOST_HEADINGS else ""
        return " · ".join(telling[:_MOST_HEADINGS]) + more
    lines = (line for chunk in chunks for line in chunk.text.splitlines())
    first = (line.strip(" #*->\t") for line in lines)
    text = next((line for line in first if not is_date(line)), "")
    return shorten(text, 100, placeholder=" …") or note.title or note.path


def heat_map(year: int, days: Sequence[str]) -> list[HeatDay]:
    """Return every day of a year; `days` has one item per note or fact."""
    counts = Counter(days)
    first = dt.date(year, 1, 1)
    shift = first.weekday()
    length = (dt.date(year, 12, 31) - first).days + 1
    found = []
    for number in range(length):
        day = (first + dt.timedelta(days=number)).isoformat()
        count = counts[day]
        shade = sum(count >= level for level in _LEVELS)
        found.append(HeatDay(day, (number + shift) // 7, (number + shift) % 7, count, shade))
    return found
