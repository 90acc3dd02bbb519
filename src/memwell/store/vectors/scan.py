"""Vector search by a scan: the chunks of a space that are nearest to a query, by cosine.

A search scans the snapshot file of the space without the rows that were deleted since, and the rows
that were added since. Filters apply before ranking, so that k chunks are found if k exist.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import numpy as np

from memwell.store.contract.query import Match
from memwell.store.contract.values import Space
from memwell.store.sqlite.database import Database
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.spaces import SqliteSpaces
from memwell.store.vectors import backend, snapshot
from memwell.store.vectors.backend import Allowed, Stored, VectorBackend
from memwell.store.vectors.snapshot import Row, Snapshot

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array

_SAMPLE = 10_000
"""Vectors that the principal axes are computed from."""
_SORTED = 500
"""Up to so many scores sorting all is faster than partitioning first."""


class Snapshots:
    """The snapshot files beside an index; the last one of each space is mapped into memory.

    Another process may replace a snapshot. So only one is kept for a space: the old file would hold
    its descriptor, its memory and its disk space as long as this process lives.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mapped: dict[int, tuple[str, Snapshot]] = {}
        self._lock = threading.Lock()

    def get(self, space: Space) -> Snapshot | None:
        """Return the snapshot of a space; None if it has none, or a damaged one."""
        if space.snapshot is None:
            return None
        with self._lock:
            name, found = self._mapped.get(space.id, ("", None))
            if name != space.snapshot:
                found = snapshot.load(self.folder / space.snapshot)
                if found is None or found.dimensions != space.dimensions:
                    return None
                self._mapped[space.id] = space.snapshot, found
            return found

    def delete(self, name: str | None) -> None:
        """Delete a file that no space uses any more."""
        if name:
            with self._lock:
                self._mapped = {
                    space: mapped for space, mapped in self._mapped.items() if mapped[0] != name
                }
            (self.folder / name).unlink(missing_ok=True)

    def sweep(self, used: set[str]) -> None:
        """Delete the files of killed processes."""
        for file in self.folder.glob("vectors-*"):
            with suppress(FileNotFoundError):
                if file.name not in used and backend.is_abandoned(file.stat().st_mtime):
                    file.unlink()


class TableVectors(VectorBackend):
    """Vectors that are in the ledger itself, however the nearest ones are found."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def put(self, space: Space, windows: Sequence[tuple[int, Matrix]]) -> bool:
        with self.database.writing() as connection:
            spaces = SqliteSpaces(connection)
            if spaces.location(space):
                return False
            spaces.put(space, windows)
            return True

    def read(self, space: Space, rows: Sequence[tuple[int, Stored]]) -> list[tuple[int, bytes]]:
        return [(key, vector) for key, vector in rows if isinstance(vector, bytes)]


class ScanBackend(TableVectors):
    """Finds vectors by a scan of a snapshot in memory."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.snapshots = Snapshots(database.path.parent)

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
        base = self.snapshots.get(space)
        allowed = _RowFilter(connection, among)
        if base is None or not len(base.ids):
            return _nearest_since(connection, space, 0, query, allowed, limit)
        keep = allowed.keep(base.chunks, base.notes)
        if not _has_changed(connection, space, base):
            return _nearest_in_snapshot(base, query, keep, limit)
        dead = _dead_rows(connection, space, base)
        if len(dead):
            keep = np.ones(len(base.ids), dtype=bool) if keep is None else keep
            keep[dead] = False
        older = _nearest_in_snapshot(base, query, keep, limit)
        newer = _nearest_since(connection, space, base.last_id, query, allowed, limit)
        return sorted([*older, *newer], key=backend.match_order)[:limit]

    def compact(self, space: Space, *, even_if_little_changed: bool) -> None:
        with self.database.reading() as connection:
            if not (even_if_little_changed or is_scattered(connection, self.snapshots, space)):
                return
            written = write_snapshot(connection, self.snapshots.folder, space)
        with self.database.writing() as connection:
            adopted = adopt_snapshot(connection, space, written)
            used = {other.snapshot for other in SqliteSpaces(connection).all() if other.snapshot}
        self.snapshots.delete(written.instead_of if adopted else written.name)
        self.snapshots.sweep(used)

    def drop(self, space: Space) -> None:
        self.snapshots.delete(space.snapshot)


def _nearest_in_snapshot(
    base: Snapshot, query: Array, keep: Array | None, limit: int
) -> list[Match]:
    """Return the best chunks of a snapshot."""
    scores, rows = base.scores(query, limit, keep)
    found = _best(scores, base.chunks, rows, limit)
    if len(found) < limit and limit < len(base.ids):  # many windows belong to the same few chunks
        scores, rows = base.scores(query, len(base.ids), keep)
        found = _best(scores, base.chunks, rows, limit)
    return found


def _has_changed(connection: apsw.Connection, space: Space, base: Snapshot) -> bool:
    """Whether rows were added or deleted since a snapshot was written."""
    found = connection.execute(
        """
        SELECT 1 FROM vectors INDEXED BY vectors_by_space WHERE space_id = ?1 AND id > ?2
        UNION ALL SELECT 1 FROM dead_vectors WHERE space_id = ?1 LIMIT 1
        """,
        (space.id, base.last_id),
    ).get
    return found is not None


def cosines(rows: Sequence[tuple[int, bytes]], space: Space, query: Array) -> dict[int, float]:
    """Return the cosine of each chunk that has a vector: that of its best window."""
    scores = np.vecdot(_stack([vector for _, vector in rows], space.dimensions), query)
    chunk_ids = [chunk_id for chunk_id, _ in rows]
    return backend.best_scores(zip(chunk_ids, scores.tolist(), strict=True))


def first_vectors(rows: Sequence[tuple[int, bytes]]) -> dict[int, Array]:
    """Return the vector of each chunk's first window."""
    found: dict[int, Array] = {}
    for chunk_id, vector in rows:
        found.setdefault(chunk_id, np.frombuffer(vector, dtype="<f4"))
    return found


def _best(scores: Array, chunks: Array, rows: Array | None, limit: int) -> list[Match]:
    """Return the `limit` best chunks; the best window of a chunk counts.

    The scores belong to the `rows` of `chunks`; None means all rows.
    """
    chunks, wanted = chunks if rows is None else chunks[rows], limit
    while True:
        wanted, of, found = 2 * wanted + 16, chunks, scores
        if len(scores) > max(wanted, _SORTED):
            # All rows as good as the last one wanted: among equals the older chunk comes first.
            top = np.flatnonzero(scores >= np.partition(scores, -wanted)[-wanted])
            of, found = chunks[top], scores[top]
        order = np.lexsort((of, -found))
        best: dict[int, float] = {}
        for chunk, score in zip(of[order].tolist(), found[order].tolist(), strict=True):
            best.setdefault(chunk, score)
            if len(best) == limit:
                break
        if len(best) == limit or len(found) == len(scores):
            return [Match(chunk, score) for chunk, score in best.items()]


def _nearest_since(
    connection: apsw.Connection,
    space: Space,
    after: int,
    query: Array,
    allowed: _RowFilter,
    limit: int,
) -> list[Match]:
    """Return the best chunks among the rows that were added after the snapshot."""
    rows = [*_rows(connection, space, after)]
    if not rows:
        return []
    chunks = np.array([row[1] for row in rows], dtype=np.int64)
    scores = np.vecdot(_stack([row[3] for row in rows], space.dimensions), query)
    keep = allowed.keep(chunks, np.array([row[2] for row in rows], dtype=np.int64))
    if keep is None:
        return _best(scores, chunks, None, limit)
    return _best(scores[keep], chunks[keep], None, limit)


def _rows(connection: apsw.Connection, space: Space, after: int = 0) -> Iterator[Row]:
    rows = connection.execute(
        """
        SELECT v.id, v.chunk_id, c.note_id, v.vector
        FROM vectors v INDEXED BY vectors_by_space CROSS JOIN chunks c ON c.id = v.chunk_id
        WHERE v.space_id = ? AND v.id > ? AND v.vector != x'' ORDER BY v.id
        """,
        (space.id, after),
    )
    return iter(rows)


def _stack(vectors: Sequence[bytes], dimensions: int) -> Array:
    return np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, dimensions)


def _dead_rows(connection: apsw.Connection, space: Space, base: Snapshot) -> Array:
    """Return the rows of a snapshot whose vectors were deleted since."""
    ids = np.array(SqliteSpaces(connection).dead(space), dtype=np.int64)
    at = np.searchsorted(base.ids, ids)
    at = at[at < len(base.ids)]
    return at[np.isin(base.ids[at], ids)]


class _RowFilter:
    """The rows that a query allows."""

    def __init__(self, connection: apsw.Connection, among: Allowed) -> None:
        self._among = among
        self._notes: Array | None = None
        condition, values = filter_sql(among.filters)
        if condition:
            rows = connection.execute(f"SELECT n.id FROM notes n WHERE 1 {condition}", values)
            self._notes = np.array([key for (key,) in rows], dtype=np.int64)

    def keep(self, chunks: Array, notes: Array) -> Array | None:
        """Return a mask of the allowed rows; None means all of them."""
        masks = []
        if self._notes is not None:
            masks.append(_members(notes, self._notes))
        if self._among.chunks is not None:
            masks.append(_members(chunks, np.array(self._among.chunks, dtype=np.int64)))
        if self._among.not_chunks:
            masks.append(~_members(chunks, np.array(self._among.not_chunks, dtype=np.int64)))
        return np.logical_and.reduce(masks) if masks else None


def _members(values: Array, of: Array) -> Array:
    """Return a mask of the values that are in a set of ids (small, from 1)."""
    if not len(values) or not len(of):
        return np.zeros(len(values), dtype=bool)
    table = np.zeros(int(max(values.max(), of.max())) + 1, dtype=bool)
    table[of] = True
    mask: Array = table[values]
    return mask


# -- snapshots -------------------------------------------------------------------------------------


def is_scattered(connection: apsw.Connection, snapshots: Snapshots, space: Space) -> bool:
    """Whether so much changed since the last snapshot that a new one is worth its cost."""
    base = snapshots.get(space)
    if base is None and space.snapshot:  # damaged, or of an older format
        return True
    added = connection.execute(
        "SELECT count(*) FROM vectors INDEXED BY vectors_by_space WHERE space_id = ? AND id > ?",
        (space.id, base.last_id if base else 0),
    ).get
    deleted = len(SqliteSpaces(connection).dead(space))
    return backend.is_stale(added + deleted, len(base.ids) if base else 0)


@dataclass(frozen=True, slots=True)
class WrittenSnapshot:
    """A snapshot that was written, and the one it replaces."""

    name: str
    instead_of: str | None
    without: Sequence[int]
    """Deleted vectors that it does not contain."""


def write_snapshot(connection: apsw.Connection, folder: Path, space: Space) -> WrittenSnapshot:
    """Write all vectors of a space to a new file beside the index."""
    count = connection.execute(
        "SELECT count(*) FROM vectors WHERE space_id = ? AND vector != x''", (space.id,)
    ).get
    dead = SqliteSpaces(connection).dead(space)
    name = f"vectors-{space.id}-{secrets.token_hex(8)}.bin"
    axes = None
    if count > snapshot.FEW:
        axes = snapshot.principal_axes(_sample(connection, space, -(-count // _SAMPLE)))
    snapshot.write(folder / name, _rows(connection, space), int(count), space.dimensions, axes)
    return WrittenSnapshot(name, space.snapshot, dead)


def _sample(connection: apsw.Connection, space: Space, step: int) -> Array:
    """Return one in `step` vectors of a space: similar notes often have ids side by side."""
    rows = connection.execute(
        """
        SELECT vector FROM vectors INDEXED BY vectors_by_space
        WHERE space_id = ? AND id % ? = 0 AND vector != x''
        """,
        (space.id, step),
    )
    return _stack([vector for (vector,) in rows], space.dimensions)


def adopt_snapshot(connection: apsw.Connection, space: Space, written: WrittenSnapshot) -> bool:
    """Let searches use a snapshot; return False if another process replaced the old one first."""
    connection.execute(
        "UPDATE spaces SET snapshot = ? WHERE id = ? AND snapshot IS ?",
        (written.name, space.id, written.instead_of),
    )
    if not connection.changes():
        return False
    SqliteSpaces(connection).clear_dead(written.without)
    return True
