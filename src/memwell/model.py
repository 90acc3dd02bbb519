"""The words of the domain: what goes in, what is kept and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
class Passage:
    """Lines of a note as they stand in the file now."""

    path: str
    workspace: str
    start_line: int
    end_line: int
    text: str


@dataclass(frozen=True, slots=True)
class FillReport:
    """What a filling of the vectors did."""

    provider: str = ""
    """Which one embedded; "" if none could."""
    model: str = ""
    embedded: int = 0
    from_cache: int = 0
    refused: tuple[str, ...] = ()
    """Why passages have no vector: the provider would not take them."""
    left: int = 0
    """Passages that still wait."""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """Which providers could not be used, and why."""


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """The vectors of one model."""

    id: int
    provider: str
    model: str
    dimensions: int
    state: str
    """"live" (answers), "filling" or "retired"."""
    embedded: int
    chunks: int
    opened_at: str
    retired_at: str | None
    random_mean: float | None
    """The cosine of two passages picked at random."""
    random_deviation: float | None
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """A member of the chain, and whether it can be used."""

    name: str
    usable: bool
    detail: str


@dataclass(frozen=True, slots=True)
class WorkspaceStatus:
    """What the index holds of one workspace."""

    root: str
    notes: int
    chunks: int
    synced_at: str | None
    missing: bool
    """The folder is not there now; its notes wait and are not searched."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of one agent's index."""

    version: str
    home: str
    agent: str
    index: str
    bytes: int
    words: str
    """"ready", or why the words cannot be searched."""
    meaning: str
    """What answers by meaning, or why nothing does."""
    providers: tuple[ProviderStatus, ...]
    spaces: tuple[SpaceStatus, ...]
    workspaces: tuple[WorkspaceStatus, ...]
    warnings: tuple[str, ...] = ()
    deep: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `memwell doctor`."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
