"""The contract of a vector backend; the settings choose one.

The table `vectors` of index.db is the ledger: it says which chunk has a vector in which space, and
has the vector itself or the key of its row in the backend. Deleting a chunk deletes its rows in the
ledger. No search finds the chunk from then on, whatever the backend still has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import apsw

from memwell.store.contract.query import Filters, Match
from memwell.store.sqlite.filters import filter_sql

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array, Space

_ABANDONED_SECONDS = 3600
_STALE_ROWS, _STALE_SHARE = 500, 0.02

SCAN, SQL, LANCEDB = "scan", "sqlite-vec", "lancedb"

Stored: TypeAlias = bytes | int
"""The vector of a row in the ledger: its numbers (quantisation.py), or its key in LanceDB."""


@dataclass(frozen=True, slots=True)
class BackendSetting:
    """The vector backend, as the settings name it."""

    name: str = SCAN
    address: str = ""
    """For lancedb: a folder or an s3:// address; empty means a folder beside the index."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The chunks that a search may find: by filters, and by required and excluded words."""

    filters: Filters
    chunks: Sequence[int] | None = None
    not_chunks: Sequence[int] = ()

    def sql(self) -> tuple[str, list[str | int]]:
        """Return conditions on ``chunks c`` and ``notes n`` (each begins with AND), and values."""
        condition, values = filter_sql(self.filters)
        if self.chunks is not None:
            condition += " AND c.id IN (SELECT value FROM json_each(?))"
            values.append(json.dumps([*self.chunks]))
        if self.not_chunks:
            condition += " AND c.id NOT IN (SELECT value FROM json_each(?))"
            values.append(json.dumps([*self.not_chunks]))
        return condition, values


class VectorBackend(Protocol):
    """Stores the vectors of spaces; `connection` is the state of the ledger that a search sees."""

    def put(self, space: Space, windows: Sequence[tuple[int, Matrix]]) -> bool:
        """Store the vectors of chunks; return False if the space was moved to another backend."""

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
        """Return the chunks nearest to a query, best first; the best window of a chunk counts."""

    def read(self, space: Space, rows: Sequence[tuple[int, Stored]]) -> list[tuple[int, bytes]]:
        """Return the vectors of rows of the ledger, each with the number that came with the row.

        A vector is little-endian float32.
        """

    def cosines(
        self, space: Space, rows: Sequence[tuple[int, Stored]], query: Array
    ) -> dict[int, float]:
        """Return the cosine of each chunk of rows of the ledger: that of its best window."""

    def has_unusable_copy(self, space: Space) -> bool:
        """Whether searches do without a copy that is damaged or of an earlier version."""
        return False

    def compact(self, space: Space, *, even_if_little_changed: bool) -> None:
        """Make searches fast again and delete the vectors of deleted chunks."""

    def drop(self, space: Space) -> None:
        """Delete what the backend has of a space, but not its rows in the ledger."""


def is_abandoned(at: float) -> bool:
    """Whether an unused file or table of that time may go; a young one may be unfinished."""
    return at < time.time() - _ABANDONED_SECONDS


def is_stale(changed: int, total: int) -> bool:
    """Whether so many rows changed that a new snapshot or table is worth its cost."""
    return changed > max(_STALE_ROWS, _STALE_SHARE * total)


def is_worn(dead: int, total: int) -> bool:
    """Whether so many rows are dead that a table is written anew without them."""
    return dead > _STALE_SHARE * total
