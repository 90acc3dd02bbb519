"""What a memory says of itself: its state, its vectors, what is wrong with it.

Apart from model.py, since a search needs none of it and each class takes a while to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
    store: tuple[Check, ...] = ()
    """What keeps the index, looked at."""
    warnings: tuple[str, ...] = ()
    deep: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `memwell doctor`."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
