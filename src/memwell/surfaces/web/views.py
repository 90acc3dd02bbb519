"""Values for the templates: hits with highlights and score bars, timeline, map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum
from textwrap import shorten
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from memwell.errors import NotFoundError
from memwell.memory import Memory
from memwell.model import Fact, Hit, LegScore, SearchResult, Trace
from memwell.search.snippet import snippet
from memwell.store.contract.values import ListedNote, MapPoint

if TYPE_CHECKING:
    from memwell.surfaces.web.map import Region

TextSpan = tuple[str, bool]
"""A text, and whether it is highlighted."""

_RAW = {"words": "BM25", "meaning": "cosine"}


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


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit, as the page shows it."""

    hit: Hit
    link: str
    title: str
    place: str
    lines: list[list[TextSpan]]
    bar: list[BarSlice]
    explained: list[str]


def to_shown_hits(result: SearchResult) -> list[ShownHit]:
    """Return the hits of an explained search, as the page shows them."""
    return [_to_shown_hit(hit, result.display_path(hit)) for hit in result.hits]


def _to_shown_hit(hit: Hit, path: str) -> ShownHit:
    assert hit.trace is not None
    fact = hit.kind == "fact"
    return ShownHit(
        hit,
        fact_link(hit.path) if fact else note_link(hit.path, hit.workspace, hit.start_line),
        shorten(hit.text, 60, placeholder=" …") if fact else hit.title or hit.path,
        "" if fact else f"{path}:{hit.start_line}",
        [
            split_text(line.text, line.marks)
            for line in snippet(hit.text, hit.marks, hit.start_line)
            if line.text.lstrip("# ") not in hit.heading
        ],
        score_bar(hit.trace),
        [*explain_score(hit.trace)],
    )


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


def explain_score(trace: Trace) -> Iterator[str]:
    """Yield sentences that explain a score."""
    for part in trace.parts:
        yield _explain_leg(part)
    yield f"The sum is {trace.fused:.2f}; it decides the order."
    if trace.covered is not None:
        yield f"Its words score {min(trace.covered, 1):.0%} of a passage that has all the words."
    if trace.above_chance is not None:
        nearer = "nearer to" if trace.above_chance >= 0 else "further from"
        yield (
            f"Its vector is {abs(trace.above_chance):.1f} standard deviations {nearer} the query"
            " than the vector of an unrelated passage."
        )
    yield f"Its relevance is {trace.relevance:.2f}; the threshold is {trace.min_score:.2f}."
    if trace.kept < 1:
        yield f"Age leaves {trace.kept:.0%} of it: {trace.kept_why}."
    yield f"The score is {trace.relevance:.2f} × {trace.kept:.2f} = {trace.score:.2f}."
    if trace.copies:
        yield f"It represents {trace.copies} more with nearly the same text."
    if trace.worth is not None:
        yield f"Its value next to the hits above it is {trace.worth:.2f}."


def _explain_leg(part: LegScore) -> str:
    if part.leg == "lift":
        return f"Meaning ranks it among the first, which adds {part.contribution:.2f}."
    rank = f"found it at rank {part.rank}" if part.rank else "did not find it"
    raw = f" ({_RAW.get(part.leg, 'score')} {part.raw:.2f})" if part.raw is not None else ""
    product = f"evidence {part.evidence:.2f} × weight {part.weight:.2f} = {part.contribution:.2f}"
    return f"{part.leg.capitalize()} {rank}{raw}: {product}."


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


def group_by_day(events: Iterable[TimelineEvent]) -> list[tuple[str, list[TimelineEvent]]]:
    """Return the events of each day."""
    return [(day, [*group]) for day, group in groupby(events, key=lambda event: event.day)]


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
