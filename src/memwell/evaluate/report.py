"""Run the questions of a dataset through a search and average the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

from memwell.evaluate import metrics
from memwell.evaluate.dataset import Dataset, Question

Ranking = list[tuple[str, float]]
Search = Callable[[Question, int], Ranking]
"""Returns the documents for a question, each with its score, best first."""
Metric = Callable[[Sequence[str], Mapping[str, float]], float]
Scores = Mapping[str, Mapping[str, float]]
"""For each metric, its value for each question (for each note in `NOTES_PASSING`)."""

FIRST = 10
"""The default number of documents that count."""
DEPTH = 100
NOTES_PASSING = "notes-passing"


def metrics_at(k: int) -> dict[str, Metric]:
    """Return every metric of a question over the first `k` documents found, by its name."""
    return {
        f"hit@{k}": partial(metrics.found_any, k=k),
        f"recall@{k}": partial(metrics.recall, k=k),
        f"all@{k}": partial(metrics.found_all, k=k),
        f"mrr@{k}": partial(metrics.reciprocal_rank, k=k),
        f"ndcg@{k}": partial(metrics.ndcg, k=k),
    }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The averages over all questions and by category, and the rankings they come from."""

    name: str
    questions: int
    documents: int
    overall: Mapping[str, float]
    by_category: Mapping[str, Mapping[str, float]]
    rankings: Mapping[str, Ranking]
    scores: Scores = field(default_factory=dict)
    k: int = FIRST

    @property
    def rows(self) -> list[tuple[str, Mapping[str, float]]]:
        """The figures as rows of a table: all questions, then each category."""
        return [("all", self.overall), *self.by_category.items()]

    def run_lines(self) -> Iterator[str]:
        """Yield the rankings as ``query<TAB>document<TAB>rank<TAB>score``."""
        for question, ranking in self.rankings.items():
            for rank, (document, score) in enumerate(ranking, 1):
                yield f"{question}\t{document}\t{rank}\t{score:.6f}"


@dataclass(frozen=True, slots=True)
class Miss:
    """A question that did not find all its documents: those missing and those found."""

    question: Question
    expected: tuple[str, ...]
    missing: tuple[str, ...]
    found: tuple[tuple[str, float], ...]
    """The first `k`, each with its score."""
    failed: bool
    """Whether none of its documents was found."""


def evaluate(
    dataset: Dataset,
    search: Search,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    k: int = FIRST,
    depth: int = DEPTH,
    by_note: bool = False,
) -> Evaluation:
    """Search for `depth` documents for every question and measure the first `k`.

    `by_note` also measures how many notes pass: documents are notes with several questions.
    """
    rankings: dict[str, Ranking] = {}
    for done, question in enumerate(dataset.questions, 1):
        rankings[question.id] = search(question, max(depth, k))
        progress(done, len(dataset.questions))
    scores = _scores(dataset, dataset.questions, rankings, k, by_note)
    return Evaluation(
        name=dataset.name,
        questions=len(dataset.questions),
        documents=len(dataset.documents),
        overall=_means(scores),
        by_category={
            name: _means(_scores(dataset, questions, rankings, k, by_note))
            for name, questions in _by_category(dataset.questions).items()
        },
        rankings=rankings,
        scores=scores,
        k=k,
    )


def misses(dataset: Dataset, evaluation: Evaluation) -> tuple[Miss, ...]:
    """Return the questions that did not find all their documents, complete failures first."""
    found = [
        _miss(question, dataset.relevant[question.id], evaluation) for question in dataset.questions
    ]
    return tuple(sorted((miss for miss in found if miss.missing), key=lambda miss: not miss.failed))


def _miss(question: Question, grades: Mapping[str, float], evaluation: Evaluation) -> Miss:
    found = tuple(evaluation.rankings[question.id][: evaluation.k])
    names = {document for document, _ in found}
    missing = tuple(document for document in grades if document not in names)
    return Miss(question, tuple(grades), missing, found, failed=len(missing) == len(grades))


def _by_category(questions: Sequence[Question]) -> dict[str, list[Question]]:
    categories: dict[str, list[Question]] = {}
    for question in questions:
        if question.category:
            categories.setdefault(question.category, []).append(question)
    return dict(sorted(categories.items()))


def _scores(
    dataset: Dataset,
    questions: Sequence[Question],
    rankings: Mapping[str, Ranking],
    k: int,
    by_note: bool,
) -> Scores:
    names = {
        question.id: [document for document, _ in rankings[question.id]] for question in questions
    }
    scores = {
        name: {key: metric(names[key], dataset.relevant[key]) for key in names}
        for name, metric in metrics_at(k).items()
    }
    if by_note:
        scores[NOTES_PASSING] = metrics.notes_passing(
            (note, note in names[key][:k]) for key in names for note in dataset.relevant[key]
        )
    return scores


def _means(scores: Scores) -> dict[str, float]:
    return {name: fmean(values.values()) for name, values in scores.items()}
