"""How good the answers are, and what the shortcut over common words costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from bench import data
from bench.measure import temporary_home
from bench.results import Row, at_least, near_zero
from memwell import config
from memwell.evaluate.dataset import Dataset
from memwell.evaluate.runner import evaluate_memory
from memwell.search.fuse import WORDS
from memwell.store.words import ranking
from memwell.store.words.query import Clause

_ALL_SELECT = 10**12
"""Postings that no index has: with so many allowed, every word selects."""
_ALLOWED = 0.005
_TAKEN = "shortcut taken"


@dataclass(frozen=True, slots=True)
class _Goal:
    """What a set should reach."""

    dataset: str
    metric: str
    least: float


_GOALS = (
    _Goal("scifact", "ndcg@10", 0.68),
    _Goal("locomo-turn-a", "recall@10", 0.58),
    _Goal("rgb-zh", "ndcg@10", 0.50),
    _Goal("jsquad-ja", "ndcg@10", 0.93),
    _Goal("cosqa-code", "ndcg@10", 0.37),
)


def run() -> list[Row]:
    """Evaluate each set as it is, without the shortcut, and with the shortcut forced."""
    datasets = [(goal, data.labelled_set(goal.dataset)) for goal in _GOALS]
    with temporary_home():
        return [row for goal, dataset in datasets for row in _rows(goal, dataset)]


def _rows(goal: _Goal, dataset: Dataset) -> Iterator[Row]:
    product = _evaluate(dataset, ranking._SELECT_ROWS)
    plain = _evaluate(dataset, _ALL_SELECT)
    forced = _evaluate(dataset, 0)
    detail = {"product": product, "plain": plain, "forced": forced}
    allowed = near_zero(_ALLOWED)
    yield Row(
        f"{goal.dataset}, {goal.metric}", product[goal.metric], "", at_least(goal.least), detail
    )
    yield Row("  ndcg@10 less plain OR's", product["ndcg@10"] - plain["ndcg@10"], "", allowed)
    yield Row("  questions that took the shortcut", product[_TAKEN], "share")
    yield Row(
        "  ndcg@10 less plain OR's, forced", forced["ndcg@10"] - plain["ndcg@10"], "", allowed
    )
    yield Row("  questions that took it, forced", forced[_TAKEN], "share")


def _evaluate(dataset: Dataset, select_rows: int) -> Mapping[str, float]:
    """Return the metrics, and the share of questions that took the shortcut."""
    with patch.object(ranking, "_SELECT_ROWS", select_rows), _shortcuts_taken() as taken:
        overall = evaluate_memory(dataset, config.load(None), WORDS, Path()).overall
    return {**overall, _TAKEN: len(taken) / len(dataset.questions)}


@contextmanager
def _shortcuts_taken() -> Iterator[list[int]]:
    """Lend a list that grows by one with each search that lets some words only score."""
    taken: list[int] = []
    judge = ranking._is_exact_enough

    def judged(found: dict[int, float], scoring: Sequence[Clause], total: int) -> bool:
        verdict = judge(found, scoring, total)
        if verdict:
            taken.append(len(scoring))
        return verdict

    with patch.object(ranking, "_is_exact_enough", judged):
        yield taken
