"""A search, step by step.

1. parse      the text becomes a query: words that rank, words that must or must not match, filters
2. retrieve   each leg returns its best chunks (filters act here, before ranking): the words by
              BM25, the meaning by the cosine of the query and a chunk in one space. Of a chunk that
              only one of them brought, the other is asked too; short chunks borrow from those
              beside them
3. fuse       the legs' scores become one order; a leg that is silent has no say
4. calibrate  what the legs say of a chunk becomes its relevance, between 0 and 1
5. threshold  what is below `min_score` is dropped
6. dedupe     of chunks with the same text the best is kept, and says where the others stand
7. diversify  where that is asked for, hits that say the same as one before them give way
8. hits       chunks become passages with their note, line span and marked words
9. suggest    if nothing was found, words of the vocabulary that are nearly those typed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memwell.model import Freshness, Hit, Leg, Part, SearchResult, Trace
from memwell.search.calibrate import relevance
from memwell.search.diversify import mmr
from memwell.search.fuse import (
    MEANING,
    USUAL_STANDING,
    WORDS,
    Evidence,
    Fusion,
    fuse,
    fused,
)
from memwell.search.mark import Marker
from memwell.search.parse import Parsed, parse
from memwell.search.suggest import nearest
from memwell.store.base import Beside, Match, Word, WordQuery
from memwell.store.index import Reader
from memwell.store.keyword import WordsUnavailable

if TYPE_CHECKING:
    from memwell.store.snapshot import Array
    from memwell.store.spaces import Space

POOL = 100
"""Chunks that each leg contributes at least."""
HYBRID = "hybrid"
MODES = (WORDS, MEANING, HYBRID)
DIVERSITIES = (OFF, MMR) = ("off", "mmr")
CHOICE = 4
"""Passages to choose each hit from, where hits are to differ."""
BORROWED = 0.3
"""Of the best BM25 beside it, what a short chunk is credited with."""
SHORT, LONG = 300, 600
"""Characters, on average of a chunk and those beside it: up to the one a chunk borrows in full,
from the other on nothing. A turn of a conversation hardly makes sense alone, a section does."""


@dataclass(frozen=True, slots=True)
class Options:
    """How many hits, above which relevance, by which legs and how fused."""

    k: int = 6
    min_score: float = 0.0
    mode: str = HYBRID
    fusion: Fusion = field(default_factory=Fusion)
    diversity: str = "off"
    mmr_lambda: float = 0.7
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as a vector of one space."""

    space: Space
    vector: Array


Ask = Callable[[str, Reader], tuple[Asked | None, Leg | None]]
"""Embeds a query, and says how that went; no leg where there is nothing to say."""


def wordlessly(text: str, reader: Reader) -> tuple[None, None]:
    """An `Ask` for a memory without vectors."""
    return None, None


def search(
    text: str,
    options: Options,
    reader: Reader,
    freshness: Freshness,
    workspaces: tuple[int, ...] | None = None,
    ask: Ask = wordlessly,
) -> SearchResult:
    """Run the steps above over one state of the index; `workspaces` None is all of them."""
    parsed = parse(text)
    parsed = replace(parsed, query=within(parsed.query, workspaces))
    ranked = rank(parsed, options, reader, ask)
    hits = _diverse(_distinct(ranked, options, reader), options)
    suggestions: tuple[str, ...] = ()
    with suppress(WordsUnavailable):  # then hits are shown plain
        marker = Marker(parsed.query, reader.tokens, reader.rows, reader.total)
        hits = tuple(replace(hit, marks=marker.marks(hit.text)) for hit in hits)
        suggestions = () if hits else tuple(_suggestions(text, parsed.query, reader))
    return SearchResult(
        query=text,
        hits=hits,
        legs=ranked.legs,
        freshness=freshness,
        suggestions=suggestions,
        notices=parsed.notices,
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that may become a hit, and what is known of it."""

    chunk_id: int
    relevance: float
    parts: tuple[Part, ...] = ()
    above_chance: float | None = None
    covered: float | None = None

    def trace(self, min_score: float) -> Trace:
        """Say how its score came about."""
        return Trace(
            self.parts, fused(self.parts), self.above_chance, self.covered, self.relevance,
            min_score,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ranked:
    """The chunks that answer, best first, and which legs said so."""

    candidates: Sequence[Candidate]
    legs: tuple[Leg, ...]


def rank(parsed: Parsed, options: Options, reader: Reader, ask: Ask = wordlessly) -> Ranked:
    """Steps 2 to 5."""
    if not parsed.query.has_words:
        # What filters alone ask for is just what was asked for.
        listed = reader.listed(parsed.query.filters, options.k)
        return Ranked([Candidate(chunk, 1.0) for chunk in listed], ())
    retrieval = _Retrieval(parsed, reader, max(options.k, POOL))
    if options.mode != MEANING:
        retrieval.ask_words()
    if options.mode != WORDS:
        retrieval.ask_meaning(ask)
    parts = fuse(retrieval.evidence, options.fusion)
    scores = {chunk: fused(said) for chunk, said in parts.items()}
    ordered = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))
    candidates = (retrieval.candidate(chunk, parts[chunk]) for chunk in ordered)
    return Ranked(
        [found for found in candidates if found.relevance >= options.min_score],
        tuple(retrieval.legs),
    )


def _distinct(ranked: Ranked, options: Options, reader: Reader) -> tuple[Hit, ...]:
    """Steps 6 and 8: the first passages with different texts; what filters list is listed."""
    wanted = options.k * (1 if options.diversity == OFF else CHOICE)
    kept: dict[str | int, Hit] = {}
    for candidate in ranked.candidates:
        (hit,) = reader.hits([(candidate.chunk_id, candidate.relevance)])
        same = " ".join(hit.text.casefold().split()) if candidate.parts else candidate.chunk_id
        if same in kept:
            place = f"{hit.path}:{hit.start_line}"
            kept[same] = replace(kept[same], also=(*kept[same].also, place))
        elif len(kept) < wanted:
            trace = candidate.trace(options.min_score) if options.explain else None
            kept[same] = replace(hit, trace=trace)
        else:
            break
    return tuple(kept.values())


def _diverse(hits: tuple[Hit, ...], options: Options) -> tuple[Hit, ...]:
    """Step 7: of those that say nearly the same, one first."""
    if options.diversity == OFF:
        return hits
    relevances, texts = [hit.relevance for hit in hits], [hit.text for hit in hits]
    return tuple(hits[at] for at in mmr(relevances, texts, options.k, options.mmr_lambda))


class _Retrieval:
    """What the legs say of one query."""

    def __init__(self, parsed: Parsed, reader: Reader, limit: int) -> None:
        self.parsed = parsed
        self.reader = reader
        self.limit = limit
        self.legs: list[Leg] = []
        self.evidence: list[Evidence] = []
        self.asked: Asked | None = None
        self.ideal = 0.0

    def candidate(self, chunk: int, parts: tuple[Part, ...]) -> Candidate:
        """Bring what the legs say of a chunk to scales that mean the same everywhere."""
        raw = {part.leg: part.raw for part in parts}
        cosine, score = raw.get(MEANING), raw.get(WORDS)
        above = covered = None
        if cosine is not None and self.asked:
            above = _above_chance(self.asked.space, cosine)
        if score is not None:
            covered = score / self.ideal if self.ideal else 1.0
        return Candidate(chunk, relevance(above, covered), parts, above, covered)

    def ask_words(self) -> None:
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
            coverage = max(scores.values()) / self.ideal if self.ideal else 1.0
            self.evidence.append(Evidence(WORDS, scores, [*scores], coverage=coverage))

    def ask_meaning(self, ask: Ask) -> None:
        asked, leg = ask(self.parsed.text, self.reader)
        self.legs += [leg] if leg else []
        if asked is None:
            return
        found = {match.chunk_id: match.score for match in self._nearest(asked)}
        if not found:
            return
        scores = {**found}
        if self.evidence:
            scores |= self._of_the_others(asked, found)
        standing = _above_chance(asked.space, max(scores.values()))
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


def _above_chance(space: Space, cosine: float) -> float:
    """Return by how many deviations a cosine lies above that of two random passages."""
    if space.random_mean is None or not space.random_deviation:
        return USUAL_STANDING if cosine > 0.5 else 0.0
    return (cosine - space.random_mean) / space.random_deviation


def within(query: WordQuery, workspaces: tuple[int, ...] | None) -> WordQuery:
    """Restrict a query to workspaces; None is all of them."""
    return replace(query, filters=replace(query.filters, workspaces=workspaces))


def _suggestions(text: str, query: WordQuery, reader: Reader) -> Iterator[str]:
    """Yield the query with each unknown word replaced by its nearest known one."""
    words = [node for node in query.any_of if isinstance(node, Word)]
    for unknown in reader.unknown(words)[:3]:
        for token in nearest(unknown.casefold(), reader.vocabulary):
            yield text.replace(unknown, reader.written(token, unknown))
