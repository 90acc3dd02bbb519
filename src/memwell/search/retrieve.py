"""What the legs say of one query: the words by BM25, the meaning by the cosine in one space.

Each leg brings its best chunks. Of a chunk that only one of them brought, the other is asked too,
and short chunks borrow from those beside them. The query is embedded while its words are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memwell.errors import KeywordSearchUnavailable
from memwell.model import Hit, Leg, LegScore
from memwell.search.calibrate import relevance
from memwell.search.decay import UNDECAYED, Decayed
from memwell.search.fuse import MEANING, POOL, USUAL_STANDING, WORDS, Evidence, Fused
from memwell.search.parse import Parsed
from memwell.store.contract.index import Reader
from memwell.store.contract.query import Match, Neighbours

if TYPE_CHECKING:
    from memwell.store.contract.values import Array, Space

HYBRID = "hybrid"
MODES = (WORDS, MEANING, HYBRID)
NEIGHBOUR_CREDIT = 0.3
"""Of the best BM25 beside it, what a short chunk is credited with."""
SHORT, LONG = 300, 600
"""Characters, on average of a chunk and those beside it: up to the one a chunk borrows in full,
from the other on nothing. A turn of a conversation hardly makes sense alone, a section does."""
_UNMEASURED = (0.05, 0.08)
"""What most models give to a question and an unrelated passage, until a space's is measured."""


@dataclass(frozen=True, slots=True)
class EmbeddedQuery:
    """A query as a vector of one space."""

    space: Space
    vector: Array


QueryEmbedding = tuple[EmbeddedQuery | None, Leg | None]
"""A query as a vector, and how that went; no leg where there is nothing to say."""
EmbedQuery = Callable[[str, Reader], Callable[[], QueryEmbedding]]
"""Begins to embed a query; what it returns waits for the answer."""


def no_vectors(text: str, reader: Reader) -> Callable[[], QueryEmbedding]:
    """An `Ask` for a memory without vectors."""
    return lambda: (None, None)


@dataclass(slots=True)
class Candidate:
    """A chunk that may become a hit, and what is known of it."""

    chunk_id: int
    relevance: float
    fused: float = 0.0
    """The sum of what the legs contribute."""
    cosine_z: float | None = None
    word_coverage: float | None = None
    decay: Decayed = UNDECAYED
    legs: Fused | None = None
    """What it came about from; None where only filters ask."""
    overflow_rank: int = 0
    """Its rank, where it is only there because many hits were asked for."""
    hit: Hit | None = None
    """What is shown, where it is from another store."""
    own_parts: tuple[LegScore, ...] = ()

    @property
    def parts(self) -> tuple[LegScore, ...]:
        """What each leg contributes."""
        return self.legs[self.chunk_id] if self.legs else self.own_parts

    @property
    def value(self) -> float:
        """What it is sorted by: what time leaves of what speaks for it."""
        if self.legs is None or self.legs.one_leg:
            return self.score  # what one leg says alone is on the scale that is shown
        return self.fused * self.decay.factor if self.fused > 0 else self.fused

    @property
    def order(self) -> tuple[int, float, float, int]:
        """The key to sort by, best first."""
        return self.overflow_rank, -self.value, -self.fused, self.chunk_id

    @property
    def score(self) -> float:
        """What it shows."""
        return self.relevance * self.decay.factor

    def was_found_by(self, leg: str) -> bool:
        """Whether a leg brought it."""
        return any(part.leg == leg and part.rank for part in self.parts)


class Retrieval:
    """What the legs say of one query, of about `limit` chunks each."""

    def __init__(self, parsed: Parsed, reader: Reader, limit: int) -> None:
        self.parsed = parsed
        self.reader = reader
        self.limit = limit
        self.legs: list[Leg] = []
        self.evidence: list[Evidence] = []
        self.asked: EmbeddedQuery | None = None
        self.ideal = 0.0

    def run(self, mode: str, ask: EmbedQuery) -> None:
        """Ask the legs that a mode names."""
        answer = ask(self.parsed.text, self.reader) if mode != WORDS else None
        if mode != MEANING:
            self._search_keywords()
        if answer:
            self._search_vectors(*answer())

    def candidates(self, found: Fused) -> list[Candidate]:
        """Bring what the legs say of each chunk to scales that mean the same everywhere."""
        words, meaning = (self._scores(leg) for leg in (WORDS, MEANING))
        mean, deviation = _unrelated(self.asked.space) if self.asked else (0.0, 1.0)
        ideal = self.ideal
        late = found.late() if self.limit > POOL else {}
        made = []
        for chunk, score in found.scores.items():
            cosine, bm25 = meaning.get(chunk), words.get(chunk)
            above = None if cosine is None else (cosine - mean) / deviation
            covered = None if bm25 is None else bm25 / ideal if ideal else 1.0
            likely = relevance(above, covered)
            behind = late.get(chunk, 0)
            made.append(Candidate(chunk, likely, score, above, covered, UNDECAYED, found, behind))
        return made

    def _scores(self, leg: str) -> Mapping[int, float]:
        return next((said.scores for said in self.evidence if said.leg == leg), {})

    def _coverage(self, score: float) -> float:
        return score / self.ideal if self.ideal else 1.0

    def _search_keywords(self) -> None:
        try:
            if broken := self.reader.keywords.problem():
                raise KeywordSearchUnavailable(broken)
            matches = self.reader.keywords.search(self.parsed.query, self.limit)
            self.ideal = self.reader.keywords.ideal_score(self.parsed.query)
        except KeywordSearchUnavailable as error:
            self.legs.append(Leg(WORDS, False, str(error)))
            return
        self.legs.append(Leg(WORDS, True))
        if matches:
            scores = {match.chunk_id: match.score for match in matches}
            coverage = self._coverage(max(scores.values()))
            self.evidence.append(Evidence(WORDS, scores, [*scores], coverage=coverage))

    def _search_vectors(self, asked: EmbeddedQuery | None, leg: Leg | None) -> None:
        self.legs += [leg] if leg else []
        if asked is None:
            return
        found = {match.chunk_id: match.score for match in self._nearest(asked)}
        if self.reader.vectors.problem:
            self.legs[-1] = Leg(MEANING, False, self.reader.vectors.problem)
        if not found:
            return
        scores = {**found}
        if self.evidence:
            scores |= self._score_each_others_finds(asked, found)
        standing = _above_typical(asked.space, max(scores.values()))
        self.evidence.append(Evidence(MEANING, scores, [*found], best_cosine_z=standing))
        self.asked = asked

    def _nearest(self, asked: EmbeddedQuery) -> list[Match]:
        """Ask a space; with a broken keyword index, without what must or must not match."""
        arguments = (asked.space, asked.vector, self.parsed.query, self.limit)
        try:
            return self.reader.vectors.nearest(*arguments)
        except KeywordSearchUnavailable:
            return self.reader.vectors.nearest(*arguments, words=False)

    def _score_each_others_finds(
        self, asked: EmbeddedQuery, mine: Mapping[int, float]
    ) -> dict[int, float]:
        """Return the cosines of chunks that only the words found, and tell the words of mine."""
        (words,) = self.evidence
        unknown = [chunk for chunk in mine if chunk not in words.scores]
        beside = self.reader.chunks.neighbours([*words.scores, *unknown], LONG)
        asked_for = {*unknown, *(other for group in beside.values() for other in group.chunks)}
        more = self._word_scores([chunk for chunk in asked_for if chunk not in words.scores])
        known = {**more, **words.scores}
        self.evidence = [
            replace(
                words,
                scores={**{chunk: known.get(chunk, 0.0) for chunk in unknown}, **words.scores},
                neighbour_credit={
                    chunk: _neighbour_credit(group, known) for chunk, group in beside.items()
                },
            )
        ]
        unseen = [chunk for chunk in words.scores if chunk not in mine]
        return self.reader.vectors.cosines(asked.space, asked.vector, unseen) if unseen else {}

    def _word_scores(self, chunks: Sequence[int]) -> dict[int, float]:
        try:
            return self.reader.keywords.scores(self.parsed.query, chunks) if chunks else {}
        except KeywordSearchUnavailable:
            return {}


def _neighbour_credit(group: Neighbours, scores: Mapping[int, float]) -> float:
    """Return what a chunk is credited with for those beside it: all of it, if they are short."""
    share = min(1.0, max(0.0, (LONG - group.length) / (LONG - SHORT)))
    return (
        NEIGHBOUR_CREDIT
        * share
        * max((scores.get(chunk, 0.0) for chunk in group.chunks), default=0.0)
    )


def _above_typical(space: Space, cosine: float) -> float:
    """Return by how many deviations a cosine lies above that of two passages of the space."""
    if space.random_mean is None or not space.random_deviation:
        return USUAL_STANDING if cosine > 0.5 else 0.0
    return (cosine - space.random_mean) / space.random_deviation


def _unrelated(space: Space) -> tuple[float, float]:
    """Return mean and deviation of the cosine of a question and a stranger."""
    mean, deviation = space.unrelated_mean, space.unrelated_deviation
    return (mean, deviation) if mean is not None and deviation else _UNMEASURED
