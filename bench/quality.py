"""How good the answers are, and what the shortcut over common words costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from bench import data
from bench.measure import temporary_home
from bench.results import Row, at_least, near_zero
from memwell.evaluate.dataset import Dataset
from memwell.evaluation import evaluate_memory
from memwell.ingest.read import Recipe
from memwell.store import keyword

_ALL_SELECT = 10**12
_ALLOWED = 0.005


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
    product = _evaluate(dataset)
    with _select_rows(_ALL_SELECT):
        plain = _evaluate(dataset)
    with _select_rows(0):
        forced = _evaluate(dataset)
    detail = {"product": product, "plain": plain, "forced": forced}
    name, allowed = goal.dataset, near_zero(_ALLOWED)
    yield Row(f"{name}, {goal.metric}", product[goal.metric], "", at_least(goal.least), detail)
    yield Row(
        "  ndcg@10 less that of a plain OR", product["ndcg@10"] - plain["ndcg@10"], "", allowed
    )
    yield Row("  the same, shortcut forced", forced["ndcg@10"] - plain["ndcg@10"], "", allowed)


def _evaluate(dataset: Dataset) -> Mapping[str, float]:
    return evaluate_memory(dataset, Recipe()).overall


@contextmanager
def _select_rows(rows: int) -> Iterator[None]:
    """Let the rarest words with up to `rows` postings select (or a share of them, if greater)."""
    before = keyword._SELECT_ROWS
    keyword._SELECT_ROWS = rows
    try:
        yield
    finally:
        keyword._SELECT_ROWS = before
