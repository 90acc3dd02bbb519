"""Metrics of a ranking, given the grades of the documents that answer the query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence


def ndcg(ranking: Sequence[str], grades: Mapping[str, float], k: int = 10) -> float:
    """Return the discounted gain, the sum of grade / log2(rank + 1), relative to the ideal one."""
    ideal = sorted(grades.values(), reverse=True)[:k]
    return _gain([grades.get(document, 0.0) for document in ranking[:k]]) / _gain(ideal)


def _gain(grades: Sequence[float]) -> float:
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def recall(ranking: Sequence[str], grades: Mapping[str, float], k: int = 10) -> float:
    """Return the share of the relevant documents that are among the first `k`."""
    return sum(document in grades for document in ranking[:k]) / len(grades)


def found_all(ranking: Sequence[str], grades: Mapping[str, float], k: int = 10) -> float:
    """Return 1 if every relevant document is among the first `k`, else 0."""
    return float(set(grades) <= set(ranking[:k]))


def found_any(ranking: Sequence[str], grades: Mapping[str, float], k: int = 10) -> float:
    """Return 1 if any relevant document is among the first `k`, else 0."""
    return float(any(document in grades for document in ranking[:k]))


def reciprocal_rank(ranking: Sequence[str], grades: Mapping[str, float], k: int = 10) -> float:
    """1 over the rank of the first relevant document, 0 if it is not among the first `k`."""
    return next((1 / rank for rank, found in enumerate(ranking[:k], 1) if found in grades), 0.0)


PASSING = (3, 5)
"""Of how many queries for a note how many must find it: three in five."""


def notes_passing(answers: Iterable[tuple[str, bool]]) -> dict[str, float]:
    """1 for each note that enough of its queries find, else 0; an answer is (note, found)."""
    asked: dict[str, list[bool]] = {}
    for note, found in answers:
        asked.setdefault(note, []).append(found)
    least, of = PASSING
    return {note: float(sum(found) * of >= len(found) * least) for note, found in asked.items()}
