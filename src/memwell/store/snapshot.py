"""A compact copy of a space's vectors in a file that is mapped into memory and scanned.

The scan is flat, and exact where it is short. Otherwise a first pass over one bit a dimension
(is it above the mean?) keeps the few per cent of the vectors whose bits differ least from the
query's, and only those are compared in full. How many per cent depends on how the vectors lie, and
is measured; of vectors without any structure all are compared. What is in a file never changes;
rows that came or went since it was written are the reader's to add or take away (vectors.py).

    header    one line of JSON, padded
    ids       int64   n        rows of the table `vectors`, ascending
    chunks    int64   n
    notes     int64   n
    mean      float32 d
    planes    uint64  d/64 x n bits, 64 dimensions a plane
    vectors   float32 n x d
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Row: TypeAlias = tuple[int, int, int, bytes]
"""Id, chunk, note, vector."""

_MAGIC = "memwell vectors 1"
_HEADER = 4096
_BLOCK = 16_384
_ALL = 32_768
"""Vectors up to which all are compared in full: about a millisecond."""
_DEPTHS = (10, 100)
_FOUND = 0.995
"""Of the nearest, the share that the first pass is to keep; how many vectors that takes is
measured when the file is written, for the ten and for the hundred nearest."""
_ASKED, _AMONG = 64, 40_000
_MARGIN = 3.0
"""A question lies further from its answers than a passage from its neighbours."""
_WORTHWHILE = 0.25
"""Comparing more than this share one by one takes longer than comparing all in one go."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a space up to an id."""

    ids: Array
    chunks: Array
    notes: Array
    mean: Array
    planes: Array
    vectors: Array
    shares: tuple[float, ...] = (1.0, 1.0)
    """Of all vectors, what the first pass must keep to find each of `_DEPTHS`."""

    @property
    def last_id(self) -> int:
        """The newest row in it."""
        return int(self.ids[-1]) if len(self.ids) else 0

    def scores(self, query: Array, wanted: int, keep: Array | None) -> tuple[Array, Array | None]:
        """Return cosines, the `wanted` nearest of the rows to keep among them, and of which rows.

        No rows means all of them, in order.
        """
        count = len(self.ids) if keep is None else int(keep.sum())
        share = next((s for d, s in zip(_DEPTHS, self.shares, strict=True) if wanted <= d), 1.0)
        if count > _ALL and share < _WORTHWHILE:
            rows = self._likely(query, int(share * count), keep)
        elif keep is None:
            return self.vectors @ query, None
        else:
            rows = np.flatnonzero(keep)
            if count > len(keep) // 2:
                return (self.vectors @ query)[rows], rows
        return self.vectors[rows] @ query, rows

    def _likely(self, query: Array, enough: int, keep: Array | None) -> Array:
        """Return about `enough` rows, those whose bits differ least from the query's."""
        differing = self._differing(query, len(self.ids))
        if keep is not None:
            differing[~keep] = np.iinfo(np.uint16).max
        upto = np.searchsorted(np.cumsum(np.bincount(differing)), enough)
        return np.flatnonzero(differing <= upto)

    def _differing(self, query: Array, count: int) -> Array:
        """Return in how many bits each of the first `count` rows differs from a query."""
        bits = _planes(query[None, :] - self.mean)[:, 0]
        differing = np.zeros(count, dtype=np.uint16)
        for start in range(0, count, _BLOCK):
            block = differing[start : start + _BLOCK]
            for plane, part in zip(self.planes, bits, strict=True):
                block += np.bitwise_count(plane[start : start + len(block)] ^ part)
        return differing

    def measured_shares(self) -> tuple[float, ...]:
        """Find out what the first pass must keep, by asking for the neighbours of some rows."""
        count = min(_AMONG, len(self.ids))
        if count <= _ALL:
            return self.shares
        chance = np.random.default_rng(count)
        ranks: list[list[Array]] = [[] for _ in _DEPTHS]
        for row in chance.choice(count, _ASKED, replace=False):
            query = self.vectors[row]
            nearest = np.argsort(-(self.vectors[:count] @ query))[1 : max(_DEPTHS) + 1]
            differing = self._differing(query, count)
            up_to = np.cumsum(np.bincount(differing))[differing[nearest]]
            for found, depth in zip(ranks, _DEPTHS, strict=True):
                found.append(up_to[:depth])
        kept = (float(np.quantile(np.concatenate(found), _FOUND)) for found in ranks)
        return tuple(min(1.0, _MARGIN * rank / count) for rank in kept)


def _planes(centred: Array) -> Array:
    """Return a bit for each dimension, 64 to a number: row i is dimensions 64 i to 64 i + 63."""
    padding = -centred.shape[1] % 64
    signs = np.pad(centred > 0, ((0, 0), (0, padding)))
    return np.ascontiguousarray(np.packbits(signs, axis=1).view(np.uint64).T)


def write(file: Path, rows: Iterable[Row], count: int, dimensions: int) -> None:
    """Write the rows, which come in the order of their ids, whole or not at all."""
    unfinished = file.with_suffix(".unfinished")
    handle = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
    try:
        with os.fdopen(handle, "r+b") as out:
            out.truncate(_layout(count, dimensions)["end"])
            into = _mapped(unfinished, count, dimensions, "r+")
            _fill(into, rows)
            header = {"format": _MAGIC, "rows": count, "dimensions": dimensions,
                      "shares": into.measured_shares()}  # fmt: skip
            out.write(json.dumps(header).encode().ljust(_HEADER))
            out.flush()
            os.fsync(out.fileno())  # the index must not outlive what it refers to
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def _fill(into: Snapshot, rows: Iterable[Row]) -> None:
    remaining = iter(rows)
    first = [*islice(remaining, _BLOCK)]
    if first:
        into.mean[:] = _decoded(first, into.vectors.shape[1]).mean(axis=0)
    remaining, start = chain(first, remaining), 0
    while block := [*islice(remaining, _BLOCK)]:
        span = slice(start, start + len(block))
        into.ids[span], into.chunks[span], into.notes[span] = np.array(
            [row[:3] for row in block], dtype=np.int64
        ).T
        into.vectors[span] = vectors = _decoded(block, into.vectors.shape[1])
        into.planes[:, span] = _planes(vectors - into.mean)
        start += len(block)


def _decoded(rows: list[Row], dimensions: int) -> Array:
    return np.frombuffer(b"".join(row[3] for row in rows), dtype="<f4").reshape(-1, dimensions)


def load(file: Path) -> Snapshot | None:
    """Map a file into memory; None if it is not there, or not what it should be."""
    try:
        with open(file, "rb") as handle:
            header = json.loads(handle.read(_HEADER))
        count, dimensions = int(header["rows"]), int(header["dimensions"])
        whole = file.stat().st_size == _layout(count, dimensions)["end"]
        if header["format"] != _MAGIC or not whole:
            return None
        return replace(
            _mapped(file, count, dimensions, "r"), shares=tuple(map(float, header["shares"]))
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _layout(count: int, dimensions: int) -> dict[str, int]:
    """Return where each array begins, and where the file ends."""
    planes = -(-dimensions // 64)
    sizes = {"ids": 8 * count, "chunks": 8 * count, "notes": 8 * count,
             "planes": 8 * planes * count, "mean": 4 * dimensions,
             "vectors": 4 * dimensions * count}  # fmt: skip
    offsets, at = {}, _HEADER
    for name, size in sizes.items():
        offsets[name] = at
        at += size
    return offsets | {"end": at}


def _mapped(file: Path, count: int, dimensions: int, mode: Any) -> Snapshot:
    whole = np.memmap(file, dtype=np.uint8, mode=mode)
    at = _layout(count, dimensions)
    planes = -(-dimensions // 64)

    def array(name: str, kind: str, *shape: int) -> Array:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize
        part: Array = whole[at[name] : at[name] + size].view(kind).reshape(shape)
        return np.asarray(part)

    return Snapshot(
        ids=array("ids", "<i8", count),
        chunks=array("chunks", "<i8", count),
        notes=array("notes", "<i8", count),
        mean=array("mean", "<f4", dimensions),
        planes=array("planes", "<u8", planes, count),
        vectors=array("vectors", "<f4", count, dimensions),
    )
