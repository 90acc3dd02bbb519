"""The memory in two dimensions: what means the same lies together. Pure functions.

1. The two longest principal axes give each vector its first place, the same each time.
2. In a hundred small steps each point is drawn to its nearest neighbours, by their vectors, and
   away from points drawn by lot, always the same ones: the crowd comes apart into regions.
3. Points that lie close together are a region, named after a note near its middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from memwell.store.browse import MapPoint

Array = npt.NDArray[Any]

MOST_POINTS = 5000
"""Points of a map; more would neither be told apart nor come in time."""

_NEIGHBOURS = 8
_RANDOM_OTHERS = 4
_STEPS = 100
_BLOCK = 1000
"""Rows whose cosines are looked at together: all at once would take a lot of memory."""
_ROUNDS = 10
_MOST_REGIONS = 12


@dataclass(frozen=True, slots=True)
class Region:
    """Passages that lie together: what they are named after, and where their middle is."""

    name: str
    x: float
    y: float
    passages: tuple[MapPoint, ...]
    positions: Array
    """Where each of them lies, between 0 and 1."""


@lru_cache(maxsize=2)
def find_regions(spots: tuple[MapPoint, ...], vectors: bytes) -> tuple[Region, ...]:
    """Return the map of passages whose vectors (of length 1) follow one another in `vectors`.

    The largest region comes first.
    """
    if not spots:
        return ()
    points = layout(np.frombuffer(vectors, dtype="<f4").reshape(len(spots), -1))
    of, centres = _cluster(points)
    found: list[Region] = []
    for number in np.unique(of):
        mine = np.flatnonzero(of == number)
        mine = mine[_distances(points[mine], centres[number, None])[:, 0].argsort()]
        inside = tuple(spots[at] for at in mine)
        taken = {region.name for region in found}
        name = next((spot.title for spot in inside if spot.title not in taken), inside[0].title)
        x, y = centres[number].tolist()
        found.append(Region(name, x, y, inside, points[mine]))
    return tuple(sorted(found, key=lambda region: -len(region.passages)))


def layout(vectors: Array) -> Array:
    """Return a place for each vector, between 0 and 1, the same for the same vectors."""
    points = _principal_positions(vectors)
    if len(vectors) > _NEIGHBOURS:
        points = _pull_and_push(points, _nearest_neighbours(vectors))
    low, high = points.min(axis=0), points.max(axis=0)
    between: Array = (points - low) / np.where(high > low, high - low, 1.0)
    return between


def _principal_positions(vectors: Array) -> Array:
    """Return the vectors along their two longest axes."""
    centred = vectors - vectors.mean(axis=0)
    axes = np.random.default_rng(0).standard_normal((vectors.shape[1], 2), dtype=np.float32)
    for _ in range(_ROUNDS):  # the power method: wide vectors need no whole matrix of axes
        axes, _ = np.linalg.qr(centred.T @ (centred @ axes))
    places: Array = centred @ axes
    furthest = places[np.abs(places).argmax(axis=0), (0, 1)]
    return places * np.where(furthest < 0, -1.0, 1.0)


def _nearest_neighbours(vectors: Array) -> Array:
    """Return the nearest neighbours of each vector, by cosine."""
    found = np.empty((len(vectors), _NEIGHBOURS), dtype=np.int64)
    for start in range(0, len(vectors), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ vectors.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -2.0
        for place in range(_NEIGHBOURS):  # quicker than sorting, being few
            best = cosines.argmax(axis=1)
            found[start + rows, place] = best
            cosines[rows, best] = -2.0
    return found


def _pull_and_push(points: Array, nearest: Array) -> Array:
    """Draw points to their neighbours and away from strangers."""
    lots = np.random.default_rng(0)
    at = (points[:, 0] + 1j * points[:, 1]).astype(np.complex64)
    at /= at.std() or 1.0
    for step in range(_STEPS):
        to_near = at[nearest] - at[:, None]
        from_far = at[:, None] - at[lots.integers(len(at), size=(len(at), _RANDOM_OTHERS))]
        apart = _squared_length(from_far)
        pull = to_near / (1 + _squared_length(to_near))
        push = from_far / ((0.1 + apart) * (1 + apart))
        at = at + (pull.mean(axis=1) + push.mean(axis=1)) * np.float32(1 - step / _STEPS)
    return np.column_stack([at.real, at.imag])


def _squared_length(numbers: Array) -> Array:
    squared: Array = numbers.real**2 + numbers.imag**2
    return squared


def _cluster(points: Array) -> tuple[Array, Array]:
    """Return the region of each point and the middle of each region (k-means)."""
    count = min(_MOST_REGIONS, round(len(points) ** 0.5 / 2) or 1, len(points))
    centres = points[:1]
    while len(centres) < count:  # begin far apart
        centres = np.vstack([centres, points[_distances(points, centres).min(axis=1).argmax()]])
    for _ in range(_ROUNDS):
        of = _distances(points, centres).argmin(axis=1)
        centres = np.array(
            [
                points[of == one].mean(axis=0) if (of == one).any() else centres[one]
                for one in range(count)
            ]
        )
    return of, centres


def _distances(points: Array, centres: Array) -> Array:
    squared: Array = ((points[:, None] - centres) ** 2).sum(axis=2)
    return squared
