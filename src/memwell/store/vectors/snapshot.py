"""A compact copy of a space's vectors in files that are mapped into memory and scanned.

Each file is a segment: the rows between two ids, as the whole numbers of quantisation.py. It never
changes. New rows go into a further segment, and small segments are written anew as one; scan.py
adds the rows that are in no segment yet, and leaves out those that were deleted.

If a segment has many rows, it also has the numbers along its principal axes, a quarter as many as
there are dimensions: they describe most of a vector. A first pass over them keeps the rows that may
be among the nearest, and only those are compared in full, so that a small part of the file is read.
How much the other axes can change a cosine depends on the vectors; it is measured when the segment
is written. If the vectors have no structure, all are compared.

A search compares by `np.vecdot`, on its own thread. For `@` NumPy's library would wake threads that
spin for 20 ms after each query.

    header    one line of JSON, padded
    ids       int64   n        rows of the table `vectors`, ascending
    chunks    int64   n
    notes     int64   n
    lengths   float32 n        of the numbers of a row
    axes      float32 a x d    the longest principal axes; none where there are few rows
    steps     float32 a        a lead of 1 along each axis
    lead      int8    n x a    the vectors along the axes
    numbers   int8    n x d
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

from memwell.store.contract import quantisation

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array

Row: TypeAlias = tuple[int, int, int, bytes]
"""Id, chunk, note, stored vector."""

FEW = 4_096
"""Up to so many vectors all are compared in full: that takes a quarter of a millisecond."""
_MAGIC = "memwell vectors 3"
_HEADER = 4096
_BLOCK = 16_384
_SCRATCH = 1 << 18
"""Numbers that are converted to float32 at a time: they stay in the processor's cache."""
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
class Segment:
    """The rows of a space between two ids."""

    ids: Array
    chunks: Array
    notes: Array
    lengths: Array
    axes: Array
    steps: Array
    lead: Array
    numbers: Array
    slack: float = 0.0
    """How far one of the nearest may be behind after the first pass, if what the axes leave of the
    query has the length 1."""

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""
        return int(self.numbers.shape[1])

    @property
    def last_id(self) -> int:
        """The id of the newest row."""
        return int(self.ids[-1]) if len(self.ids) else 0

    def scores(self, query: Array, wanted: int, keep: Array | None) -> tuple[Array, Array | None]:
        """Return cosines and the rows they belong to; None means all rows, in order.

        The `wanted` nearest of the rows in `keep` are among them. The query is spread.
        """
        rows = self._candidates(query, wanted, keep) if len(self.axes) else None
        if rows is None and keep is not None:
            rows = np.flatnonzero(keep)
        lengths = self.lengths if rows is None else self.lengths[rows]
        return _products(self.numbers, query, rows) / lengths, rows

    def _candidates(self, query: Array, wanted: int, keep: Array | None) -> Array | None:
        """Return the allowed rows that a first pass keeps; None if they are too many."""
        head = np.vecdot(self.axes, query)
        missing = float(max(query @ query - head @ head, 0.0)) ** 0.5
        rows = None
        if keep is not None and np.count_nonzero(keep) < _WORTHWHILE * len(keep):
            rows = np.flatnonzero(keep)
        first = _products(self.lead, head * self.steps, rows)
        if rows is None and keep is not None:
            first[~keep] = -np.inf
        if not 0 < wanted < _WORTHWHILE * len(first):
            return None
        near = _near(first, wanted, self.slack * missing)
        if len(near) >= _WORTHWHILE * len(first):
            return None
        return near if rows is None else rows[near]

    def measure_slack(self) -> float:
        """Measure how far the nearest fall behind, by searching the neighbours of some rows."""
        if not len(self.axes):
            return 0.0
        count = min(_AMONG, len(self.ids))
        asked = np.random.default_rng(count).choice(count, min(_ASKED, count), replace=False)
        vectors = quantisation.normalise(self.numbers[:count])
        queries = vectors[asked]
        heads = queries @ self.axes.T
        first = (heads * self.steps) @ self.lead[:count].T.astype(np.float32)
        whole = queries @ vectors.T
        missing = np.sqrt(np.maximum(1 - np.vecdot(heads, heads), 0))[:, None] + 1e-6
        slack = 0.0
        for last in (max(0, count - depth) for depth in _DEPTHS):
            nearest = np.argpartition(whole, last)[:, last:]
            reach = np.partition(first, last)[:, last, None]
            behind = (reach - np.take_along_axis(first, nearest, axis=1)) / missing
            slack = max(slack, float(np.quantile(behind, _FOUND)))
        return _MARGIN * slack


def _products(numbers: Array, query: Array, rows: Array | None) -> Array:
    """Return the product of each row of numbers, or of some, with a query."""
    count, block = len(numbers if rows is None else rows), _SCRATCH // numbers.shape[1] + 1
    products = np.empty(count, np.float32)
    scratch = np.empty((min(block, count), numbers.shape[1]), np.float32)
    for start in range(0, count, block):
        span = slice(start, min(start + block, count))
        floats = scratch[: span.stop - start]
        floats[:] = numbers[span] if rows is None else numbers.take(rows[span], axis=0)
        np.vecdot(floats, query, out=products[span])
    return products


def _near(first: Array, wanted: int, slack: float) -> Array:
    """Return the rows whose first pass is at most `slack` behind the last one wanted.

    The rows are dealt to columns like cards, and the last one wanted is looked for among the best
    of each column. Sorting those is fast. If two good rows share a column, the result only has a
    few rows more.
    """
    columns = min(_COLUMNS * wanted, len(first))
    best = first[: len(first) // columns * columns].reshape(-1, columns).max(axis=0)
    best.partition(columns - wanted)
    least = max(best[columns - wanted] - slack, np.finfo(np.float32).min)
    near: Array = (first >= least).nonzero()[0]
    return near


def write(
    file: Path, rows: Iterable[Row], count: int, dimensions: int, sample: Matrix | None = None
) -> None:
    """Write the rows, in the order of their ids, whole or not at all.

    The principal axes are those of a sample of spread vectors; without one, there are none.
    """
    leading = 0 if sample is None else dimensions // 4
    header = {"format": _MAGIC, "rows": count, "dimensions": dimensions, "leading": leading}
    unfinished = file.with_suffix(".unfinished")
    handle = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
    try:
        with os.fdopen(handle, "r+b") as out:
            out.truncate(_size(count, dimensions, leading))
            into = _mapped(unfinished, count, dimensions, leading, "r+")
            if sample is not None:
                into.axes[:] = _principal_axes(sample)[:leading]
                into.steps[:] = np.abs(sample @ into.axes.T).max(axis=0) / 127 + 1e-9
            _fill(into, rows)
            header["slack"] = into.measure_slack()
            out.write(json.dumps(header).encode().ljust(_HEADER))
            out.flush()
            os.fsync(out.fileno())  # the index must not outlive what it refers to
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def _principal_axes(sample: Matrix) -> Matrix:
    """Return the principal axes of vectors, the longest first."""
    axes: Matrix = np.linalg.eigh(sample.T @ sample).eigenvectors.T[::-1]
    return axes


def _fill(into: Segment, rows: Iterable[Row]) -> None:
    remaining, start = iter(rows), 0
    while block := [*islice(remaining, _BLOCK)]:
        span = slice(start, start + len(block))
        into.ids[span], into.chunks[span], into.notes[span] = np.array(
            [row[:3] for row in block], dtype=np.int64
        ).T
        into.numbers[span] = quantisation.to_numbers([row[3] for row in block], into.dimensions)
        into.lengths[span] = quantisation.lengths(into.numbers[span].astype(np.float32))
        if len(into.axes):
            along = quantisation.normalise(into.numbers[span]) @ into.axes.T
            into.lead[span] = np.rint(along / into.steps).clip(-127, 127)
        start += len(block)


def load(file: Path) -> Segment | None:
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
    return {
        "ids": ("<i8", (count,)),
        "chunks": ("<i8", (count,)),
        "notes": ("<i8", (count,)),
        "lengths": ("<f4", (count,)),
        "axes": ("<f4", (leading, dimensions)),
        "steps": ("<f4", (leading,)),
        "lead": ("i1", (count, leading)),
        "numbers": ("i1", (count, dimensions)),
    }


def _bytes(kind: str, shape: tuple[int, ...]) -> int:
    return prod(shape) * np.dtype(kind).itemsize


def _size(*shape: int) -> int:
    return _HEADER + sum(_bytes(*array) for array in _layout(*shape).values())


def _mapped(file: Path, count: int, dimensions: int, leading: int, mode: Any) -> Segment:
    whole = np.memmap(file, dtype=np.uint8, mode=mode)
    arrays: dict[str, Any] = {}
    at = _HEADER
    for name, (kind, shape) in _layout(count, dimensions, leading).items():
        end = at + _bytes(kind, shape)
        arrays[name] = np.asarray(whole[at:end].view(kind).reshape(shape))
        at = end
    return Segment(**arrays)
