"""The meaning leg: the chunks of a space that are nearest to a query, by cosine.

A space is a snapshot (a file, scanned fast), the rows that came since, and without the rows that
went. Filters act before ranking, so that k come back when k exist.
"""

from __future__ import annotations

import secrets
import threading
import time
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
from memwell.store.vectors import snapshot
from memwell.store.vectors.backend import Allowed, Stored, sort_matches
from memwell.store.vectors.snapshot import Row, Snapshot

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array

_LEFT_SECONDS = 3600
_STALE_ROWS = 500
_STALE_SHARE = 0.02
"""Rows since the last snapshot from which on a new one is worth its while."""
_SAMPLE = 10_000
"""Vectors that the principal axes are taken from."""
_SORTED = 500
"""Scores up to which sorting all is quicker than looking for the best first."""


class Snapshots:
    """The snapshot files beside an index, each mapped once a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mapped: dict[str, Snapshot] = {}
        self._lock = threading.Lock()

    def of(self, space: Space) -> Snapshot | None:
        """Return the snapshot of a space, if it has one that is whole."""
        if space.snapshot is None:
            return None
        with self._lock:
            found = self._mapped.get(space.snapshot)
            if found is None:
                found = snapshot.load(self.folder / space.snapshot)
                if found is None or found.dimensions != space.dimensions:
                    return None
                self._mapped[space.snapshot] = found
            return found

    def delete(self, name: str | None) -> None:
        """Delete a file that no space uses any more."""
        if name:
            with self._lock:
                self._mapped.pop(name, None)
            (self.folder / name).unlink(missing_ok=True)

    def sweep(self, used: set[str]) -> None:
        """Delete what processes that were killed left behind; a young file may be in the making."""
        for file in self.folder.glob("vectors-*"):
            with suppress(FileNotFoundError):
                if file.name not in used and file.stat().st_mtime < time.time() - _LEFT_SECONDS:
                    file.unlink()


class TableVectors:
    """Vectors whose numbers are in the table itself, however the nearest are found."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def put(self, space: Space, windows: Sequence[tuple[int, Matrix]]) -> bool:
        """Store the vectors of chunks; False if the space is kept elsewhere by now."""
        with self.database.writing() as connection:
            spaces = SqliteSpaces(connection)
            if spaces.set_location(space):
                return False
            spaces.put(space, windows)
            return True

    def read(self, space: Space, rows: Sequence[tuple[int, Stored]]) -> list[tuple[int, bytes]]:
        """Return the rows as they are: the numbers are in them."""
        return [(key, vector) for key, vector in rows if isinstance(vector, bytes)]


class ScanBackend(TableVectors):
    """Vectors that are found by a scan of a snapshot in memory."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.snapshots = Snapshots(database.path.parent)

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
        """Return the chunks nearest to a query, best first; each is as near as its best window."""
        base = self.snapshots.of(space)
        allowed = _RowFilter(connection, among)
        if base is None or not len(base.ids):
            return _recent(connection, space, 0, query, allowed, limit)
        keep = allowed.keep(base.chunks, base.notes)
        if not _anything_since(connection, space, base):
            return _older(base, query, keep, limit)
        dead = _dead_rows(connection, space, base)
        if len(dead):
            keep = np.ones(len(base.ids), dtype=bool) if keep is None else keep
            keep[dead] = False
        older = _older(base, query, keep, limit)
        newer = _recent(connection, space, base.last_id, query, allowed, limit)
        return sorted([*older, *newer], key=sort_matches)[:limit]

    def compact(self, space: Space, *, even_if_little_changed: bool) -> None:
        """Write a new snapshot of a space where enough has changed since the last one."""
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
        """Delete the snapshot of a space."""
        self.snapshots.delete(space.snapshot)


def _older(base: Snapshot, query: Array, keep: Array | None, limit: int) -> list[Match]:
    """Return the best chunks of a snapshot."""
    scores, rows = base.scores(query, limit, keep)
    found = _best(scores, base.chunks, rows, limit)
    if len(found) < limit and limit < len(base.ids):  # many windows are of the same few chunks
        scores, rows = base.scores(query, len(base.ids), keep)
        found = _best(scores, base.chunks, rows, limit)
    return found


def _anything_since(connection: apsw.Connection, space: Space, base: Snapshot) -> bool:
    """Whether rows came or went since a snapshot was written."""
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
    scores = _stack([vector for _, vector in rows], space.dimensions) @ query
    best: dict[int, float] = {}
    for (chunk_id, _), score in zip(rows, scores.tolist(), strict=True):
        best[chunk_id] = max(score, best.get(chunk_id, -1.0))
    return best


def first_vectors(rows: Sequence[tuple[int, bytes]]) -> dict[int, Array]:
    """Return the vector of each chunk's first window."""
    found: dict[int, Array] = {}
    for chunk_id, vector in rows:
        found.setdefault(chunk_id, np.frombuffer(vector, dtype="<f4"))
    return found


def _best(scores: Array, chunks: Array, rows: Array | None, limit: int) -> list[Match]:
    """Return the `limit` best chunks; of a chunk's windows only the best counts.

    The scores are those of the `rows` of `chunks`, None being all.
    """
    chunks, wanted = chunks if rows is None else chunks[rows], limit
    while True:
        wanted, of, found = 2 * wanted + 16, chunks, scores
        if len(scores) > max(wanted, _SORTED):
            # All that are as good as the last one wanted: of equals the older chunk comes first.
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


def _recent(
    connection: apsw.Connection,
    space: Space,
    after: int,
    query: Array,
    allowed: _RowFilter,
    limit: int,
) -> list[Match]:
    """Return the best chunks of the rows that came after the snapshot."""
    rows = [*_rows(connection, space, after)]
    if not rows:
        return []
    chunks = np.array([row[1] for row in rows], dtype=np.int64)
    scores = _stack([row[3] for row in rows], space.dimensions) @ query
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
    gone = connection.execute("SELECT id FROM dead_vectors WHERE space_id = ?", (space.id,))
    ids = np.array([key for (key,) in gone], dtype=np.int64)
    at = np.searchsorted(base.ids, ids)
    at = at[at < len(base.ids)]
    return at[np.isin(base.ids[at], ids)]


class _RowFilter:
    """Which rows a query may look at."""

    def __init__(self, connection: apsw.Connection, among: Allowed) -> None:
        self._among = among
        self._notes: Array | None = None
        condition, values = filter_sql(among.filters)
        if condition:
            rows = connection.execute(f"SELECT n.id FROM notes n WHERE 1 {condition}", values)
            self._notes = np.array([key for (key,) in rows], dtype=np.int64)

    def keep(self, chunks: Array, notes: Array) -> Array | None:
        """Return which of some rows are allowed; None is all of them."""
        masks = []
        if self._notes is not None:
            masks.append(_members(notes, self._notes))
        if self._among.chunks is not None:
            masks.append(_members(chunks, np.array(self._among.chunks, dtype=np.int64)))
        if self._among.not_chunks:
            masks.append(~_members(chunks, np.array(self._among.not_chunks, dtype=np.int64)))
        return np.logical_and.reduce(masks) if masks else None


def _members(values: Array, of: Array) -> Array:
    """Return which of the values are members of a set, all being ids (small, from 1)."""
    if not len(values) or not len(of):
        return np.zeros(len(values), dtype=bool)
    table = np.zeros(int(max(values.max(), of.max())) + 1, dtype=bool)
    table[of] = True
    found: Array = table[values]
    return found


# -- snapshots -------------------------------------------------------------------------------------


def is_scattered(connection: apsw.Connection, snapshots: Snapshots, space: Space) -> bool:
    """Whether so much changed since the last snapshot that a new one is worth its while."""
    base = snapshots.of(space)
    if base is None and space.snapshot:  # damaged, or of an older format
        return True
    came = connection.execute(
        "SELECT count(*) FROM vectors INDEXED BY vectors_by_space WHERE space_id = ? AND id > ?",
        (space.id, base.last_id if base else 0),
    ).get
    went = connection.execute(
        "SELECT count(*) FROM dead_vectors WHERE space_id = ?", (space.id,)
    ).get
    return bool(came + went > max(_STALE_ROWS, _STALE_SHARE * (len(base.ids) if base else 0)))


@dataclass(frozen=True, slots=True)
class WrittenSnapshot:
    """A snapshot that was written, and what it was written from."""

    name: str
    instead_of: str | None
    without: tuple[int, ...]
    """Dead vectors that it does not hold."""


def write_snapshot(connection: apsw.Connection, folder: Path, space: Space) -> WrittenSnapshot:
    """Write all vectors of a space to a new file beside the index."""
    query = connection.execute
    count = query(
        "SELECT count(*) FROM vectors WHERE space_id = ? AND vector != x''", (space.id,)
    ).get
    dead = query("SELECT id FROM dead_vectors WHERE space_id = ?", (space.id,)).fetchall()
    name = f"vectors-{space.id}-{secrets.token_hex(8)}.bin"
    axes = None
    if count > snapshot.FEW:
        axes = snapshot.principal_axes(_sample(connection, space, -(-count // _SAMPLE)))
    snapshot.write(folder / name, _rows(connection, space), int(count), space.dimensions, axes)
    return WrittenSnapshot(name, space.snapshot, tuple(key for (key,) in dead))  # type: ignore[misc]


def _sample(connection: apsw.Connection, space: Space, step: int) -> Array:
    """Return one in `step` vectors of a space: notes that say like things came together."""
    rows = connection.execute(
        """
        SELECT vector FROM vectors INDEXED BY vectors_by_space
        WHERE space_id = ? AND id % ? = 0 AND vector != x''
        """,
        (space.id, step),
    )
    return _stack([vector for (vector,) in rows], space.dimensions)


def adopt_snapshot(connection: apsw.Connection, space: Space, written: WrittenSnapshot) -> bool:
    """Let searches use a snapshot, unless another process's came first."""
    connection.execute(
        "UPDATE spaces SET snapshot = ? WHERE id = ? AND snapshot IS ?",
        (written.name, space.id, written.instead_of),
    )
    if not connection.changes():
        return False
    connection.executemany(
        "DELETE FROM dead_vectors WHERE id = ?", ((key,) for key in written.without)
    )
    return True
