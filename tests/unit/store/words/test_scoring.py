"""The keyword score, computed by hand."""

from __future__ import annotations

import math

import pytest

from memwell.store.words.query import Clause
from memwell.store.words.scoring import K1, PAIR, B, Occurrences, scored_query
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term

CAT, DOG, BOTH = Term(("cat",), text="cat"), Term(("dog",), text="dog"), Term(("cat", "dog"))


def clause(condition: Condition, frequency: int, key: str = "x", count: int = 1) -> Clause:
    return Clause(condition, frequency, key, count)


def test_the_score_by_hand() -> None:
    scored = scored_query([clause(CAT, 1, count=2), clause(DOG, 4)], [], 0, total=10)
    cat, dog = 2 * math.log(1 + 9.5 / 1.5), math.log(1 + 6.5 / 4.5)
    assert scored.ideal == pytest.approx(cat + dog)
    norm = K1 * (1 - B + B * 50 / 100)
    chunk = Occurrences(50, [3.0, 0.0])
    assert scored.score(chunk, 100) == pytest.approx(cat * 3 * (K1 + 1) / (3 + norm))
    assert scored.covered(chunk) == pytest.approx(cat / (cat + dog))


def test_a_chunk_of_average_length_with_every_word_once_has_the_ideal_score() -> None:
    scored = scored_query([clause(CAT, 1), clause(DOG, 4)], [], 0, total=10)
    chunk = Occurrences(80, [1.0, 1.0])
    assert scored.score(chunk, 80) == pytest.approx(scored.ideal)
    assert scored.covered(chunk) == pytest.approx(1.0)


def test_words_side_by_side_count_more() -> None:
    cat, dog = clause(CAT, 1, "cat"), clause(DOG, 4, "dog")
    scored = scored_query([cat, dog], [(cat, dog)], 0, total=10)
    assert scored.terms == (CAT, DOG, BOTH)
    apart, together = [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]
    bonus = scored.score(Occurrences(80, together), 80) - scored.score(Occurrences(80, apart), 80)
    assert bonus == pytest.approx(PAIR * math.log(1 + 6.5 / 4.5))


def test_a_word_that_no_chunk_holds_lowers_what_is_covered() -> None:
    known = scored_query([clause(CAT, 1)], [], 0, total=10)
    unknown = scored_query([clause(CAT, 1)], [], 1, total=10)
    chunk = Occurrences(80, [1.0])
    assert known.covered(chunk) == pytest.approx(1.0)
    assert unknown.covered(chunk) < 0.5
    assert unknown.score(chunk, 80) == known.score(chunk, 80)


@pytest.mark.parametrize(
    ("condition", "counted"),
    [
        (AnyOf((CAT, DOG)), True),
        (AllOf((CAT, DOG)), False),
        (AndNot(CAT, DOG), True),
        (AndNot(DOG, CAT), False),
    ],
)
def test_a_condition_counts_if_it_is_met(condition: Condition, counted: bool) -> None:
    scored = scored_query([clause(condition, 1)], [], 0, total=10)
    counts = [float(term == CAT) for term in scored.terms]
    assert bool(scored.score(Occurrences(80, counts), 80)) is counted
