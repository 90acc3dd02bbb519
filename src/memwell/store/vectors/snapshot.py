"""A compact copy of a space's vectors in a file that is mapped into memory and scanned.

If there are many vectors, they are rotated so that their principal axes come first: the first third
of the numbers then describes most of a vector. A first pass over that third keeps the rows that may
be among the nearest, and only those are compared in full. The cosines are exact, and only a small
part of the file is read. How much the other two thirds can change a cosine depends on the vectors;
it is measured when the file is written. If the vectors have no structure, all are compared. A file
never changes; scan.py adds the rows that were added since, and leaves out those that were deleted.

A search compares by `np.vecdot`, on its own thread. For `@` NumPy's library would wake threads that
spin for 20 ms after each query.

    header    one line of JSON, padded
    ids       int64   n        rows of the table `vectors`, ascending
    chunks    int64   n
    notes     int64   n
    axes      float32 d x d    principal axes, the longest first; none where there are few rows
    lead      float32 n x d/3  the vectors along the first axes; all of them where there are few
    rest      float32 n x ...  along the others
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from memwell.store.contract.values import Array

Row: TypeAlias = tuple[int, int, int, bytes]
"""Id, chunk, note, vector."""

FEW = 4_096
"""Up to so many vectors all are compared in full: that takes a tenth of a millisecond."""
_MAGIC = "memwell vectors 2"
_HEADER = 4096
_BLOCK = 16_384
_DEPTHS = (10, 100)
_FOUND = 0.999
"""The share of the nearest rows that the first pass must keep."""
_ASKED, _AMONG = 128, 40_000
_MARGIN = 1.25
"""A query is further from its answers than a passage is from its neighbours."""
_COLUMNS = 16
"""Columns for each row wanted."""
_WORTHWHILE = 0.2
"""Picking more than this share of the rows is slower than reading all of them."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a space up to an id."""

    ids: Array
    chunks: Array
    notes: Array
    axes: Array
    lead: Array
    rest: Array
    slack: float = 0.0
    """How far one of the nearest may be behind after the first pass, if the other two thirds of
    the query have the length 1."""

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""
        return int(self.lead.shape[1] + self.rest.shape[1])

    @property
    def last_id(self) -> int:
        """The id of the newest row."""
        return int(self.ids[-1]) if len(self.ids) else 0

    def scores(self, query: Array, wanted: int, keep: Array | None) -> tuple[Array, Array | None]:
        """Return cosines and the rows they belong to; None means all rows, in order.

        The `wanted` nearest of the rows in `keep` are among them.
        """
        turned = np.vecdot(self.axes, query) if len(self.axes) else query
        head, tail = turned[: self.lead.shape[1]], turned[self.lead.shape[1] :]
        rows = None if keep is None else np.flatnonzero(keep)
        if rows is None:
            first = np.vecdot(self.lead, head)
        elif len(rows) < _WORTHWHILE * len(self.ids):
            first = np.vecdot(self.lead[rows], head)
        else:
            first = np.vecdot(self.lead, head)[rows]
        if not len(tail):
            return first, rows
        if 0 < wanted < _WORTHWHILE * len(first):
            near = _near(first, wanted, self.slack * float(tail @ tail) ** 0.5)
            if len(near) < _WORTHWHILE * len(first):
                first, rows = first[near], near if rows is None else rows[near]
        rest = self.rest if rows is None else self.rest.take(rows, axis=0)
        return first + np.vecdot(rest, tail), rows

    def measure_slack(self) -> float:
        """Measure how far the nearest fall behind, by searching the neighbours of some rows."""
        if not self.rest.size:
            return 0.0
        count = min(_AMONG, len(self.ids))
        asked = np.random.default_rng(count).choice(count, min(_ASKED, count), replace=False)
        first = self.lead[asked] @ self.lead[:count].T
        whole = first + self.rest[asked] @ self.rest[:count].T
        lengths = np.linalg.norm(self.rest[asked], axis=1, keepdims=True) + 1e-6
        slack = 0.0
        for last in (max(0, count - depth) for depth in _DEPTHS):
            nearest = np.argpartition(whole, last)[:, last:]
            reach = np.partition(first, last)[:, last, None]
            behind = (reach - np.take_along_axis(first, nearest, axis=1)) / lengths
            slack = max(slack, float(np.quantile(behind, _FOUND)))
        return _MARGIN * slack


def _near(first: Array, wanted: int, slack: float) -> Array:
    """Return the rows whose first pass is at most `slack` behind the last one wanted.

    The rows are dealt to columns like cards, and the last one wanted is looked for among the best
    of each column. Sorting those is fast. If two good rows share a column, the result only has a
    few rows more.
    """
    columns = min(_COLUMNS * wanted, len(first))
    best = first[: len(first) // columns * columns].reshape(-1, columns).max(axis=0)
    best.partition(columns - wanted)
    near: Array = (first >= best[columns - wanted] - slack).nonzero()[0]
    return near


def principal_axes(sample: Array) -> Array:
    """Return the principal axes of vectors, the longest first."""
    axes: Array = np.linalg.eigh(sample.T @ sample).eigenvectors.T[::-1]
    return axes


def write(
    file: Path, rows: Iterable[Row], count: int, dimensions: int, axes: Array | None = None
) -> None:
    """Write the rows, in the order of their ids, whole or not at all; rotate them to `axes`."""
    leading = dimensions if axes is None else dimensions // 3
    header = {"format": _MAGIC, "rows": count, "dimensions": dimensions, "leading": leading}
    unfinished = file.with_suffix(".unfinished")
    handle = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
    try:
        with os.fdopen(handle, "r+b") as out:
            out.truncate(_size(count, dimensions, leading))
            into = _mapped(unfinished, count, dimensions, leading, "r+")
            _fill(into, rows, axes)
            header["slack"] = into.measure_slack()
            out.write(json.dumps(header).encode().ljust(_HEADER))
            out.flush()
            os.fsync(out.fileno())  # the index must not outlive what it refers to
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def _fill(into: Snapshot, rows: Iterable[Row], axes: Array | None) -> None:
    if axes is not None:
        into.axes[:] = axes
    remaining, start, leading = iter(rows), 0, into.lead.shape[1]
    while block := [*islice(remaining, _BLOCK)]:
        span = slice(start, start + len(block))
        into.ids[span], into.chunks[span], into.notes[span] = np.array(
            [row[:3] for row in block], dtype=np.int64
        ).T
        vectors = np.frombuffer(b"".join(row[3] for row in block), "<f4")
        vectors = vectors.reshape(-1, into.dimensions)
        turned = vectors if axes is None else vectors @ into.axes.T
        into.lead[span], into.rest[span] = turned[:, :leading], turned[:, leading:]
        start += len(block)


def load(file: Path) -> Snapshot | None:
    """Map a file into memory; return None if it is missing or damaged."""
    try:
        with open(file, "rb") as handle:
            header = json.loads(handle.read(_HEADER))
        shape = int(header["rows"]), int(header["dimensions"]), int(header["leading"])
        if header["format"] != _MAGIC or file.stat().st_size != _size(*shape):
            return None
        return replace(_mapped(file, *shape, "r"), slack=float(header["slack"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _layout(count: int, dimensions: int, leading: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the type and the shape of each array, in the order of the file."""
    turned = dimensions if leading < dimensions else 0
    return {
        "ids": ("<i8", (count,)),
        "chunks": ("<i8", (count,)),
        "notes": ("<i8", (count,)),
        "axes": ("<f4", (turned, dimensions)),
        "lead": ("<f4", (count, leading)),
        "rest": ("<f4", (count, dimensions - leading)),
    }


def _bytes(kind: str, shape: tuple[int, ...]) -> int:
    return prod(shape) * np.dtype(kind).itemsize


def _size(*shape: int) -> int:
    return _HEADER + sum(_bytes(*array) for array in _layout(*shape).values())


def _mapped(file: Path, count: int, dimensions: int, leading: int, mode: Any) -> Snapshot:
    whole = np.memmap(file, dtype=np.uint8, mode=mode)
    arrays: dict[str, Any] = {}
    at = _HEADER
    for name, (kind, shape) in _layout(count, dimensions, leading).items():
        end = at + _bytes(kind, shape)
        arrays[name] = np.asarray(whole[at:end].view(kind).reshape(shape))
        at = end
    return Snapshot(**arrays)
