"""Whether both stores give the same answers: labelled sets, asked in files and on PostgreSQL.

With the default model, whose vectors are kept between runs.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.postgres import cluster

from bench import data
from bench.labelled import default_settings
from bench.measure import temporary_home
from bench.results import Row, at_least, near_zero
from bench.windows import CACHE
from memwell.evaluate.report import Evaluation, Ranking
from memwell.evaluate.runner import evaluate_memory
from memwell.store.factory import open_postgres

_SETS = ("anthropic-docs", "medline", "xquad-en", "locomo-turn-a")
_FIRST = 6


def run() -> list[Row]:
    """Ask every question of every set in both stores."""
    rows: list[Row] = []
    with temporary_home() as folder, cluster() as server:
        for name in _SETS:
            files, on = (_evaluated(name, folder, url) for url in ("", server.url()))
            same = [
                _shown(ranking) == _shown(on.rankings[question])
                for question, ranking in files.rankings.items()
            ]
            apart = on.overall["ndcg@10"] - files.overall["ndcg@10"]
            rows += [
                Row(f"{name}: the same first six", sum(same) / len(same), "share", at_least(0.95)),
                Row("  nDCG@10 on PostgreSQL, less that in files", apart, "", near_zero(0.01)),
                Row("  questions", len(same), ""),
            ]
    return rows


def _evaluated(name: str, folder: Path, url: str) -> Evaluation:
    index = open_postgres(url, name, folder, "main").index if url else None
    dataset, settings = data.labelled_set(name), default_settings()
    return evaluate_memory(dataset, settings, "hybrid", CACHE, index=index)


def _shown(ranking: Ranking) -> list[str]:
    return [document for document, _ in ranking[:_FIRST]]
