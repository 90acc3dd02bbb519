"""Choose the fusion settings that find a user's own cases best, and check them on other cases.

The best of many settings looks better than it is on the cases that chose it. So we fit on one half
of the cases, and trust the result only if it is also better on the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from memwell.config.fields import Value
from memwell.config.sections import SearchSettings
from memwell.errors import MemwellError
from memwell.evaluate.cases import Case
from memwell.evaluate.compare import Difference, compare
from memwell.evaluate.dataset import Dataset, Question
from memwell.evaluate.report import FIRST, Evaluation, Ranking, Search, evaluate

Overrides = Mapping[str, Value]
"""Values of some settings, by their names."""
SearchEach = Callable[[Question, int, Sequence[Overrides]], Sequence[Ranking]]
"""Returns the notes that a question finds with each of several overrides."""

FEWEST_CASES, FEWEST_NOTES = 10, 4
"""With fewer, a single query could decide."""
_DIGITS = 9
"""Averages that agree in these digits differ only by rounding."""

FUSION, WORDS_WEIGHT = "search.fusion", "search.words_weight"
VECTOR_WEIGHT, TEXT_WEIGHT = "search.vector_weight", "search.text_weight"
NORMALISER = "search.normaliser"
_TUNED: Mapping[str, tuple[str, ...]] = {
    "standard": (WORDS_WEIGHT,),
    "rrf": (VECTOR_WEIGHT, TEXT_WEIGHT),
    "weighted": (VECTOR_WEIGHT, TEXT_WEIGHT, NORMALISER),
}
"""The settings to tune, by fusion method."""
_WORDS_WEIGHTS = (0.1, 0.15, SearchSettings.words_weight, 0.3, 0.45, 0.6, 0.8, 1.0)
"""Of keyword search, in standard."""
_WEIGHTS = ((0.5, 0.5), (0.7, 0.3), (0.3, 0.7))
"""Of vector search and of keyword search."""


# -- candidates -----------------------------------------------------------------------------------


def grid() -> list[Overrides]:
    """Return the settings to try: few, since the best of many is often only the luckiest."""
    tried: list[Overrides] = [
        {FUSION: "standard", WORDS_WEIGHT: weight} for weight in _WORDS_WEIGHTS
    ]
    weights = [{VECTOR_WEIGHT: meaning, TEXT_WEIGHT: words} for meaning, words in _WEIGHTS]
    tried += [{FUSION: "rrf", **weight} for weight in weights]
    tried += [{FUSION: "weighted", **weight, NORMALISER: "saturation"} for weight in weights]
    return tried


def candidates(settings: SearchSettings) -> list[Overrides]:
    """Return the present settings, then the others to try."""
    names = (FUSION, *_TUNED[settings.fusion])
    present = {name: getattr(settings, name.removeprefix("search.")) for name in names}
    return [present, *(other for other in grid() if other != present)]


# -- the two halves --------------------------------------------------------------------------------


def halves(name: str, cases: Sequence[Case]) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Return the cases to fit and the cases held back; an error if there are too few."""
    notes = {note for case in cases for note in case.notes}
    if len(cases) < FEWEST_CASES or len(notes) < FEWEST_NOTES:
        raise MemwellError(
            f"{name} has {len(cases)} cases of {len(notes)} notes, too few to fit on some of them"
            " and check on the others",
            f"Write at least {FEWEST_CASES} cases of at least {FEWEST_NOTES} notes",
        )
    fitting, held_back = split(cases)
    if not held_back:
        raise MemwellError(
            f"All {len(cases)} cases of {name} are connected by notes that they share, so none can"
            " be held back",
            "Add cases of other notes",
        )
    return fitting, held_back


def split(cases: Sequence[Case]) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Divide cases into two parts of about the same size; the cases of a note stay together.

    Otherwise a setting that fits a note would also help with that note's held-back queries. A hash
    of the paths decides, so that the order of the file does not matter.
    """
    families = _families(case.notes for case in cases)
    sizes: dict[str, int] = {}
    for case in cases:
        family = families[case.notes[0]]
        sizes[family] = sizes.get(family, 0) + 1
    fitted: set[str] = set()
    counts = [0, 0]
    for family in sorted(sizes, key=lambda path: (_shuffle(path), path)):
        part = int(counts[1] < counts[0])
        counts[part] += sizes[family]
        fitted |= set() if part else {family}
    return (
        tuple(case for case in cases if families[case.notes[0]] in fitted),
        tuple(case for case in cases if families[case.notes[0]] not in fitted),
    )


def _families(together: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return a family for each note: the first name of all notes that cases connect it with."""
    members: dict[str, set[str]] = {}
    for notes in together:
        family = set(notes).union(*(members.get(note, ()) for note in notes))
        members.update(dict.fromkeys(family, family))
    return {note: min(family) for note, family in members.items()}


def _shuffle(path: str) -> bytes:
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest()


# -- fitting and checking --------------------------------------------------------------------------


@dataclass(frozen=True)
class Tuning:
    """The settings tried, the best of them, and their figures on the cases held back."""

    tried: Sequence[tuple[Overrides, Evaluation]]
    """Each with its figures on the cases to fit; the first are the present settings."""
    best: int
    """The index of the best settings in `tried`."""
    before: Evaluation
    after: Evaluation
    """The cases held back, with the present settings and with the best ones."""

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return f"mrr@{self.before.k}"

    @property
    def chosen(self) -> Overrides:
        """The settings that were best on the cases to fit."""
        return self.tried[self.best][0]

    @cached_property
    def difference(self) -> Difference:
        """How much better the best settings are on the cases held back."""
        return next(one for one in compare(self.before, self.after) if one.metric == self.metric)

    @property
    def better(self) -> bool:
        """Whether the best settings are better on the cases held back."""
        return round(self.difference.difference, _DIGITS) > 0


def tune(
    fitting: Dataset,
    held_back: Dataset,
    tries: Sequence[Overrides],
    search: SearchEach,
    progress: Callable[[int, int], None] = lambda done, total: None,
    k: int = FIRST,
) -> Tuning:
    """Try settings, the present ones first, on one part; compare the best on the other part."""
    first, total = len(fitting.questions), len(fitting.questions) + len(held_back.questions)
    fitted = _measure(fitting, tries, search, lambda done: progress(done, total), k)
    best = _best(fitted)
    checked = _measure(
        held_back, [tries[0], tries[best]], search, lambda done: progress(first + done, total), k
    )
    return Tuning([*zip(tries, fitted, strict=True)], best, *checked)


def _measure(
    dataset: Dataset,
    tries: Sequence[Overrides],
    search: SearchEach,
    progress: Callable[[int], None],
    k: int,
) -> list[Evaluation]:
    """Search for each question with all overrides at once: embedding it takes most of the time."""
    rankings: dict[str, Sequence[Ranking]] = {}
    for done, question in enumerate(dataset.questions, 1):
        rankings[question.id] = search(question, k, tries)
        progress(done)
    return [
        evaluate(dataset, _replay(rankings, number), k=k, depth=k) for number in range(len(tries))
    ]


def _replay(rankings: Mapping[str, Sequence[Ranking]], number: int) -> Search:
    """Return a search that gives the rankings that were found before."""
    return lambda question, depth: rankings[question.id][number]


def _best(evaluations: Sequence[Evaluation]) -> int:
    """Return the index of the best: by reciprocal rank, then by nDCG, then the first."""

    def figures(number: int) -> tuple[float, ...]:
        overall, k = evaluations[number].overall, evaluations[number].k
        return tuple(round(overall[f"{name}@{k}"], _DIGITS) for name in ("mrr", "ndcg"))

    return max(range(len(evaluations)), key=figures)
