"""Values and functions for the templates: hits, score bars, timeline, map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from textwrap import shorten
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from memwell.errors import NotFoundError
from memwell.memory import Memory
from memwell.model import Fact, Hit, Trace
from memwell.search.snippet import snippet
from memwell.store.contract.values import ListedNote, MapPoint

if TYPE_CHECKING:
    from memwell.surfaces.web.map import Region

TextSpan = tuple[str, bool]
"""A text, and whether it is highlighted."""


def find_note(memory: Memory, path: str, workspace: str) -> ListedNote:
    """Return the note of a path; without a workspace, the first one with this path."""
    for note in memory.contents.notes(path):
        if workspace in ("", note.workspace):
            return note
    raise NotFoundError(
        f"There is no note {path!r} in the index", "Use a path from the search results"
    )


# -- hits ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BarSlice:
    """A part of a score bar, in hundredths of its width."""

    name: str
    start: float
    width: float


def hit_link(hit: Hit) -> str:
    """Return the address of a hit."""
    if hit.kind == "fact":
        return fact_link(hit.path)
    return note_link(hit.path, hit.workspace, hit.start_line)


def hit_title(hit: Hit) -> str:
    """Return the title of a hit's note, or the beginning of a fact."""
    if hit.kind == "fact":
        return shorten(hit.text, 60, placeholder=" …")
    return hit.title or hit.path


def hit_lines(hit: Hit) -> list[list[TextSpan]]:
    """Return the lines of a hit that match best, without its headings."""
    return [
        split_text(line.text, line.marks)
        for line in snippet(hit)
        if line.text.lstrip("# ") not in hit.heading
    ]


def note_link(path: str, workspace: str, line: int = 1) -> str:
    """Return the address of a passage of a note."""
    return f"/note?{urlencode({'path': path, 'workspace': workspace})}#L{line}"


def fact_link(fact_id: str) -> str:
    """Return the address of a fact."""
    return f"/facts/{quote(fact_id, safe='')}"


def split_text(text: str, marks: Sequence[tuple[int, int]]) -> list[TextSpan]:
    """Split a text at its highlights."""
    spans, position = [], 0
    for start, end in marks:
        spans += [(text[position:start], False), (text[start:end], True)]
        position = end
    return [*spans, (text[position:], False)]


# -- a trace ---------------------------------------------------------------------------------------


def score_bar(trace: Trace) -> list[BarSlice]:
    """Return the score as a bar: the share of each leg, and what age took from the relevance.

    Each leg's share of the score is its share of the contributions.
    """
    shares = {part.leg: max(0.0, part.contribution) for part in trace.parts}
    if not any(shares.values()):
        shares = {part.leg: part.weight for part in trace.parts}
    total = fsum(shares.values()) or 1.0
    widths = {leg: trace.score * share / total for leg, share in shares.items()}
    widths["age"] = trace.relevance - trace.score
    slices, start = [], 0.0
    for name, width in widths.items():
        if width > 0:
            slices.append(BarSlice(name, round(100 * start, 2), round(100 * width, 2)))
            start += width
    return slices


# -- the timeline ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A note or a fact, with its day."""

    day: str
    kind: str
    text: str
    link: str


def timeline_events(notes: Iterable[ListedNote], facts: Iterable[Fact]) -> list[TimelineEvent]:
    """Return notes and facts, the newest first; those without a date last."""
    events = [
        TimelineEvent(
            (note.date or "")[:10],
            "note",
            note.title or note.path,
            note_link(note.path, note.workspace),
        )
        for note in notes
    ]
    events += [
        TimelineEvent(fact.created_at[:10], "fact", fact.text, fact_link(fact.id)) for fact in facts
    ]
    return sorted(events, key=lambda event: event.day, reverse=True)


# -- the map ---------------------------------------------------------------------------------------


def notes_of(region: Region) -> list[tuple[str, str]]:
    """Return the titles and links of a region's notes, each once, from its centre outwards."""
    links = {(point.path, point.workspace): _title_and_link(point) for point in region.passages}
    return [*links.values()]


def map_drawing(regions: Sequence[Region]) -> dict[str, Any]:
    """Return the map in the form that the script draws."""
    return {
        "regions": [[region.name, region.x, region.y] for region in regions],
        "points": [
            [round(x, 4), round(y, 4), number, *_title_and_link(point)]
            for number, region in enumerate(regions)
            for point, (x, y) in zip(region.passages, region.positions.tolist(), strict=True)
        ],
    }


def _title_and_link(point: MapPoint) -> tuple[str, str]:
    """Return the title of a passage and its address."""
    if point.kind == "fact":
        return point.title, fact_link(point.path)
    return point.title, note_link(point.path, point.workspace, point.start_line)
