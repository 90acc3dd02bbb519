"""Run a labelled set through a search and average what the metrics say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from memwell.evaluate import metrics
from memwell.evaluate.dataset import Dataset, Question

Ranking = list[tuple[str, float]]
Search = Callable[[Question, int], Ranking]
"""The documents found for a question, each with its score, best first."""

METRICS: Mapping[str, Callable[[Sequence[str], Mapping[str, float]], float]] = {
    "ndcg@10": metrics.ndcg,
    "recall@10": metrics.recall,
    "all@10": metrics.found_all,
    "any@10": metrics.found_any,
    "mrr@10": metrics.reciprocal_rank,
}
DEPTH = 100


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The averages over all questions and by category, and the rankings they come from."""

    name: str
    questions: int
    documents: int
    overall: Mapping[str, float]
    by_category: Mapping[str, Mapping[str, float]]
    rankings: Mapping[str, Ranking]

    def run_lines(self) -> Iterator[str]:
        """Yield the rankings as ``query<TAB>document<TAB>rank<TAB>score``."""
        for question, ranking in self.rankings.items():
            for rank, (document, score) in enumerate(ranking, 1):
                yield f"{question}\t{document}\t{rank}\t{score:.6f}"


def evaluate(
    dataset: Dataset,
    search: Search,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Ask every question and measure the answers."""
    rankings: dict[str, Ranking] = {}
    figures: dict[str, dict[str, float]] = {}
    for done, question in enumerate(dataset.questions, 1):
        rankings[question.id] = search(question, DEPTH)
        names = [document for document, _ in rankings[question.id]]
        grades = dataset.relevant[question.id]
        figures[question.id] = {name: metric(names, grades) for name, metric in METRICS.items()}
        progress(done, len(dataset.questions))
    categories: dict[str, list[str]] = {}
    for question in dataset.questions:
        if question.category:
            categories.setdefault(question.category, []).append(question.id)
    return Evaluation(
        name=dataset.name,
        questions=len(dataset.questions),
        documents=len(dataset.documents),
        overall=_mean([*figures.values()]),
        by_category={
            name: _mean([figures[key] for key in keys]) for name, keys in sorted(categories.items())
        },
        rankings=rankings,
    )


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: fmean(row[name] for row in rows) for name in METRICS}
