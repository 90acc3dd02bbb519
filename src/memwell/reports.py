"""Reports on a memory: its state, its vectors, its problems.

They are not in model.py, because a search needs none of them and creating a class takes time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FillReport:
    """The result of embedding the waiting passages."""

    provider: str = ""
    """The provider that embedded; "" if none could."""
    model: str = ""
    embedded: int = 0
    from_cache: int = 0
    refused: tuple[str, ...] = ()
    """Reasons why passages have no vector: the provider refused them."""
    left: int = 0
    """Passages that still have no vector."""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """The providers that could not be used, with the reasons."""


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
    """A provider of the fallback chain, and whether it can be used."""

    name: str
    usable: bool
    detail: str


@dataclass(frozen=True, slots=True)
class WorkspaceStatus:
    """The contents of one workspace in the index."""

    root: str
    notes: int
    chunks: int
    synced_at: str | None
    missing: bool
    """Whether the folder is missing now; its notes stay in the index and are not searched."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of one agent's index."""

    version: str
    home: str
    agent: str
    index: str
    bytes: int
    words: str
    """"ready", or the reason why keyword search is not available."""
    meaning: str
    """The model of vector search, or the reason why it is not available."""
    providers: tuple[ProviderStatus, ...]
    spaces: tuple[SpaceStatus, ...]
    workspaces: tuple[WorkspaceStatus, ...]
    store: tuple[Check, ...] = ()
    """Checks of the store that keeps the index."""
    warnings: tuple[str, ...] = ()
    deep: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `memwell doctor`."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
