"""What the templates show: hits with their marks and bars, a trace in words, days of a timeline."""

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
from memwell.store.browse import ListedNote, MapPoint

if TYPE_CHECKING:
    from memwell.surfaces.web.map import Region

TextSpan = tuple[str, bool]
"""Some letters, and whether they match the query."""

_RAW = {"words": "BM25", "meaning": "cosine"}


def find_note(memory: Memory, path: str, workspace: str) -> ListedNote:
    """Return the note of a path; the first of that path where no workspace is named."""
    for note in memory.contents.notes(path):
        if workspace in ("", note.workspace):
            return note
    raise NotFoundError(
        f"There is no note {path!r} in the index", "Use a path as the search shows it"
    )


# -- hits ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BarSlice:
    """A part of a bar, in hundredths."""

    name: str
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit as a person sees it."""

    hit: Hit
    link: str
    title: str
    place: str
    lines: list[list[TextSpan]]
    bar: list[BarSlice]
    explained: list[str]


def to_shown_hits(result: SearchResult) -> list[ShownHit]:
    """Return the hits of an explained search, ready to be shown."""
    several = len({hit.workspace for hit in result.hits if hit.kind == "note"}) > 1
    return [_to_shown_hit(hit, several) for hit in result.hits]


def _to_shown_hit(hit: Hit, several: bool) -> ShownHit:
    assert hit.trace is not None
    fact = hit.kind == "fact"
    path = f"{hit.workspace}/{hit.path}" if several else hit.path
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
        explain_score(hit.trace),
    )


def note_link(path: str, workspace: str, line: int = 1) -> str:
    """Return where a passage of a note is shown."""
    return f"/note?{urlencode({'path': path, 'workspace': workspace})}#L{line}"


def fact_link(fact_id: str) -> str:
    """Return where a fact is shown."""
    return f"/facts/{quote(fact_id, safe='')}"


def split_text(text: str, marks: Sequence[tuple[int, int]]) -> list[TextSpan]:
    """Cut a text at its marks."""
    found, at = [], 0
    for start, end in marks:
        found += [(text[at:start], False), (text[start:end], True)]
        at = end
    return [*found, (text[at:], False)]


# -- a trace ---------------------------------------------------------------------------------------


def score_bar(trace: Trace) -> list[BarSlice]:
    """Return the score as a bar: what the legs gave, and what age took from the relevance.

    The legs share the score as they share the order: by what speaks for the passage.
    """
    gave = {part.leg: max(0.0, part.contribution) for part in trace.parts}
    if not any(gave.values()):
        gave = {part.leg: part.weight for part in trace.parts}
    whole = fsum(gave.values()) or 1.0
    widths = {leg: trace.score * given / whole for leg, given in gave.items()}
    widths["age"] = trace.relevance - trace.score
    found, at = [], 0.0
    for name, width in widths.items():
        if width > 0:
            found.append(BarSlice(name, round(100 * at, 2), round(100 * width, 2)))
            at += width
    return found


def explain_score(trace: Trace) -> list[str]:
    """Return in words how a score came about."""
    return [*_score_sentences(trace)]


def _score_sentences(trace: Trace) -> Iterator[str]:
    for part in trace.parts:
        yield _explain_leg(part)
    yield f"Together they come to {trace.fused:.2f}, which decides the order."
    if trace.covered is not None:
        yield f"It has {min(trace.covered, 1):.0%} of what a passage with all the words would have."
    if trace.above_chance is not None:
        nearer = "nearer to" if trace.above_chance >= 0 else "further from"
        yield (
            f"Its meaning lies {abs(trace.above_chance):.1f} deviations {nearer} the question than"
            " that of a passage which has nothing to do with it."
        )
    yield f"So its relevance is {trace.relevance:.2f}; {trace.min_score:.2f} is asked for."
    if trace.kept < 1:
        yield f"Age leaves {trace.kept:.0%} of it: {trace.kept_why}."
    yield f"The score is {trace.relevance:.2f} × {trace.kept:.2f} = {trace.score:.2f}."
    if trace.copies:
        yield f"It stands for {trace.copies} more with nearly the same text."
    if trace.worth is not None:
        yield f"Beside the hits before it, it is worth {trace.worth:.2f}."


def _explain_leg(part: LegScore) -> str:
    if part.leg == "lift":
        return f"It is among the first by meaning, and lifted by {part.contribution:.2f} for that."
    place = f"found it at place {part.rank}" if part.rank else "did not bring it"
    raw = f" ({_RAW.get(part.leg, 'score')} {part.raw:.2f})" if part.raw is not None else ""
    gave = f"evidence {part.evidence:.2f} × weight {part.weight:.2f} = {part.contribution:.2f}"
    return f"{part.leg.capitalize()} {place}{raw}: {gave}."


# -- the timeline ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Something with a day: a note, or a fact that was told."""

    day: str
    kind: str
    text: str
    link: str


def timeline_events(notes: Iterable[ListedNote], facts: Iterable[Fact]) -> list[TimelineEvent]:
    """Return notes and facts, the newest first; those without a date last."""
    found = [
        TimelineEvent(
            (note.date or "")[:10],
            "note",
            note.title or note.path,
            note_link(note.path, note.workspace),
        )
        for note in notes
    ]
    found += [
        TimelineEvent(fact.created_at[:10], "fact", fact.text, fact_link(fact.id)) for fact in facts
    ]
    return sorted(found, key=lambda event: event.day, reverse=True)


def group_by_day(found: Iterable[TimelineEvent]) -> list[tuple[str, list[TimelineEvent]]]:
    """Return the events of each day."""
    return [(day, [*some]) for day, some in groupby(found, key=lambda event: event.day)]


# -- the map ---------------------------------------------------------------------------------------


def notes_of(region: Region) -> list[tuple[str, str]]:
    """Return the titles and links of what lies in a region, each once, the middle first."""
    return [
        *{(spot.path, spot.workspace): _title_and_link(spot) for spot in region.passages}.values()
    ]


def map_drawing(regions: Sequence[Region]) -> dict[str, Any]:
    """Return the map as the script draws it."""
    return {
        "regions": [[region.name, region.x, region.y] for region in regions],
        "points": [
            [round(x, 4), round(y, 4), number, *_title_and_link(spot)]
            for number, region in enumerate(regions)
            for spot, (x, y) in zip(region.passages, region.positions.tolist(), strict=True)
        ],
    }


def _title_and_link(spot: MapPoint) -> tuple[str, str]:
    """Return the title of a passage and where it is shown."""
    if spot.kind == "fact":
        return spot.title, fact_link(spot.path)
    return spot.title, note_link(spot.path, spot.workspace, spot.start_line)
