"""What search asks of a store: a query as a tree, filters, and matches in return.

Nothing here knows SQL; another store implements the same verbs.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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
    """All of the parts, and none of what is `without`."""

    parts: tuple[Node, ...]
    without: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the parts."""

    parts: tuple[Node, ...]


Node = Word | Phrase | And | Or


@dataclass(frozen=True, slots=True)
class Filters:
    """What a note must be, besides matching, to be looked at."""

    paths: tuple[str, ...] = ()
    """Globs, any of which fits; * also crosses folders."""
    not_paths: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """All of which it has; `project` also means `project/x`."""
    not_tags: tuple[str, ...] = ()
    after: str | None = None
    """ISO date, included."""
    before: str | None = None
    """ISO date, excluded."""
    workspaces: tuple[int, ...] | None = None
    """None is all of them."""
    exact_paths: frozenset[str] | None = None
    """Paths, exactly as they are; None is any."""
    valid_at: str | None = None
    """A time, in UTC: of facts, those that were held true then."""

    @property
    def selects_content(self) -> bool:
        """Whether the query itself asks for anything besides words."""
        return bool(
            self.paths or self.not_paths or self.tags or self.not_tags or self.after or self.before
        )


@dataclass(frozen=True, slots=True)
class WordQuery:
    """What to look for: `any_of` ranks, `all_of` must match, `none_of` must not."""

    any_of: tuple[Node, ...] = ()
    all_of: tuple[Node, ...] = ()
    none_of: tuple[Node, ...] = ()
    filters: Filters = field(default_factory=Filters)

    @property
    def has_words(self) -> bool:
        """Whether there is anything to rank by."""
        return bool(self.any_of or self.all_of)


@dataclass(frozen=True, slots=True)
class Match:
    """A chunk that a leg found; a higher `score` is better."""

    chunk_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The chunks right before and after one in its note."""

    chunks: tuple[int, ...]
    length: float
    """Characters, on average of the chunk and these."""


_WILDCARDS = "*?["


def path_globs(path: str) -> list[str]:
    """A glob as it is; a plain path means what lies there: that file, or all below that folder."""
    path = path.lower()
    if any(mark in path for mark in _WILDCARDS):
        return [path.replace("**/", "*").replace("**", "*")]
    return [f"{path}*", f"*/{path}*"]
