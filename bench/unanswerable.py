"""Whether relevance tells questions that the notes can answer from those that they cannot.

Each set is asked its own questions; the same with the documents that answer them left out; and
foreign ones, of the other sets. Relevance does not depend on what else was found, so leaving the
documents out of the answer is the same as taking them out of the notes, but for how common that
makes their words.

Small workspaces are samples of 10 to 50 documents of a set, with own and foreign questions.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from bench import data
from bench.labelled import Indexed, default_settings, indexed
from bench.results import Row, Target, at_least, at_most
from memwell.evaluate.dataset import Dataset, Question
from memwell.search.options import search_options
from memwell.search.pipeline import Options

SETS = (*data.PUBLIC_SETS, "locomo-session-a")
_SEED = 5
_OWN = 150
_FOREIGN = 40
"""Questions of each other set."""
_SAMPLES, _SAMPLE_SIZES = 20, (10, 14, 20, 30, 50)
_SAMPLE_OWN, _SAMPLE_FOREIGN = 8, 2
"""Questions of a sample: its own, and of each other set."""
_NOTHING = -1000.0
"""Less than any cosine, in deviations above chance."""


class _Found(NamedTuple):
    """A candidate: its document, and how well it answers."""

    document: str
    relevance: float
    cosine: float


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was found for a question, best first, and which documents answer it."""

    found: Sequence[_Found]
    relevant: Mapping[str, float]

    @property
    def removed(self) -> _Answer:
        """The same with the documents that answer it left out."""
        return _Answer([one for one in self.found if one.document not in self.relevant], {})


@dataclass(frozen=True, slots=True)
class _Figures:
    """What came out for one set; areas are under the ROC curve, the rest are shares."""

    foreign: float
    removed: float
    foreign_by_cosine: float
    removed_by_cosine: float
    foreign_refused: float
    removed_refused: float
    own_refused: float
    good_lost: float
    small_foreign_refused: float
    small_own_refused: float
    small_own_silent: float


_SHOWN: Mapping[str, tuple[str, Target | None]] = {
    "foreign": ("own against foreign", at_least(0.97)),
    "foreign_by_cosine": ("own against foreign, best cosine alone", None),
    "removed": ("own against removed", at_least(0.70)),
    "removed_by_cosine": ("own against removed, best cosine alone", None),
    "foreign_refused": ("foreign refused", None),
    "removed_refused": ("removed refused", None),
    "own_refused": ("own refused", None),
    "good_lost": ("good hits lost", at_most(0.02)),
    "small_foreign_refused": ("small, foreign refused", at_least(0.60)),
    "small_own_refused": ("small, own refused", at_most(0.03)),
    "small_own_silent": ("small, own not recalled", None),
}
"""How each figure is called, and what its mean over the sets should be."""


def run() -> list[Row]:
    """Ask every set; vectors are kept between runs."""
    datasets = {name: data.labelled_set(name) for name in SETS}
    asked = {name: _sample(dataset) for name, dataset in datasets.items()}
    figures = {name: _figures(dataset, asked) for name, dataset in datasets.items()}
    return [row for field in _SHOWN for row in _rows(field, figures)]


def _sample(dataset: Dataset) -> list[Question]:
    count = min(_OWN, len(dataset.questions))
    return random.Random(_SEED).sample(dataset.questions, count)


def _rows(field: str, figures: Mapping[str, _Figures]) -> Iterator[Row]:
    title, target = _SHOWN[field]
    unit = "area" if "against" in title else "share"
    of_sets = {name: float(getattr(found, field)) for name, found in figures.items()}
    yield Row(f"{title}, mean", fmean(of_sets.values()), unit, target)
    for name, figure in of_sets.items():
        yield Row(f"  {name}", figure, unit)


def _figures(dataset: Dataset, asked: Mapping[str, Sequence[Question]]) -> _Figures:
    """Ask a set its own questions and those of the others."""
    settings = default_settings()
    least, k = settings.search.min_score, settings.search.k
    options = search_options(settings.search, min_score=0.0)
    with indexed(dataset) as notes:
        own = [
            _Answer(
                _found(notes, question.text, question.group, options), dataset.relevant[question.id]
            )
            for question in asked[dataset.name]
        ]
        foreign = [
            _Answer(_found(notes, text, group, options), {})
            for text, group in _foreign(dataset.name, asked, notes.groups)
        ]
    removed = [answer.removed for answer in own]
    small_own, small_foreign = _ask_samples(dataset, asked, options)
    good = [one for answer in own for one in answer.found[:k] if one.document in answer.relevant]
    return _Figures(
        foreign=_area(own, foreign, _best_relevance),
        removed=_area(own, removed, _best_relevance),
        foreign_by_cosine=_area(own, foreign, _best_cosine),
        removed_by_cosine=_area(own, removed, _best_cosine),
        foreign_refused=_refused(foreign, least),
        removed_refused=_refused(removed, least),
        own_refused=_refused(own, least),
        good_lost=fmean(one.relevance < least for one in good),
        small_foreign_refused=_refused(small_foreign, least),
        small_own_refused=_refused(small_own, least),
        small_own_silent=_refused(small_own, settings.recall.min_score),
    )


def _ask_samples(
    dataset: Dataset, asked: Mapping[str, Sequence[Question]], options: Options
) -> tuple[list[_Answer], list[_Answer]]:
    """Ask samples of a set, each an index of its own, their own questions and foreign ones."""
    chance = random.Random(_SEED)
    own: list[_Answer] = []
    foreign: list[_Answer] = []
    for number in range(_SAMPLES):
        sample = _small_sample(dataset, _SAMPLE_SIZES[number % len(_SAMPLE_SIZES)], chance)
        others = [
            question.text
            for other, questions in asked.items()
            if _subject(other) != _subject(dataset.name)
            for question in chance.sample(questions, _SAMPLE_FOREIGN)
        ]
        with indexed(sample) as notes:
            (group,) = notes.groups
            for question in sample.questions:
                found = _found(notes, question.text, question.group, options)
                own.append(_Answer(found, sample.relevant[question.id]))
            foreign += [_Answer(_found(notes, text, group, options), {}) for text in others]
    return own, foreign


def _small_sample(dataset: Dataset, size: int, chance: random.Random) -> Dataset:
    """Return some questions of one group with an answer to each, and other documents."""
    group = chance.choice(dataset.questions).group
    documents = {one.id: one for one in dataset.documents if one.group == group}
    answers = {
        question: [name for name in dataset.relevant[question.id] if name in documents][:1]
        for question in dataset.questions
        if question.group == group
    }
    questions = chance.sample([one for one in answers if answers[one]], _SAMPLE_OWN)
    needed = {name for question in questions for name in answers[question]}
    rest = documents.keys() - {name for one in questions for name in dataset.relevant[one.id]}
    others = chance.sample(sorted(rest), min(len(rest), max(0, size - len(needed))))
    chosen = tuple(documents[name] for name in (*sorted(needed), *others))
    return Dataset(dataset.name, chosen, tuple(questions), dataset.relevant)


def _foreign(
    name: str, asked: Mapping[str, Sequence[Question]], groups: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield questions of the other sets, each with a group of this one to ask."""
    chance = random.Random(_SEED)
    for other, questions in asked.items():
        if _subject(other) != _subject(name):
            for question in questions[:_FOREIGN]:
                yield question.text, chance.choice(groups)


def _subject(name: str) -> str:
    """Return what a set is about: those of LoCoMo hold the same conversations."""
    return "locomo" if name.startswith("locomo") else name


def _found(notes: Indexed, text: str, group: str, options: Options) -> list[_Found]:
    """Return the candidates in their order."""
    return [
        _Found(
            notes.document(found.chunk_id),
            found.relevance,
            _NOTHING if found.cosine_z is None else found.cosine_z,
        )
        for found in notes.ranked(text, group, options).candidates
    ]


def _best_relevance(answer: _Answer) -> float:
    return max((one.relevance for one in answer.found), default=0.0)


def _best_cosine(answer: _Answer) -> float:
    return max((one.cosine for one in answer.found), default=_NOTHING)


def _area(
    higher: Sequence[_Answer], lower: Sequence[_Answer], value: Callable[[_Answer], float]
) -> float:
    """Return how often one of the first has a higher value than one of the others."""
    values = sorted(map(value, lower))
    below = [
        (bisect_left(values, one) + bisect_right(values, one)) / 2 for one in map(value, higher)
    ]
    return fmean(below) / len(values)


def _refused(answers: Sequence[_Answer], least: float) -> float:
    return fmean(_best_relevance(answer) < least for answer in answers)
