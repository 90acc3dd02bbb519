"""A search, step by step.

1. parse      the text becomes a query: words that rank, words that must or must not match, filters
2. retrieve   each leg returns its best chunks (filters act here, before ranking): the words by
              BM25, the meaning by the cosine of the query and a chunk in one space
3. fuse       the legs' scores become one order; a leg that is silent has no say
4. score      what the legs say of a chunk becomes relevance, between 0 and 1
5. threshold  what is below `min_score` is dropped
6. hits       chunks become passages with their note, line span and marked words
7. suggest    if nothing was found, words of the vocabulary that are nearly those typed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memwell.model import Freshness, Leg, SearchResult
from memwell.search.fuse import Evidence, standardised_sum
from memwell.search.mark import Marker
from memwell.search.normalise import above_chance, saturation
from memwell.search.parse import Parsed, parse
from memwell.search.suggest import nearest
from memwell.store.base import Match, Word, WordQuery
from memwell.store.index import Reader
from memwell.store.keyword import WordsUnavailable

if TYPE_CHECKING:
    from memwell.store.snapshot import Array
    from memwell.store.spaces import Space

POOL = 100
"""Chunks that each leg contributes at least."""
WORDS, MEANING, HYBRID = MODES = ("words", "meaning", "hybrid")


@dataclass(frozen=True, slots=True)
class Options:
    """How many hits, above which relevance, by which legs."""

    k: int = 6
    min_score: float = 0.0
    mode: str = HYBRID


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
    hits = tuple(reader.hits(ranked.chunks))
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
class Ranked:
    """The chunks that answer, each with its relevance, best first; and which legs said so."""

    chunks: Sequence[tuple[int, float]]
    legs: tuple[Leg, ...]


def rank(parsed: Parsed, options: Options, reader: Reader, ask: Ask = wordlessly) -> Ranked:
    """Steps 2 to 5."""
    if not parsed.query.has_words:
        # What filters alone ask for is just what was asked for.
        listed = reader.listed(parsed.query.filters, options.k)
        return Ranked([(chunk, 1.0) for chunk in listed], ())
    retrieval = _Retrieval(parsed, reader, max(options.k, POOL))
    if options.mode != MEANING:
        retrieval.ask_words()
    if options.mode != WORDS:
        retrieval.ask_meaning(ask)
    evidence = retrieval.evidence
    fused = standardised_sum(evidence)
    ordered = sorted(fused, key=lambda chunk: (-fused[chunk], chunk))
    scored = ((chunk, _relevance(chunk, evidence, retrieval.asked)) for chunk in ordered)
    kept = [(chunk, relevance) for chunk, relevance in scored if relevance >= options.min_score]
    return Ranked(kept[: options.k], tuple(retrieval.legs))


class _Retrieval:
    """What the legs say of one query."""

    def __init__(self, parsed: Parsed, reader: Reader, limit: int) -> None:
        self.parsed = parsed
        self.reader = reader
        self.limit = limit
        self.legs: list[Leg] = []
        self.evidence: list[Evidence] = []
        self.asked: Asked | None = None

    def ask_words(self) -> None:
        try:
            if broken := self.reader.words_unusable():
                raise WordsUnavailable(broken)
            matches = self.reader.words(self.parsed.query, self.limit)
        except WordsUnavailable as error:
            self.legs.append(Leg(WORDS, False, str(error)))
            return
        self.legs.append(Leg(WORDS, True))
        if matches:
            scores = {match.chunk_id: match.score for match in matches}
            self.evidence.append(Evidence(WORDS, scores))

    def ask_meaning(self, ask: Ask) -> None:
        asked, leg = ask(self.parsed.text, self.reader)
        self.legs += [leg] if leg else []
        if asked is None:
            return
        matches = self._nearest(asked)
        scores = {match.chunk_id: match.score for match in matches}
        if self.evidence:
            scores |= self._of_the_others(asked, scores)
        if scores:
            self.evidence.append(Evidence(MEANING, scores))
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
        more = self.reader.word_scores(self.parsed.query, unknown) if unknown else {}
        self.evidence = [Evidence(WORDS, {**dict.fromkeys(unknown, 0.0), **words.scores, **more})]
        unseen = [chunk for chunk in words.scores if chunk not in mine]
        return self.reader.cosines(asked.space, asked.vector, unseen) if unseen else {}


def within(query: WordQuery, workspaces: tuple[int, ...] | None) -> WordQuery:
    """Restrict a query to workspaces; None is all of them."""
    return replace(query, filters=replace(query.filters, workspaces=workspaces))


def _relevance(chunk: int, evidence: Sequence[Evidence], asked: Asked | None) -> float:
    """Return the strongest of what the legs say."""
    said = [0.0]
    for leg in evidence:
        score = leg.scores.get(chunk, 0.0)
        if leg.leg == WORDS:
            said.append(saturation(score))
        elif asked:
            said.append(above_chance(score, asked.space.random_mean or 0.0))
    return max(said)


def _suggestions(text: str, query: WordQuery, reader: Reader) -> Iterator[str]:
    """Yield the query with each unknown word replaced by its nearest known one."""
    words = [node for node in query.any_of if isinstance(node, Word)]
    for unknown in reader.unknown(words)[:3]:
        for token in nearest(unknown.casefold(), reader.vocabulary):
            yield text.replace(unknown, reader.written(token, unknown))
