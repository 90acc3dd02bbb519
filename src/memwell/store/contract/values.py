"""The values that cross the contract: callers and every store share them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from memwell.model import Note

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

FACT_WORKSPACE = "facts:"
"""The name of a workspace that holds facts instead of files begins with this."""
SUPERSEDED_PREFIX = "former:"
"""Follows `FACT_WORKSPACE` in the name of a workspace of superseded facts."""
FACT_RECIPE = "fact"
"""The `recipe` of a note that is a fact; its `meta` says from when until when it is valid."""

FILLING, LIVE, RETIRED = "filling", "live", "retired"
"""The states of a vector space."""

FIRST_COOLDOWN_SECONDS = 30.0
LONGEST_COOLDOWN_SECONDS = 1800.0


# -- notes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was read."""

    path: str
    size: int
    mtime_ns: int
    read_ns: int
    hash: str
    recipe: str


@dataclass(frozen=True, slots=True)
class IndexedFile(SourceFile):
    """A note's file as the index knows it: a sync compares it without reading the file."""

    note_id: int


@dataclass(frozen=True, slots=True)
class ListedNote:
    """A note in a list: without its text."""

    path: str
    workspace: str
    title: str
    date: str | None
    tags: tuple[str, ...]
    chunks: int


@dataclass(frozen=True, slots=True)
class LinkedNote:
    """A note with the names that links can use, and the targets of its own links."""

    path: str
    workspace: str
    names: tuple[str, ...]
    """Its title and aliases."""
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportedNote:
    """A note with everything the index knows of it, so that another index can store it."""

    id: int
    workspace: str
    file: SourceFile
    note: Note
    chunk_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A chunk that has a vector, as the map of all notes draws it."""

    path: str
    workspace: str
    start_line: int
    end_line: int
    title: str
    kind: str


CONVENTIONAL = ("MEMORY.md", "USER.md", "AGENTS.md", "SOUL.md", "TOOLS.md", "memory")
"""Names that mark a folder as an agent's workspace; they are its notes if no path is given."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace: its folder, and which of its files are indexed."""

    root: str
    conventional: bool = False
    include: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.root)

    @property
    def is_present(self) -> bool:
        """Whether the folder exists, and this user may know it: `Path.is_dir` raises an error."""
        return os.path.isdir(self.root)

    @property
    def takes_all(self) -> bool:
        """Whether every note beneath the folder is indexed."""
        return "." in self.include

    def contains(self, path: Path) -> bool:
        """Whether `path` is the folder or lies beneath it."""
        return path == self.path or self.path in path.parents


def find_innermost(workspaces: Iterable[Workspace], path: Path) -> Workspace | None:
    """Return the innermost of the workspaces that contain `path`."""
    around = [workspace for workspace in workspaces if workspace.contains(path)]
    return max(around, key=lambda workspace: len(workspace.path.parts), default=None)


# -- vectors ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Space:
    """A vector space: the vectors of one model."""

    id: int
    fingerprint: str
    provider: str
    model: str
    dimensions: int
    settings: str
    state: str
    opened_at: str
    retired_at: str | None = None
    pinned: str | None = None
    """The provider chain under which the user switched to this space."""
    complete_to: int = 0
    """All chunks up to this id have their vectors."""
    random_mean: float | None = None
    """The cosine of two vectors picked at random, measured when the space was complete."""
    random_deviation: float | None = None
    snapshot: str | None = None
    """SQLite: the files beside the index that are scanned, with spaces between, oldest first."""
    unrelated_mean: float | None = None
    """The cosine of a query and an unrelated passage."""
    unrelated_deviation: float | None = None
    location: str = ""
    """SQLite: the LanceDB table that has the vectors; empty if they are in index.db.

    PostgreSQL: the vector index of this space; empty if a search compares all vectors."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The files of its snapshot."""
        return tuple((self.snapshot or "").split())

    @property
    def made_from(self) -> Mapping[str, Any]:
        """The settings that its provider is created from."""
        settings: Mapping[str, Any] = json.loads(self.settings)
        return settings


@dataclass(frozen=True, slots=True)
class WaitingChunk:
    """A chunk that has no vector in a space yet."""

    chunk_id: int
    text: str
    """The text to embed: the headings above the chunk, and the chunk."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """How a provider failed, and until when (seconds since 1970) it is not called."""

    provider: str
    until: float
    failures: int
    unavailable: bool
    """Whether it cannot be used at all (a key was refused), so that another takes its place."""
    reason: str

    def is_active(self, now: float) -> bool:
        """Whether the provider must not be called yet."""
        return self.until > now


def cooldown_seconds(failures: int) -> float:
    """Return how long a provider is not called after so many failures in a row."""
    return min(LONGEST_COOLDOWN_SECONDS, FIRST_COOLDOWN_SECONDS * 2.0 ** (failures - 1))


# -- facts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FactFilter:
    """Selects facts among those that the viewer sees; all of them by default."""

    ids: tuple[str, ...] | None = None
    normalised: str | None = None
    scope: str | None = None
    category: str | None = None
    tag: str | None = None
    source: str | None = None
    superseded: bool = False
    """Whether superseded facts are selected, too."""
    expired_before: str | None = None
    """Only facts that expire by this time."""
    live_at: str | None = None
    """Only facts that have not expired by this time."""
    as_of: str | None = None
    """Facts that were valid at this time, whatever happened to them later."""


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A backup that was written."""

    file: str
    facts: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """An automatic backup."""

    file: str
    at: str
    """When it was written, in UTC."""
    facts: int | None
    """None if the file is damaged."""
    bytes: int


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """A backup that was restored, and the file that now has what was there before."""

    file: str
    facts: int
    kept: str | None
    revision: int
