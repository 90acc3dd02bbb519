"""What is lost where hits are asked to differ, and where near copies collapse into one.

Questions of LoCoMo often need several turns of a conversation, and those may be alike. What a hit
lists as saying the same counts as found, but for the rows "of what is shown".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from bench import data
from bench.labelled import Indexed, default_settings, indexed
from bench.results import Row, at_least
from memwell.evaluate.dataset import Question
from memwell.evaluate.metrics import found_all, found_any
from memwell.search.dedupe import BY_VECTORS, CLUSTER, MMR, Diversity
from memwell.search.options import search_options
from memwell.search.pipeline import Options, select_hits

SET = "locomo-turn-a"
_K = 10
_AS_IT_IS = "order as it is, copies too"
_OFF = "off"
_WAYS = {
    _OFF: Diversity(),
    **{f"mmr {balance:g}": Diversity(MMR, balance) for balance in (0.3, 0.5, 0.7, 0.9, 1)},
    "mmr 0.7 by vectors": Diversity(MMR, 0.7, BY_VECTORS),
    "cluster 0.8": Diversity(CLUSTER, near=0.8),
    "cluster 0.8 by vectors": Diversity(CLUSTER, similarity=BY_VECTORS, near=0.8),
}
_ANY, _ALL, _ALL_SHOWN, _PASSAGES = (
    "any of the evidence",
    "all the evidence",
    "all the evidence, of what is shown",
    "passages shown or listed",
)
_Hits = Sequence[Sequence[str]]
"""For each hit its document, and those that it lists."""


def run() -> list[Row]:
    """Ask every question once, and choose hits from the same order in each way."""
    dataset = data.labelled_set(SET)
    options = search_options(default_settings().search, k=_K)
    measured: dict[str, list[dict[str, float]]] = {}
    with indexed(dataset) as notes:
        for question in dataset.questions:
            for way, hits in _answers(notes, question, options):
                figures = _figures(hits, dataset.relevant[question.id])
                measured.setdefault(way, []).append(figures)
    return [
        row
        for metric in (_ANY, _ALL, _ALL_SHOWN, _PASSAGES)
        for row in _rows(
            metric, {way: fmean(one[metric] for one in found) for way, found in measured.items()}
        )
    ]


def _answers(notes: Indexed, question: Question, options: Options) -> Iterator[tuple[str, _Hits]]:
    """Yield the first hits of a question, in each way."""
    ranked = notes.ranked(question.text, question.group, options)
    first = ranked.candidates[:_K]
    yield _AS_IT_IS, [[notes.document(found.chunk_id)] for found in first]
    for way, diversity in _WAYS.items():
        chosen = select_hits(ranked, replace(options, diversity=diversity), notes.reader)
        together = [[one.candidate, *(copy for copy, _ in one.copies)] for one in chosen]
        yield way, [[notes.document(found.chunk_id) for found in hit] for hit in together]


def _figures(hits: _Hits, grades: Mapping[str, float]) -> dict[str, float]:
    shown = [hit[0] for hit in hits]
    listed = [document for hit in hits for document in hit]
    return {
        _ANY: found_any(listed, grades, len(listed)),
        _ALL: found_all(listed, grades, len(listed)),
        _ALL_SHOWN: found_all(shown, grades, len(shown)),
        _PASSAGES: len(listed),
    }


def _rows(metric: str, of_ways: Mapping[str, float]) -> Iterator[Row]:
    unit = "" if metric == _PASSAGES else "recall@10"
    yield Row(f"{metric}, {_OFF}", of_ways[_OFF], unit)
    if metric != _PASSAGES:
        yield Row(
            "  less that of the order as it is", of_ways[_OFF] - of_ways[_AS_IT_IS], "", at_least(0)
        )
    for way, figure in of_ways.items():
        if way != _OFF:
            yield Row(f"  {way}", figure, unit)
