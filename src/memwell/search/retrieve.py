"""The candidates for one query: keyword search scores by BM25, vector search by the cosine.

Each leg returns its best chunks. If only one leg found a chunk, the other leg scores it, too. A
short chunk gets part of the scores of the chunks beside it. The query is embedded while keyword
search runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memwell.errors import KeywordSearchUnavailable
from memwell.model import Hit, Leg, LegScore
from memwell.search.calibrate import (
    SLOPE_BOTH,
    SLOPE_MEANING,
    SLOPE_WORDS,
    Calibration,
    logit,
    small_corpus_gain,
)
from memwell.search.decay import UNDECAYED, Decayed
from memwell.search.fuse import MEANING, POOL, WORDS, Evidence, Fused
from memwell.search.parse import Parsed
from memwell.store.contract.index import Reader
from memwell.store.contract.query import Match, Neighbours

if TYPE_CHECKING:
    from memwell.store.contract.values import Array, Space

HYBRID = "hybrid"
MODES = (WORDS, MEANING, HYBRID)
NEIGHBOUR_CREDIT = 0.3
"""The share of its best neighbour's score that a short chunk gets, by words and by meaning."""
NEIGHBOUR_SHORT, NEIGHBOUR_LONG = 300, 600
"""Characters, the mean of a chunk and its neighbours: up to the first a chunk gets its full credit,
from the second on none. A turn of a conversation hardly makes sense alone, a section does."""
_TIE = 1e-6
"""Cosines that differ by less are equal: engines round differently."""
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
    """c of calibrate.py: how many deviations its cosine lies above chance."""
    word_coverage: float | None = None
    overflow_rank: int = 0
    """Its best rank, if it is a candidate only because the caller asked for many hits; else 0."""
    calibration: Calibration | None = None
    """How the fused score becomes relevance; None if the query has only filters, or for a remote
    hit."""
    legs: Fused | None = None
    """The fusion that it came from; None if the query has only filters, or for a remote hit."""
    decay: Decayed = UNDECAYED
    place: tuple[str, int] = ("", 0)
    """The path of its note, and its number within the note, negative; it decides between equal
    scores."""
    hit: Hit | None = None
    """The hit itself, if it is from a remote store."""
    remote_parts: tuple[LegScore, ...] = ()

    @property
    def is_ranked(self) -> bool:
        """Whether it has a score: a query of filters alone gives none."""
        return self.legs is not None or bool(self.remote_parts)

    @property
    def parts(self) -> tuple[LegScore, ...]:
        """The contribution of each leg."""
        return self.legs[self.chunk_id] if self.legs else self.remote_parts

    @property
    def order(self) -> tuple[int, float, float, tuple[str, int]]:
        """The key to sort by, the best is the greatest; it tells apart scores that round to 1.

        Of equal scores the last path is first: the newest of daily notes and of facts.
        """
        return -self.overflow_rank, self.value, self.fused, self.place

    @property
    def value(self) -> float:
        """The logit of the score, but for what all candidates of a query have in common."""
        slope = self.calibration.slope if self.calibration else 1.0
        return slope * (self.fused * self.kept) + self.decay.gain

    @property
    def score(self) -> float:
        """The score that a hit shows: the relevance that decay leaves."""
        if self.calibration is None:
            return self.relevance * self.decay.factor
        return self.calibration.relevance(self.fused * self.kept, self.decay.gain)

    @property
    def kept(self) -> float:
        """The factor that is left of the fused score; it would raise one below 0."""
        return self.decay.factor if self.fused > 0 else 1.0

    @property
    def path(self) -> str:
        """The path of its note, or the id of a fact."""
        return self.place[0]

    def is_weak(self, min_score: float) -> bool:
        """Whether its relevance is below a threshold, or its note is of another time."""
        return self.decay.wrong_time or (self.relevance < min_score and not self.decay.gain)

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

    def run(self, mode: str, embed_query: EmbedQuery) -> None:
        """Run the legs of a mode."""
        embedding = embed_query(self.parsed.text, self.reader) if mode != WORDS else None
        if mode != MEANING:
            self._search_keywords()
        if embedding:
            self._search_vectors(*embedding())
        if self.evidence:
            self._complete_scores()

    def candidates(self, fused: Fused) -> list[Candidate]:
        """Return a candidate for each chunk, with its scores on scales that all queries share."""
        scores = fused.scores
        if not scores:
            return []
        cosines, keywords = self._evidence(MEANING), self._evidence(WORDS)
        covered = keywords.covered if keywords else {}
        no_words = 0.0 if any(leg.name == WORDS and leg.answered for leg in self.legs) else None
        query = self.embedded_query
        mean, deviation = _unrelated(query.space) if query else (0.0, 1.0)
        found = cosines.scores.items() if cosines else ()
        gain = small_corpus_gain(self.reader.keywords.total) if found else 0.0
        cosine_z = {chunk: (cosine - mean) / deviation + gain for chunk, cosine in found}
        overflow = fused.overflow_ranks() if self.limit > POOL else {}
        best = max((chunk for chunk in scores if chunk not in overflow), key=scores.__getitem__)
        known = no_words is None or keywords is not None
        x = logit(cosine_z.get(best), covered.get(best, no_words), known=known)
        calibration = Calibration(x, scores[best], self._slope())
        return [
            Candidate(
                chunk,
                calibration.relevance(score),
                score,
                cosine_z.get(chunk),
                covered.get(chunk, no_words),
                overflow.get(chunk, 0),
                calibration,
                fused,
            )
            for chunk, score in scores.items()
        ]

    def _slope(self) -> float:
        """Return what a difference of fused scores is worth, as a difference of logits."""
        if len(self.evidence) > 1:
            return SLOPE_BOTH
        return SLOPE_WORDS if self._evidence(WORDS) else SLOPE_MEANING

    def _evidence(self, leg: str) -> Evidence | None:
        return next((evidence for evidence in self.evidence if evidence.leg == leg), None)

    def _search_keywords(self) -> None:
        try:
            if broken := self.reader.keywords.problem():
                raise KeywordSearchUnavailable(broken)
            matches = self.reader.keywords.search(self.parsed.query, self.limit)
            ideal = self.reader.keywords.ideal_score(self.parsed.query)
        except KeywordSearchUnavailable as error:
            self.legs.append(Leg(WORDS, False, str(error)))
            return
        self.legs.append(Leg(WORDS, True))
        if matches:
            scores = {match.chunk_id: match.score for match in matches}
            covered = {match.chunk_id: match.covered for match in matches}
            self.evidence.append(
                Evidence(WORDS, scores, [*scores], covered=covered, unit=ideal or 1.0)
            )

    def _search_vectors(self, query: EmbeddedQuery | None, leg: Leg | None) -> None:
        self.legs += [leg] if leg else []
        if query is None:
            return
        nearest = _without_last_tie(self._nearest(query), self.limit)
        found = {match.chunk_id: match.score for match in nearest}
        if self.reader.vectors.problem:
            self.legs[-1] = Leg(MEANING, False, self.reader.vectors.problem)
        if not found:
            return
        self.embedded_query = query
        _, deviation = _unrelated(query.space)
        self.evidence.append(Evidence(MEANING, found, [*found], unit=deviation))

    def _nearest(self, query: EmbeddedQuery) -> list[Match]:
        """Search the vectors; with a broken keyword index, ignore required and excluded words."""
        arguments = (query.space, query.vector, self.parsed.query, self.limit)
        try:
            return self.reader.vectors.nearest(*arguments)
        except KeywordSearchUnavailable:
            return self.reader.vectors.nearest(*arguments, words=False)

    def _complete_scores(self) -> None:
        """Let each leg score what only the other found, and the neighbours of short chunks."""
        chunks = [*dict.fromkeys(chunk for leg in self.evidence for chunk in leg.scores)]
        neighbours = self.reader.chunks.neighbours(chunks, NEIGHBOUR_LONG)
        beside = [chunk for group in neighbours.values() for chunk in group.chunks]
        every = [*dict.fromkeys((*chunks, *beside))]
        self.evidence = [self._complete(leg, chunks, every, neighbours) for leg in self.evidence]

    def _complete(
        self,
        leg: Evidence,
        chunks: Sequence[int],
        every: Sequence[int],
        neighbours: Mapping[int, Neighbours],
    ) -> Evidence:
        missing = [chunk for chunk in every if chunk not in leg.scores]
        if leg.leg == WORDS:
            matches = self._word_scores(missing)
            more = {chunk: matches[chunk].score if chunk in matches else 0.0 for chunk in missing}
            covered = {**leg.covered, **{chunk: match.covered for chunk, match in matches.items()}}
        else:
            query = self.embedded_query
            more = (
                self.reader.vectors.cosines(query.space, query.vector, missing)
                if query and missing
                else {}
            )
            covered = {}
        known = {**more, **leg.scores}
        return replace(
            leg,
            scores={chunk: known[chunk] for chunk in chunks if chunk in known},
            covered=covered,
            neighbour_credit={
                chunk: _neighbour_credit(group, known) for chunk, group in neighbours.items()
            },
        )

    def _word_scores(self, chunks: Sequence[int]) -> dict[int, Match]:
        try:
            return self.reader.keywords.scores(self.parsed.query, chunks) if chunks else {}
        except KeywordSearchUnavailable:
            return {}


def _without_last_tie(matches: Sequence[Match], limit: int) -> Sequence[Match]:
    """Leave out the matches that tie with the last one, if there may be more of them.

    Which of them an engine returns depends on the order in which notes were indexed.
    """
    if len(matches) < limit:
        return matches
    return [match for match in matches if match.score > matches[-1].score + _TIE] or matches


def _neighbour_credit(group: Neighbours, scores: Mapping[int, float]) -> float:
    """Return the score that a chunk gets for its neighbours: less, the longer they are."""
    range_of_lengths = NEIGHBOUR_LONG - NEIGHBOUR_SHORT
    share = min(1.0, max(0.0, (NEIGHBOUR_LONG - group.length) / range_of_lengths))
    best = max(0.0, *(scores.get(chunk, 0.0) for chunk in group.chunks))
    return NEIGHBOUR_CREDIT * share * best


def _unrelated(space: Space) -> tuple[float, float]:
    """Return mean and deviation of the cosine of a question and an unrelated passage."""
    mean, deviation = space.unrelated_mean, space.unrelated_deviation
    return (mean, deviation) if mean is not None and deviation else _UNMEASURED
