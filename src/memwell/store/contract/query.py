"""A query as a tree with filters, and the matches that a store returns. Nothing here knows SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the user wrote it; with `prefix`, the beginning of one."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that must stand next to each other, in this order."""

    text: str


@dataclass(frozen=True, slots=True)
class And:
    """All of `parts`, and none of `without`."""

    parts: tuple[Node, ...]
    without: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the parts."""

    parts: tuple[Node, ...]


Node = Word | Phrase | And | Or


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions that a note must satisfy besides matching words."""

    paths: tuple[str, ...] = ()
    """Globs, at least one of which matches; * also matches across folders."""
    not_paths: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Tags that it must all have; `project` includes `project/x`."""
    not_tags: tuple[str, ...] = ()
    after: str | None = None
    """ISO date, included."""
    before: str | None = None
    """ISO date, excluded."""
    undated: bool = False
    """Whether notes without a date satisfy `after` and `before`, too."""
    at_any_time: frozenset[str] = frozenset()
    """Exact paths of notes that satisfy `after` and `before` whatever their date."""
    workspaces: tuple[int, ...] | None = None
    """Ids; None means all."""
    exact_paths: frozenset[str] | None = None
    """Exact paths; None means any."""
    valid_at: str | None = None
    """A time in UTC: only facts that were valid then."""

    @property
    def selects_content(self) -> bool:
        """Whether the query selects notes by anything besides words."""
        return bool(
            self.paths or self.not_paths or self.tags or self.not_tags or self.after or self.before
        )


@dataclass(frozen=True, slots=True)
class WordQuery:
    """The words of a query: `any_of` ranks, `all_of` must match, `none_of` must not match."""

    any_of: tuple[Node, ...] = ()
    all_of: tuple[Node, ...] = ()
    none_of: tuple[Node, ...] = ()
    filters: Filters = field(default_factory=Filters)

    @property
    def has_words(self) -> bool:
        """Whether there is anything to rank by."""
        return bool(self.any_of or self.all_of)


class Match(NamedTuple):
    """A chunk that keyword or vector search found; a higher `score` is better."""

    chunk_id: int
    score: float
    covered: float = 0.0
    """Keyword search: the share of the query's words, by weight, that the chunk holds."""


def best_scores(rows: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return the best score of each chunk: that of its best window."""
    best: dict[int, float] = {}
    for chunk_id, score in rows:
        best[chunk_id] = max(score, best.get(chunk_id, -1.0))
    return best


def match_order(match: Match) -> tuple[float, int]:
    """Return the sort key of a match: best first, among equals the older chunk."""
    return -match.score, match.chunk_id


class Place(NamedTuple):
    """The place of a chunk: path and date of its note, and its number in the note."""

    path: str
    date: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The chunks right before and after one in its note."""

    chunks: tuple[int, ...]
    length: float
    """The average length of the chunk and these, in characters."""


_WILDCARDS = "*?["


def path_globs(path: str) -> list[str]:
    """Return the globs for a path; a plain path matches a file, or all files below a folder."""
    path = path.lower()
    if any(mark in path for mark in _WILDCARDS):
        return [path.replace("**/", "*").replace("**", "*")]
    return [f"{path}*", f"*/{path}*"]
