"""Values and functions for the templates: links, hits and score bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from textwrap import shorten
from urllib.parse import quote, urlencode

from memwell.errors import NotFoundError
from memwell.memory import Memory
from memwell.model import Hit, Trace
from memwell.search.snippet import snippet
from memwell.store.contract.values import ListedNote

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
