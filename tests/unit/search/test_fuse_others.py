"""The normalisers of weighted fusion, by hand."""

from __future__ import annotations

import math

import pytest

from memwell.search.fuse_others import (
    min_max,
    over_maximum,
    reciprocal_position,
    saturation,
    sigmoid,
)


def test_sigmoid_has_its_midpoint_at_two_and_takes_either_sign() -> None:
    assert sigmoid(8.5) == sigmoid(-8.5)
    assert sigmoid(-2) == 1 / (1 + math.exp(0))
    assert sigmoid(-8.5) == pytest.approx(1 / (1 + math.exp(2 - 8.5)))
    assert sigmoid(-3.2) == pytest.approx(1 / (1 + math.exp(2 - 3.2)))
    assert sigmoid(-0.5) == pytest.approx(1 / (1 + math.exp(2 - 0.5)))


def test_sigmoid_separates_strong_from_weak_scores() -> None:
    assert sigmoid(-6) > sigmoid(-2)
    assert sigmoid(-6) > 0.9
    assert sigmoid(-0.5) < 0.3


@pytest.mark.parametrize("rank", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_score_0(rank: float) -> None:
    assert sigmoid(rank) == 0
    assert saturation(rank) == 0


def test_saturation_is_r_over_one_plus_r() -> None:
    assert saturation(1) == 1 / (1 + 1)
    assert saturation(8.5) == 8.5 / (1 + 8.5)
    assert saturation(0.5) == 0.5 / (1 + 0.5)
    assert saturation(0) == 0
    assert saturation(-3) == 0
    assert saturation(1e300) <= 1


def test_the_better_score_always_comes_out_higher() -> None:
    scores = [8.5, 3.2, 0.5, 1e-6]
    for function in (sigmoid, saturation):
        assert [function(score) for score in scores] == sorted(map(function, scores), reverse=True)


def test_min_max_spreads_the_results_over_zero_to_one() -> None:
    assert min_max([9, 5, 1]) == [(9 - 1) / (9 - 1), (5 - 1) / (9 - 1), 0]
    assert min_max([4.2]) == [1]
    assert min_max([2, 2]) == [1, 1]
    assert min_max([]) == []


def test_reciprocal_position_counts_from_zero() -> None:
    assert [reciprocal_position(position) for position in (0, 1, 2, 23)] == [
        1,
        1 / 2,
        1 / 3,
        1 / 24,
    ]


def test_over_maximum_divides_by_the_greatest() -> None:
    assert over_maximum([8.0, 4.0, 1.0]) == [1, 4 / 8, 1 / 8]
    assert over_maximum([0.0, 0.0]) == [0, 0]
    assert over_maximum([]) == []
