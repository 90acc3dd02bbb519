"""How the constants of the fusion were chosen, and what they are worth on other sets.

Every question of every set is searched once. The table has nDCG@10 of keyword search alone, of
vector search alone, of plain sums, and of the fusion with its constants. "left out" chooses the
constants of the fusion on the other sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from bench import data
from bench.labelled import default_settings, indexed
from bench.results import Row, at_least
from memwell.evaluate.metrics import ndcg
from memwell.search.fuse import COVERED_ENOUGH, MEANING, WORDS, Evidence, Fusion, fuse
from memwell.search.options import search_options

WEIGHTS = (0.15, 0.18, 0.21, 0.24, 0.27, 0.3)
COVERED = (0.3, 0.4, 0.5)
PLAIN = (0.3, 0.4, 0.5)
"""Weights of keyword search in a plain sum."""
_ALL = 20
_LEAST_MEAN = 0.73


@dataclass(frozen=True, slots=True)
class _Question:
    """What both searches found for a question, and which documents answer it."""

    evidence: tuple[Evidence, ...]
    documents: Mapping[int, str]
    decay: Mapping[int, float]
    relevant: Mapping[str, float]

    def figure(self, scores: Mapping[int, float]) -> float:
        """Return nDCG@10 of the documents in the order of scores."""
        kept = {
            chunk: score * self.decay[chunk] if score > 0 else score
            for chunk, score in scores.items()
        }
        order = sorted(kept, key=lambda chunk: (-kept[chunk], chunk))
        return ndcg([*dict.fromkeys(self.documents[chunk] for chunk in order)], self.relevant)

    def fused(self, fusion: Fusion) -> float:
        """Return nDCG@10 of a fusion."""
        return self.figure(fuse(self.evidence, fusion).scores) if self.evidence else 0.0

    def alone(self, leg: str) -> float:
        """Return nDCG@10 of one search."""
        return self.weighted([(1.0 if evidence.leg == leg else 0.0) for evidence in self.evidence])

    def plain(self, words: float) -> float:
        """Return nDCG@10 of a sum with fixed weights."""
        return self.weighted(
            [words if evidence.leg == WORDS else 1 - words for evidence in self.evidence]
        )

    def weighted(self, weights: Sequence[float]) -> float:
        """Return nDCG@10 of a sum of the standardised scores."""
        if not any(weights):
            return 0.0
        parts = fuse(self.evidence, Fusion())
        return self.figure(
            {
                chunk: sum(
                    weight * part.evidence for weight, part in zip(weights, legs, strict=True)
                )
                for chunk, legs in parts.items()
            }
        )


def run() -> list[Row]:
    """Search every set once, then fuse in every way."""
    questions = {name: _search(name) for name in data.PUBLIC_SETS}

    def means(figure: Callable[[_Question], float]) -> dict[str, float]:
        return {name: fmean(map(figure, asked)) for name, asked in questions.items()}

    def fused(weight: float, covered: float) -> dict[str, float]:
        fusion = Fusion(words_weight=weight, covered_enough=covered)
        return means(lambda one: one.fused(fusion))

    def plain(words: float) -> dict[str, float]:
        return means(lambda one: one.plain(words))

    grid = {constants: fused(*constants) for constants in product(WEIGHTS, COVERED)}
    chosen = grid[(Fusion().words_weight, COVERED_ENOUGH)]
    ways = {
        "keyword search alone": means(lambda one: one.alone(WORDS)),
        "vector search alone": means(lambda one: one.alone(MEANING)),
        **{f"plain sum, words {words}": plain(words) for words in PLAIN},
        "fusion, each set left out": _left_out(grid),
        "fusion": chosen,
    }
    rows = []
    for name, figures in ways.items():
        target = at_least(_LEAST_MEAN) if name == "fusion" else None
        rows.append(Row(f"{name}, mean", fmean(figures.values()), "nDCG@10", target))
        rows += [Row(f"  {one}", figure, "nDCG@10") for one, figure in figures.items()]
    rows += [
        Row(f"words {weight}, covered {covered}, mean", fmean(figures.values()), "nDCG@10")
        for (weight, covered), figures in grid.items()
    ]
    return rows


def _search(name: str) -> list[_Question]:
    dataset = data.labelled_set(name)
    options = search_options(default_settings().search, k=_ALL, min_score=0.0)
    asked = []
    with indexed(dataset) as notes:
        for question in dataset.questions:
            ranked = notes.ranked(question.text, question.group, options)
            first = next(iter(ranked.candidates), None)
            asked.append(
                _Question(
                    first.legs.evidence if first and first.legs else (),
                    {one.chunk_id: notes.document(one.chunk_id) for one in ranked.candidates},
                    {one.chunk_id: one.decay.factor for one in ranked.candidates},
                    dataset.relevant[question.id],
                )
            )
    return asked


def _left_out(grid: Mapping[tuple[float, float], Mapping[str, float]]) -> dict[str, float]:
    """Return the figure of each set with the constants that are best for the other sets."""

    def mean_without(constants: tuple[float, float], left_out: str) -> float:
        return fmean(figure for name, figure in grid[constants].items() if name != left_out)

    return {
        name: grid[max(grid, key=lambda constants: mean_without(constants, name))][name]
        for name in data.PUBLIC_SETS
    }
