"""The words of the domain: what goes in, what is kept and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a note.

    `text` is exactly what stands in the note between two characters of it; its first
    `overlap` characters also end the chunk before. Lines count from 1, both ends included.
    """

    text: str
    start_line: int
    end_line: int
    heading: tuple[str, ...] = ()
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """A Markdown file as it was read: its metadata and its chunks."""

    title: str
    date: str | None
    """ISO date from front matter or path; None means evergreen."""
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    links: tuple[str, ...]
    """Targets of [[wiki links]]."""
    meta: Mapping[str, Any]
    """The front matter, as it stands."""
    chunks: tuple[Chunk, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What the note as a whole is called: title, aliases, tags."""
        return tuple(dict.fromkeys((self.title, *self.aliases, *self.tags)))


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about one file that the user should know; never fatal."""

    path: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" + (f" ({self.remedy})" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a sync did: counts of notes, and what it could not take."""

    workspace: str
    added: int = 0
    changed: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    chunks_written: int = 0
    seconds: float = 0.0
    problems: tuple[Problem, ...] = ()

    @property
    def touched(self) -> int:
        """How many notes the sync wrote or removed."""
        return self.added + self.changed + self.moved + self.deleted


@dataclass(frozen=True, slots=True)
class LegScore:
    """What one leg contributes to the score of a hit."""

    leg: str
    rank: int | None
    """Its place among what the leg brought; None if the leg was only asked about it."""
    raw: float | None
    """BM25, or the cosine."""
    evidence: float
    """The raw score as the fusion sees it."""
    weight: float
    contribution: float
    """Weight times evidence; the contributions of the legs add up to `Trace.fused`."""


@dataclass(frozen=True, slots=True)
class Trace:
    """How the score of a hit came about."""

    parts: tuple[LegScore, ...]
    fused: float
    """What decides the order."""
    above_chance: float | None
    """Deviations by which the cosine lies above that of a question and a stranger."""
    covered: float | None
    """BM25 over that of a passage with every word of the query."""
    relevance: float
    """What these two come to: how likely the passage answers."""
    min_score: float
    kept: float = 1.0
    """What time leaves of it."""
    kept_why: str = ""
    score: float = 0.0
    """Relevance times what time leaves of it."""
    copies: int = 0
    """Passages with nearly the same text that it stands for."""
    worth: float | None = None
    """What it was chosen by, where hits are to differ (mmr)."""


@dataclass(frozen=True, slots=True)
class Context:
    """What stands around a passage."""

    start_line: int
    end_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that answers a query."""

    path: str
    workspace: str
    start_line: int
    end_line: int
    score: float
    relevance: float
    text: str
    kind: str = "note"
    title: str = ""
    heading: tuple[str, ...] = ()
    date: str | None = None
    tags: tuple[str, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    """Spans of `text` that match the query's words."""
    also: tuple[str, ...] = ()
    """Where nearly the same text stands as well."""
    context: Context | None = None
    """The passage with what stands around it, where that was asked for."""
    trace: Trace | None = None
    """How its score came about, where that was asked for."""
    valid_until: str | None = None
    """Of a fact that is no longer held true: until when it was."""


HYPOTHETICAL = "by a hypothetical answer"
"""The detail of a leg that a passage in place of the query was asked by."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One way of retrieving, and whether it answered this time."""

    name: str
    answered: bool
    reason: str = ""
    """Why it did not answer."""
    detail: str = ""
    """What answered: the model."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How well the index that answered reflects the files as they are."""

    checked: bool
    """Whether the folders were compared with the index just before the search."""
    pending: int = 0
    """Notes known to have changed that the answer does not yet reflect."""
    unembedded: int = 0
    """Passages that can be found by words but not yet by meaning."""
    synced_at: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of one query, best first, and what the caller should know about them."""

    query: str
    hits: tuple[Hit, ...]
    legs: tuple[Leg, ...]
    freshness: Freshness
    suggestions: tuple[str, ...] = ()
    """Queries nearer to the vocabulary, when this one found nothing."""
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a note as they stand in the file now."""

    path: str
    workspace: str
    start_line: int
    end_line: int
    text: str


# -- facts -----------------------------------------------------------------------------------------

SCOPES = (GLOBAL, AGENT, USER, SESSION) = ("global", "agent", "user", "session")
"""The widest first: all users of an agent see what is the agent's."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: sees what is global, and what is theirs."""

    user: str = ""
    agent: str = ""
    session: str = ""

    @property
    def scopes(self) -> tuple[tuple[str, str], ...]:
        """The scopes that are visible, each with whose it is, the widest first."""
        own = ((AGENT, self.agent), (USER, self.user), (SESSION, self.session))
        return ((GLOBAL, ""), *((scope, target) for scope, target in own if target))

    @property
    def narrowest(self) -> str:
        """The scope that the fewest share."""
        return self.scopes[-1][0]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was told, and is kept straight. Times are UTC, ISO 8601."""

    id: str
    text: str
    category: str
    source: str
    origin: str
    """Where exactly it came from: a path with lines, a session."""
    importance: float
    confidence: float
    decay_class: str
    created_at: str
    confirmed_at: str
    expires_at: str | None
    valid_from: str | None
    valid_until: str | None
    superseded_by: str | None
    scope: str
    target: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FactEvent:
    """Something that happened to a fact."""

    fact_id: str
    at: str
    what: str
    detail: str
