"""What search and filling ask of whatever keeps the vectors; what answers is the settings' to say.

The table `vectors` of index.db is the ledger: which chunk has a vector in which space, and with it
the numbers, or where those are. Deleting a chunk deletes its rows there, and with them it is gone
from every answer, whoever keeps the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import apsw

from memwell.store.contract.query import Filters, Match
from memwell.store.sqlite.filters import filter_sql

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array, Space

SCAN, SQL, LANCEDB = "scan", "sqlite-vec", "lancedb"

Stored: TypeAlias = bytes | int
"""A row's vector: little-endian float32, or the key by which another store has it."""


@dataclass(frozen=True, slots=True)
class BackendSetting:
    """How the nearest vectors are found, as the settings say."""

    name: str = SCAN
    address: str = ""
    """With lancedb: a folder or an s3:// address; empty is a folder beside the index."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which chunks may be found: filters on their notes, and words they must or must not hold."""

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
    """Keeps the vectors of spaces; `connection` is the state of the ledger that a search sees."""

    def put(self, space: Space, windows: Sequence[tuple[int, Matrix]]) -> bool:
        """Store the vectors of chunks; False if the space is kept elsewhere by now."""

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
        """Return the chunks nearest to a query, best first; each is as near as its best window."""

    def read(self, space: Space, rows: Sequence[tuple[int, Stored]]) -> list[tuple[int, bytes]]:
        """Return the numbers of rows of the ledger, each with what came with it."""

    def compact(self, space: Space, *, even_if_little_changed: bool) -> None:
        """Make searches quick again, and let go of what was deleted."""

    def drop(self, space: Space) -> None:
        """Let go of all that is kept of a space; its rows in the ledger are not touched."""


def sort_matches(match: Match) -> tuple[float, int]:
    """Sort matches: the best first, of equals the older chunk."""
    return -match.score, match.chunk_id
