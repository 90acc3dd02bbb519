"""Vectors as whole numbers: how near they stay, and that nothing changes a second time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell.store.contract.quantisation import (
    pack,
    quantise,
    restore,
    round_vectors,
    spread,
    unpack,
)

Vectors = npt.NDArray[np.float32]


def unit(seed: int, count: int, dimensions: int) -> Vectors:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 400))
def test_to_round_twice_is_to_round_once(seed: int, count: int, dimensions: int) -> None:
    vectors = unit(seed, count, dimensions)
    numbers = quantise(vectors)
    np.testing.assert_array_equal(quantise(restore(numbers)), numbers)
    np.testing.assert_array_equal(round_vectors(restore(numbers)), restore(numbers))


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 4000), st.integers(1, 100))
def test_half_precision_keeps_the_numbers(
    seed: int, count: int, dimensions: int, times: int
) -> None:
    """PostgreSQL stores vectors so; some dimensions can be many times as large as the others."""
    vectors = unit(seed, count, dimensions)
    vectors[:, ::7] *= times
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    numbers = quantise(vectors)
    stored = restore(numbers).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(quantise(stored), numbers)


def test_a_row_does_not_depend_on_those_beside_it() -> None:
    vectors = unit(1, 50, 384)
    whole = restore(quantise(vectors))
    for number in range(50):
        alone = restore(quantise(vectors[number : number + 1]))[0]
        np.testing.assert_array_equal(alone, whole[number])


def test_to_spread_keeps_products_and_is_its_own_inverse() -> None:
    vectors = unit(2, 20, 384)
    np.testing.assert_allclose(spread(spread(vectors)), vectors, atol=1e-6)
    np.testing.assert_allclose(spread(vectors) @ spread(vectors).T, vectors @ vectors.T, atol=1e-6)


def test_a_vector_with_a_few_great_dimensions_stays_near() -> None:
    """Divided by its greatest number alone, it would have few levels for all others."""
    vectors = unit(3, 100, 384)
    vectors[:, :3] *= 20
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    error = np.linalg.norm(round_vectors(vectors) - vectors, axis=1)
    assert error.max() < 0.012
    plain = np.rint(vectors * (127 / np.abs(vectors).max(axis=1, keepdims=True)))
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    assert np.median(np.linalg.norm(plain - vectors, axis=1)) > 3 * np.median(error)


@pytest.mark.parametrize("dimensions", [2, 3, 7, 384])
@pytest.mark.parametrize("windows", [0, 1, 3, 4, 8])
def test_packed_windows_are_read_and_so_is_float32(dimensions: int, windows: int) -> None:
    vectors = round_vectors(unit(4, windows, dimensions)) if windows else unit(4, 0, dimensions)
    packed = pack(vectors)
    assert len(packed) == 1 + windows * dimensions
    np.testing.assert_array_equal(unpack(packed, dimensions), vectors)
    np.testing.assert_array_equal(unpack(vectors.tobytes(), dimensions), vectors)
