"""The memory in two dimensions: passages with a similar meaning are close together.

1. The first position of each vector is its projection on the two longest principal axes.
2. In a hundred small steps each point moves towards its nearest neighbours by cosine, and away from
   random points. The random numbers are the same each time, and so is the map.
3. Points that are close together are a region (k-means). region_names.py gives it a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from memwell.store.contract.values import MapPoint

Array = npt.NDArray[Any]

MOST_POINTS = 5000
"""Points of a map: more could not be told apart, and would take too long."""

_NEIGHBOURS = 8
_RANDOM_OTHERS = 4
_STEPS = 100
_BLOCK = 1000
"""Rows whose cosines are computed together: all at once would need too much memory."""
_ROUNDS = 10
_MOST_REGIONS = 12


@dataclass(frozen=True, slots=True)
class Region:
    """Passages that are close together: the centre, and where each of them is."""

    x: float
    y: float
    passages: tuple[MapPoint, ...]
    positions: Array
    """The position of each passage, between 0 and 1."""


@lru_cache(maxsize=2)
def find_regions(passages: tuple[MapPoint, ...], vectors: bytes) -> tuple[Region, ...]:
    """Return the regions of a map, the largest first; `vectors` are the passages' unit vectors."""
    if not passages:
        return ()
    positions = layout(np.frombuffer(vectors, dtype="<f4").reshape(len(passages), -1))
    labels, centres = _cluster(positions)
    regions: list[Region] = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        members = members[_distances(positions[members], centres[label, None])[:, 0].argsort()]
        inside = tuple(passages[number] for number in members)
        x, y = centres[label].tolist()
        regions.append(Region(x, y, inside, positions[members]))
    return tuple(sorted(regions, key=lambda region: -len(region.passages)))


def layout(vectors: Array) -> Array:
    """Return a position for each vector, between 0 and 1, the same for the same vectors."""
    positions = _principal_positions(vectors)
    if len(vectors) > _NEIGHBOURS:
        positions = _pull_and_push(positions, _nearest_neighbours(vectors))
    low, high = positions.min(axis=0), positions.max(axis=0)
    scaled: Array = (positions - low) / np.where(high > low, high - low, 1.0)
    return scaled


def _principal_positions(vectors: Array) -> Array:
    """Return the projection of the vectors on their two longest principal axes."""
    centred = vectors - vectors.mean(axis=0)
    axes = np.random.default_rng(0).standard_normal((vectors.shape[1], 2), dtype=np.float32)
    for _ in range(_ROUNDS):  # power iteration: a full decomposition of wide vectors is slower
        axes, _ = np.linalg.qr(centred.T @ (centred @ axes))
    positions: Array = centred @ axes
    furthest = positions[np.abs(positions).argmax(axis=0), (0, 1)]
    return positions * np.where(furthest < 0, -1.0, 1.0)


def _nearest_neighbours(vectors: Array) -> Array:
    """Return the numbers of the nearest neighbours of each vector, by cosine."""
    neighbours = np.empty((len(vectors), _NEIGHBOURS), dtype=np.int64)
    for start in range(0, len(vectors), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ vectors.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -2.0
        for rank in range(_NEIGHBOURS):  # faster than sorting for so few
            best = cosines.argmax(axis=1)
            neighbours[start + rows, rank] = best
            cosines[rows, best] = -2.0
    return neighbours


def _pull_and_push(positions: Array, neighbours: Array) -> Array:
    """Move points towards their neighbours and away from random points."""
    random = np.random.default_rng(0)
    points = (positions[:, 0] + 1j * positions[:, 1]).astype(np.complex64)
    points /= points.std() or 1.0
    for step in range(_STEPS):
        to_near = points[neighbours] - points[:, None]
        others = random.integers(len(points), size=(len(points), _RANDOM_OTHERS))
        from_far = points[:, None] - points[others]
        apart = _squared_length(from_far)
        pull = to_near / (1 + _squared_length(to_near))
        push = from_far / ((0.1 + apart) * (1 + apart))
        points = points + (pull.mean(axis=1) + push.mean(axis=1)) * np.float32(1 - step / _STEPS)
    return np.column_stack([points.real, points.imag])


def _squared_length(numbers: Array) -> Array:
    squared: Array = numbers.real**2 + numbers.imag**2
    return squared


def _cluster(positions: Array) -> tuple[Array, Array]:
    """Return the region of each point and the centre of each region (k-means)."""
    count = min(_MOST_REGIONS, round(len(positions) ** 0.5 / 2) or 1, len(positions))
    centres = positions[:1]
    while len(centres) < count:  # the first centres are far apart
        furthest = _distances(positions, centres).min(axis=1).argmax()
        centres = np.vstack([centres, positions[furthest]])
    for _ in range(_ROUNDS):
        labels = _distances(positions, centres).argmin(axis=1)
        groups = [positions[labels == label] for label in range(count)]
        centres = np.array(
            [
                group.mean(axis=0) if len(group) else centres[label]
                for label, group in enumerate(groups)
            ]
        )
    return labels, centres


def _distances(positions: Array, centres: Array) -> Array:
    squared: Array = ((positions[:, None] - centres) ** 2).sum(axis=2)
    return squared
