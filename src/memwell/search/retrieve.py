"""The candidates for one query: keyword search scores by BM25, vector search by the cosine.

Each leg returns its best chunks. If only one leg found a chunk, the other leg scores it, too. A
short chunk gets part of the BM25 of the chunks beside it. The query is embedded while keyword
search runs.
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
"""The share of its best neighbour's BM25 that a short chunk gets."""
NEIGHBOUR_SHORT, NEIGHBOUR_LONG = 300, 600
"""Characters, the mean of a chunk and its neighbours: up to the first a chunk gets its full credit,
from the second on none. A turn of a conversation hardly makes sense alone, a section does."""
_UNMEASURED = (0.05, 0.08)
"""Mean and deviation of the cosine of a question and an unrelated passage, for a space where they
are not measured yet: most models are near these."""


@dataclass(frozen=True, slots=True)
class EmbeddedQuery:
    """A query as a vector of one space."""

    space: Space
    vector: Array


QueryEmbedding = tuple[EmbeddedQuery | None, Leg | None]
"""A query as a vector, and the state of vector search; None if it was not asked."""
EmbedQuery = Callable[[str, Reader], Callable[[], QueryEmbedding]]
"""Starts to embed a query and returns a function that waits for the vector."""


def no_vectors(text: str, reader: Reader) -> Callable[[], QueryEmbedding]:
    """An `EmbedQuery` for a memory without vectors."""
    return lambda: (None, None)


@dataclass(slots=True)
class Candidate:
    """A chunk that may become a hit, and its scores."""

    chunk_id: int
    relevance: float
    fused: float = 0.0
    """The sum of the legs' contributions."""
    cosine_z: float | None = None
    word_coverage: float | None = None
    decay: Decayed = UNDECAYED
    legs: Fused | None = None
    """The fusion that it came from; None if the query has only filters, or for a remote hit."""
    overflow_rank: int = 0
    """Its best rank, if it is a candidate only because the caller asked for many hits; else 0."""
    hit: Hit | None = None
    """The hit itself, if it is from a remote store."""
    remote_parts: tuple[LegScore, ...] = ()

    @property
    def parts(self) -> tuple[LegScore, ...]:
        """The contribution of each leg."""
        return self.legs[self.chunk_id] if self.legs else self.remote_parts

    @property
    def value(self) -> float:
        """The number that candidates are sorted by: the fused score after decay."""
        if self.legs is None or self.legs.has_one_leg:
            return self.score  # one leg's order is the order of its relevance
        return self.fused * self.decay.factor if self.fused > 0 else self.fused

    @property
    def order(self) -> tuple[int, float, float, int]:
        """The key to sort by, best first."""
        return self.overflow_rank, -self.value, -self.fused, self.chunk_id

    @property
    def score(self) -> float:
        """The score that a hit shows: relevance after decay."""
        return self.relevance * self.decay.factor

    def was_found_by(self, leg: str) -> bool:
        """Whether a leg found it."""
        return any(part.leg == leg and part.rank for part in self.parts)


class Retrieval:
    """One query, searched by each leg for about `limit` chunks."""

    def __init__(self, parsed: Parsed, reader: Reader, limit: int) -> None:
        self.parsed = parsed
        self.reader = reader
        self.limit = limit
        self.legs: list[Leg] = []
        self.evidence: list[Evidence] = []
        self.embedded_query: EmbeddedQuery | None = None
        self.ideal = 0.0

    def run(self, mode: str, embed_query: EmbedQuery) -> None:
        """Run the legs of a mode."""
        embedding = embed_query(self.parsed.text, self.reader) if mode != WORDS else None
        if mode != MEANING:
            self._search_keywords()
        if embedding:
            self._search_vectors(*embedding())

    def candidates(self, fused: Fused) -> list[Candidate]:
        """Return a candidate for each chunk, with its scores on scales that all queries share."""
        bm25_scores, cosines = (self._scores(leg) for leg in (WORDS, MEANING))
        query = self.embedded_query
        mean, deviation = _unrelated(query.space) if query else (0.0, 1.0)
        overflow = fused.overflow_ranks() if self.limit > POOL else {}
        result = []
        for chunk, score in fused.scores.items():
            cosine, bm25 = cosines.get(chunk), bm25_scores.get(chunk)
            z = None if cosine is None else (cosine - mean) / deviation
            coverage = None if bm25 is None else self._coverage(bm25)
            result.append(
                Candidate(
                    chunk,
                    relevance(z, coverage),
                    score,
                    z,
                    coverage,
                    legs=fused,
                    overflow_rank=overflow.get(chunk, 0),
                )
            )
        return result

    def _scores(self, leg: str) -> Mapping[int, float]:
        return next((evidence.scores for evidence in self.evidence if evidence.leg == leg), {})

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

    def _search_vectors(self, query: EmbeddedQuery | None, leg: Leg | None) -> None:
        self.legs += [leg] if leg else []
        if query is None:
            return
        found = {match.chunk_id: match.score for match in self._nearest(query)}
        if self.reader.vectors.problem:
            self.legs[-1] = Leg(MEANING, False, self.reader.vectors.problem)
        if not found:
            return
        scores = {**found}
        if self.evidence:
            scores |= self._score_each_others_finds(query, found)
        best_z = _above_typical(query.space, max(scores.values()))
        self.evidence.append(Evidence(MEANING, scores, [*found], best_cosine_z=best_z))
        self.embedded_query = query

    def _nearest(self, query: EmbeddedQuery) -> list[Match]:
        """Search the vectors; with a broken keyword index, ignore required and excluded words."""
        arguments = (query.space, query.vector, self.parsed.query, self.limit)
        try:
            return self.reader.vectors.nearest(*arguments)
        except KeywordSearchUnavailable:
            return self.reader.vectors.nearest(*arguments, words=False)

    def _score_each_others_finds(
        self, query: EmbeddedQuery, cosines: Mapping[int, float]
    ) -> dict[int, float]:
        """Return the cosines of chunks that only keyword search found.

        Also add to the keyword evidence the BM25 of chunks that only vector search found, and
        the credit that each chunk gets for its neighbours.
        """
        (keywords,) = self.evidence
        without_bm25 = [chunk for chunk in cosines if chunk not in keywords.scores]
        neighbours = self.reader.chunks.neighbours(
            [*keywords.scores, *without_bm25], NEIGHBOUR_LONG
        )
        beside = {other for group in neighbours.values() for other in group.chunks}
        to_score = {*without_bm25, *beside}
        more = self._word_scores([chunk for chunk in to_score if chunk not in keywords.scores])
        known = {**more, **keywords.scores}
        self.evidence = [
            replace(
                keywords,
                scores={
                    **{chunk: known.get(chunk, 0.0) for chunk in without_bm25},
                    **keywords.scores,
                },
                neighbour_credit={
                    chunk: _neighbour_credit(group, known) for chunk, group in neighbours.items()
                },
            )
        ]
        without_cosine = [chunk for chunk in keywords.scores if chunk not in cosines]
        if not without_cosine:
            return {}
        return self.reader.vectors.cosines(query.space, query.vector, without_cosine)

    def _word_scores(self, chunks: Sequence[int]) -> dict[int, float]:
        try:
            return self.reader.keywords.scores(self.parsed.query, chunks) if chunks else {}
        except KeywordSearchUnavailable:
            return {}


def _neighbour_credit(group: Neighbours, scores: Mapping[int, float]) -> float:
    """Return the score that a chunk gets for its neighbours: less, the longer they are."""
    range_of_lengths = NEIGHBOUR_LONG - NEIGHBOUR_SHORT
    share = min(1.0, max(0.0, (NEIGHBOUR_LONG - group.length) / range_of_lengths))
    best = max((scores.get(chunk, 0.0) for chunk in group.chunks), default=0.0)
    return NEIGHBOUR_CREDIT * share * best


def _above_typical(space: Space, cosine: float) -> float:
    """Return how many deviations a cosine lies above the cosine of two passages of the space."""
    if space.random_mean is None or not space.random_deviation:
        return USUAL_STANDING if cosine > 0.5 else 0.0
    return (cosine - space.random_mean) / space.random_deviation


def _unrelated(space: Space) -> tuple[float, float]:
    """Return mean and deviation of the cosine of a question and an unrelated passage."""
    mean, deviation = space.unrelated_mean, space.unrelated_deviation
    return (mean, deviation) if mean is not None and deviation else _UNMEASURED
