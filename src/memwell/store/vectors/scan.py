"""Vector search by a scan: the chunks of a space that are nearest to a query, by cosine.

A search scans the segments of the space without the rows that were deleted since, and the rows that
are in no segment yet. Filters apply before ranking, so that k chunks are found if k exist.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import numpy as np

from memwell.store.contract import quantisation
from memwell.store.contract.quantisation import restore, spread, to_numbers
from memwell.store.contract.query import Match, best_scores, match_order
from memwell.store.contract.values import Space
from memwell.store.sqlite.database import Database
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.spaces import SqliteSpaces
from memwell.store.vectors import backend, snapshot
from memwell.store.vectors.backend import Allowed, Stored, VectorBackend
from memwell.store.vectors.snapshot import Row, Segment

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array

_SAMPLE = 10_000
"""Vectors that the principal axes are computed from."""
_FEW_NEW = 500
"""Rows without a segment that a search reads from the index: that takes less than a millisecond."""
_LARGER = 4
"""A segment of so many times the rows that follow it is not written anew with them."""
_SORTED = 500
"""Up to so many scores sorting all is faster than partitioning first."""


class Snapshots:
    """The snapshots beside an index: the segments of each space, mapped into memory.

    Another process may replace segments. So only the present ones are kept for a space: an old file
    would hold its descriptor, its memory and its disk space as long as this process lives.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mapped: dict[int, dict[str, Segment]] = {}
        self._lock = threading.Lock()

    def get(self, space: Space) -> Mapping[str, Segment]:
        """Return the segments of a space by name, oldest first; none if one of them is damaged."""
        with self._lock:
            known = self._mapped.get(space.id, {})
            if (*known,) == space.segments:
                return dict(known)
            found: dict[str, Segment] = {}
            for name in space.segments:
                segment = known.get(name) or snapshot.load(self.folder / name)
                if segment is None or segment.dimensions != space.dimensions:
                    return {}
                found[name] = segment
            self._mapped[space.id] = found
            return dict(found)

    def delete(self, names: Collection[str]) -> None:
        """Delete files that no space uses any more."""
        with self._lock:
            for known in self._mapped.values():
                for name in {*names} & {*known}:
                    del known[name]
        for name in names:
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
        keys, numbers = _split(rows, space)
        return [
            (key, vector.astype("<f4").tobytes())
            for key, vector in zip(keys, restore(numbers), strict=True)
        ]

    def cosines(
        self, space: Space, rows: Sequence[tuple[int, Stored]], query: Array
    ) -> dict[int, float]:
        keys, numbers = _split(rows, space)
        scores = quantisation.cosines(numbers, spread(query))
        return best_scores(zip(keys, scores.tolist(), strict=True))


def _split(rows: Sequence[tuple[int, Stored]], space: Space) -> tuple[list[int], Array]:
    """Return the keys of rows of the ledger, and the numbers of their vectors."""
    here = [(key, stored) for key, stored in rows if isinstance(stored, bytes)]
    keys, stored = [key for key, _ in here], [stored for _, stored in here]
    return keys, to_numbers(stored, space.dimensions)


class ScanBackend(TableVectors):
    """Finds vectors by a scan of a snapshot in memory."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.snapshots = Snapshots(database.path.parent)

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
        segments = self.snapshots.get(space)
        allowed, query = _RowFilter(connection, among), spread(query)
        after = _last_id(segments)
        has_changed = _has_changed(connection, space, after)
        dead = _dead_ids(connection, space) if has_changed and segments else None
        found: list[Match] = []
        for segment in segments.values():
            keep = _living(segment, allowed.keep(segment.chunks, segment.notes), dead)
            found += _nearest_in_segment(segment, query, keep, limit)
        if has_changed:
            found += _nearest_since(connection, space, after, query, allowed, limit)
        return sorted(found, key=match_order)[:limit]

    def has_unusable_copy(self, space: Space) -> bool:
        return bool(space.segments) and not self.snapshots.get(space)

    def compact(self, space: Space, *, even_if_little_changed: bool) -> None:
        with self.database.reading() as connection:
            kept: Mapping[str, Segment] | None = {}
            if not even_if_little_changed:
                kept = segments_to_keep(connection, space, self.snapshots.get(space))
            if kept is None:
                return
            written = write_segment(connection, self.snapshots.folder, space, kept)
        with self.database.writing() as connection:
            adopted = adopt_segment(connection, space, written)
            used = {name for other in SqliteSpaces(connection).all() for name in other.segments}
        before = {*space.segments} if adopted else {*written.names}
        self.snapshots.delete(before - used)
        self.snapshots.sweep(used)

    def drop(self, space: Space) -> None:
        self.snapshots.delete(space.segments)


def _nearest_in_segment(
    segment: Segment, query: Array, keep: Array | None, limit: int
) -> list[Match]:
    """Return the best chunks of a segment."""
    scores, rows = segment.scores(query, limit, keep)
    found = _best(scores, segment.chunks, rows, limit)
    if len(found) < limit and limit < len(segment.ids):  # many windows belong to a few chunks
        scores, rows = segment.scores(query, len(segment.ids), keep)
        found = _best(scores, segment.chunks, rows, limit)
    return found


def _has_changed(connection: apsw.Connection, space: Space, after: int) -> bool:
    """Whether rows were added after an id, or any was deleted that a segment may have."""
    found = connection.execute(
        """
        SELECT 1 FROM vectors INDEXED BY vectors_by_space WHERE space_id = ?1 AND id > ?2
        UNION ALL SELECT 1 FROM dead_vectors WHERE space_id = ?1 LIMIT 1
        """,
        (space.id, after),
    ).get
    return found is not None


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
    """Return the best chunks among the rows that are in no segment yet."""
    rows = [*_rows(connection, space, after)]
    if not rows:
        return []
    chunks = np.array([row[1] for row in rows], dtype=np.int64)
    numbers = to_numbers([row[3] for row in rows], space.dimensions)
    scores = quantisation.cosines(numbers, query)
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


def _dead_ids(connection: apsw.Connection, space: Space) -> Array:
    """Return the ids of rows that were deleted, and that a segment may have."""
    return np.array(SqliteSpaces(connection).dead(space), dtype=np.int64)


def _living(segment: Segment, keep: Array | None, dead: Array | None) -> Array | None:
    """Return a mask of the allowed rows of a segment that were not deleted since."""
    if dead is None or not len(segment.ids):
        return keep
    at = np.searchsorted(segment.ids, dead)
    at = at[at < len(segment.ids)]
    at = at[np.isin(segment.ids[at], dead)]
    if len(at):
        keep = np.ones(len(segment.ids), dtype=bool) if keep is None else keep
        keep[at] = False
    return keep


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


# -- segments --------------------------------------------------------------------------------------


def segments_to_keep(
    connection: apsw.Connection, space: Space, segments: Mapping[str, Segment]
) -> Mapping[str, Segment] | None:
    """Return the segments that stay when the rows after them are written; None: nothing is due.

    A segment is written anew with what follows it, unless it is many times as large. So there are
    few segments, and a row is written few times.
    """
    if space.segments and not segments:  # damaged, or of an earlier version
        return {}
    total = sum(len(segment.ids) for segment in segments.values())
    if backend.is_stale(len(SqliteSpaces(connection).dead(space)), total):
        return {}
    new = count_vectors(connection, space, _last_id(segments))
    if new <= _FEW_NEW:
        return None
    kept = dict(segments)
    for name, segment in reversed([*segments.items()]):
        if len(segment.ids) >= _LARGER * new:
            break
        new += len(kept.pop(name).ids)
    return kept


def _last_id(segments: Mapping[str, Segment]) -> int:
    """Return the id of the newest row of segments."""
    return max((segment.last_id for segment in segments.values()), default=0)


def count_vectors(connection: apsw.Connection, space: Space, after: int = 0) -> int:
    """Return how many rows of a space are newer than an id and have a vector."""
    found = connection.execute(
        """
        SELECT count(*) FROM vectors INDEXED BY vectors_by_space
        WHERE space_id = ? AND id > ? AND vector != x''
        """,
        (space.id, after),
    ).get
    return int(found or 0)


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A segment that was written, and the snapshot that it makes with those before it."""

    names: Sequence[str]
    """All segments of the new snapshot that this process wrote: none or one."""
    snapshot: str | None
    instead_of: str | None
    without: Sequence[int]
    """Deleted vectors that no segment contains any more."""


def write_segment(
    connection: apsw.Connection, folder: Path, space: Space, kept: Mapping[str, Segment]
) -> WrittenSegment:
    """Write the vectors of a space that are newer than the kept segments to a file."""
    after = _last_id(kept)
    count = count_vectors(connection, space, after)
    without = [key for key in SqliteSpaces(connection).dead(space) if key > after]
    written = (f"vectors-{space.id}-{secrets.token_hex(8)}.bin",) if count else ()
    for name in written:
        few = count <= snapshot.FEW
        sample = None if few else _sample(connection, space, after, -(-count // _SAMPLE))
        rows = _rows(connection, space, after)
        snapshot.write(folder / name, rows, count, space.dimensions, sample)
    names = " ".join((*kept, *written)) or None
    return WrittenSegment(written, names, space.snapshot, without)


def _sample(connection: apsw.Connection, space: Space, after: int, step: int) -> Matrix:
    """Return one in `step` vectors of a space: similar notes often have ids side by side."""
    rows = connection.execute(
        """
        SELECT vector FROM vectors INDEXED BY vectors_by_space
        WHERE space_id = ? AND id > ? AND id % ? = 0 AND vector != x''
        """,
        (space.id, after, step),
    )
    return quantisation.normalise(to_numbers([vector for (vector,) in rows], space.dimensions))


def adopt_segment(connection: apsw.Connection, space: Space, written: WrittenSegment) -> bool:
    """Let searches use a segment; return False if another process replaced the snapshot first."""
    connection.execute(
        "UPDATE spaces SET snapshot = ? WHERE id = ? AND snapshot IS ?",
        (written.snapshot, space.id, written.instead_of),
    )
    if not connection.changes():
        return False
    SqliteSpaces(connection).clear_dead(written.without)
    return True
