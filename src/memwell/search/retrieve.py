"""What the legs say of one query: the words by BM25, the meaning by the cosine in one space.

Each leg brings its best chunks. Of a chunk that only one of them brought, the other is asked too,
and short chunks borrow from those beside them. The query is embedded while its words are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memwell.model import Leg, Part
from memwell.search.calibrate import relevance
from memwell.search.decay import ALL, Kept
from memwell.search.fuse import MEANING, USUAL_STANDING, WORDS, Evidence, fused
from memwell.search.parse import Parsed
from memwell.store.base import Beside, Match
from memwell.store.index import Reader
from memwell.store.keyword import WordsUnavailable

if TYPE_CHECKING:
    from memwell.store.snapshot import Array
    from memwell.store.spaces import Space

HYBRID = "hybrid"
MODES = (WORDS, MEANING, HYBRID)
BORROWED = 0.3
"""Of the best BM25 beside it, what a short chunk is credited with."""
SHORT, LONG = 300, 600
"""Characters, on average of a chunk and those beside it: up to the one a chunk borrows in full,
from the other on nothing. A turn of a conversation hardly makes sense alone, a section does."""
_UNMEASURED = (0.05, 0.08)
"""What most models give to a question and an unrelated passage, until a space's is measured."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as a vector of one space."""

    space: Space
    vector: Array


Answer = tuple[Asked | None, Leg | None]
"""A query as a vector, and how that went; no leg where there is nothing to say."""
Ask = Callable[[str, Reader], Callable[[], Answer]]
"""Begins to embed a query; what it returns waits for the answer."""


def wordlessly(text: str, reader: Reader) -> Callable[[], Answer]:
    """An `Ask` for a memory without vectors."""
    return lambda: (None, None)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that may become a hit, and what is known of it."""

    chunk_id: int
    relevance: float
    parts: tuple[Part, ...] = ()
    above_chance: float | None = None
    covered: float | None = None
    kept: Kept = ALL

    @property
    def fused(self) -> float:
        """The sum of what the legs contribute."""
        return fused(self.parts)

    @property
    def order(self) -> tuple[float, float, int]:
        """What it is sorted by: what time leaves of what speaks for it."""
        value = self.fused
        left = value * self.kept.share if value > 0 else value
        if len(self.parts) == 1:  # what one leg says alone is on the scale that is shown
            return -self.score, -left, self.chunk_id
        return -left, 0.0, self.chunk_id

    @property
    def score(self) -> float:
        """What it shows."""
        return self.relevance * self.kept.share

    def rank_in(self, leg: str) -> int | None:
        """Its place among what a leg brought."""
        return next((part.rank for part in self.parts if part.leg == leg), None)


class Retrieval:
    """What the legs say of one query, of about `limit` chunks each."""

    def __init__(self, parsed: Parsed, reader: Reader, limit: int) -> None:
        self.parsed = parsed
        self.reader = reader
        self.limit = limit
        self.legs: list[Leg] = []
        self.evidence: list[Evidence] = []
        self.asked: Asked | None = None
        self.ideal = 0.0

    def run(self, mode: str, ask: Ask) -> None:
        """Ask the legs that a mode names."""
        answer = ask(self.parsed.text, self.reader) if mode != WORDS else None
        if mode != MEANING:
            self._ask_words()
        if answer:
            self._ask_meaning(*answer())

    def candidate(self, chunk: int, parts: tuple[Part, ...]) -> Candidate:
        """Bring what the legs say of a chunk to scales that mean the same everywhere."""
        raw = {part.leg: part.raw for part in parts}
        cosine, score = raw.get(MEANING), raw.get(WORDS)
        above = covered = None
        if cosine is not None and self.asked:
            above = _above_chance(self.asked.space, cosine)
        if score is not None:
            covered = self._coverage(score)
        return Candidate(chunk, relevance(above, covered), parts, above, covered)

    def _coverage(self, score: float) -> float:
        return score / self.ideal if self.ideal else 1.0

    def _ask_words(self) -> None:
        try:
            if broken := self.reader.words_unusable():
                raise WordsUnavailable(broken)
            matches = self.reader.words(self.parsed.query, self.limit)
            self.ideal = self.reader.ideal_word_score(self.parsed.query)
        except WordsUnavailable as error:
            self.legs.append(Leg(WORDS, False, str(error)))
            return
        self.legs.append(Leg(WORDS, True))
        if matches:
            scores = {match.chunk_id: match.score for match in matches}
            coverage = self._coverage(max(scores.values()))
            self.evidence.append(Evidence(WORDS, scores, [*scores], coverage=coverage))

    def _ask_meaning(self, asked: Asked | None, leg: Leg | None) -> None:
        self.legs += [leg] if leg else []
        if asked is None:
            return
        found = {match.chunk_id: match.score for match in self._nearest(asked)}
        if not found:
            return
        scores = {**found}
        if self.evidence:
            scores |= self._of_the_others(asked, found)
        standing = _above_usual(asked.space, max(scores.values()))
        self.evidence.append(Evidence(MEANING, scores, [*found], standing=standing))
        self.asked = asked

    def _nearest(self, asked: Asked) -> list[Match]:
        """Ask a space; with a broken keyword index, without what must or must not match."""
        arguments = (asked.space, asked.vector, self.parsed.query, self.limit)
        try:
            return self.reader.nearest(*arguments)
        except WordsUnavailable:
            return self.reader.nearest(*arguments, words=False)

    def _of_the_others(self, asked: Asked, mine: Mapping[int, float]) -> dict[int, float]:
        """Return the cosines of chunks that only the words found, and tell the words of mine."""
        (words,) = self.evidence
        unknown = [chunk for chunk in mine if chunk not in words.scores]
        beside = self.reader.beside([*words.scores, *unknown], LONG)
        asked_for = {*unknown, *(other for group in beside.values() for other in group.chunks)}
        more = self._word_scores([chunk for chunk in asked_for if chunk not in words.scores])
        known = {**more, **words.scores}
        self.evidence = [
            replace(
                words,
                scores={**{chunk: known.get(chunk, 0.0) for chunk in unknown}, **words.scores},
                borrowed={chunk: _borrowed(group, known) for chunk, group in beside.items()},
            )
        ]
        unseen = [chunk for chunk in words.scores if chunk not in mine]
        return self.reader.cosines(asked.space, asked.vector, unseen) if unseen else {}

    def _word_scores(self, chunks: Sequence[int]) -> dict[int, float]:
        try:
            return self.reader.word_scores(self.parsed.query, chunks) if chunks else {}
        except WordsUnavailable:
            return {}


def _borrowed(group: Beside, scores: Mapping[int, float]) -> float:
    """Return what a chunk is credited with for those beside it: all of it, if they are short."""
    share = min(1.0, max(0.0, (LONG - group.length) / (LONG - SHORT)))
    return BORROWED * share * max((scores.get(chunk, 0.0) for chunk in group.chunks), default=0.0)


def _above_usual(space: Space, cosine: float) -> float:
    """Return by how many deviations a cosine lies above that of two passages of the space."""
    if space.random_mean is None or not space.random_deviation:
        return USUAL_STANDING if cosine > 0.5 else 0.0
    return (cosine - space.random_mean) / space.random_deviation


def _above_chance(space: Space, cosine: float) -> float:
    """Return by how many deviations a cosine lies above that of a question and a stranger."""
    mean, deviation = space.unrelated_mean, space.unrelated_deviation
    if mean is None or not deviation:
        mean, deviation = _UNMEASURED
    return (cosine - mean) / deviation
