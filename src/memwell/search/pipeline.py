"""A search, step by step.

 1. parse      the text becomes a query: words that rank, words that must or must not match, filters
 2. retrieve   each leg returns its best chunks, at least 100 (filters act here, before ranking)
 3. fuse       the legs' scores become one order; a leg that is silent has no say; what another
               store found is placed among them by its relevance
 4. calibrate  what the legs say of a chunk becomes its relevance, between 0 and 1
 5. decay      of two that answer the newer comes first; a time that the query speaks of counts more
 6. threshold  what is below `min_score` is dropped, by its relevance before decay
 7. dedupe     of chunks with nearly the same text one is kept, and says where the others stand
 8. diversify  where that is asked for, hits that say the same as one before them give way
 9. hits       chunks become passages with their note, line span, marked words and context
10. suggest    if nothing was found, words of the vocabulary that are nearly those typed
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from memwell.config.sections import SearchSettings
from memwell.model import Freshness, Hit, Leg, SearchResult
from memwell.search.decay import OFF, Dated, Decay, decay_factors, parse_day
from memwell.search.dedupe import Diversity, Selected, select
from memwell.search.fuse import POOL, Fusion, fuse
from memwell.search.highlight import Highlighter
from memwell.search.parse import Parsed, parse, without_quotes
from memwell.search.remote_merge import RemoteSearch, interleave, no_remote
from memwell.search.remote_merge import candidates as from_elsewhere
from memwell.search.retrieve import (
    HYBRID,
    Candidate,
    EmbeddedQuery,
    EmbedQuery,
    Retrieval,
    no_vectors,
)
from memwell.search.spelling import find_nearest
from memwell.search.time_expressions import Event, Period, find_period
from memwell.store.contract.index import Reader
from memwell.store.contract.query import Filters, Word, WordQuery
from memwell.store.sqlite.fts import KeywordSearchUnavailable

ANYWHERE = Filters()
CONTEXTS = (NO_CONTEXT, NEIGHBOURS, SECTION) = ("none", "neighbours", "section")
_SURE = 0.8
"""Of the words for an event, what a passage must cover to be the one that dates it."""


@dataclass(frozen=True, slots=True)
class Options:
    """How many hits, above which relevance, by which legs and how fused."""

    k: int = SearchSettings.k
    min_score: float = 0.0
    mode: str = HYBRID
    fusion: Fusion = field(default_factory=Fusion)
    diversity: Diversity = field(default_factory=Diversity)
    multiplier: int = SearchSettings.candidate_multiplier
    """Candidates to choose each hit from, where that is more than the pool."""
    decay: Decay = field(default_factory=Decay)
    context: str = NO_CONTEXT
    explain: bool = False


def search(
    text: str,
    options: Options,
    reader: Reader,
    freshness: Freshness,
    within: Filters = ANYWHERE,
    ask: EmbedQuery = no_vectors,
    elsewhere: RemoteSearch = no_remote,
) -> SearchResult:
    """Run the steps above over one state of the index, and ask elsewhere meanwhile."""
    ranked = rank(read_text(text, within), options, reader, ask, elsewhere)
    chosen = select_hits(ranked, options, reader)
    hits = tuple(_hit(one, options, reader) for one in chosen)
    suggestions: tuple[str, ...] = ()
    query = ranked.parsed.query
    with suppress(KeywordSearchUnavailable):  # then hits are shown plain
        marker = Highlighter(
            query, reader.keywords.tokens, reader.keywords.document_frequency, reader.total
        )
        hits = tuple(replace(hit, marks=marker.spans(hit.text)) for hit in hits)
        suggestions = () if hits else tuple(_suggestions(text, query, reader))
    return SearchResult(
        query=text,
        hits=hits,
        legs=ranked.legs,
        freshness=freshness,
        suggestions=suggestions,
        notices=ranked.parsed.notices,
    )


def _hit(chosen: Selected, options: Options, reader: Reader) -> Hit:
    hit = chosen.to_hit(options.min_score, explain=options.explain)
    if options.context == NO_CONTEXT or chosen.candidate.hit:
        return hit
    whole_section = options.context == SECTION
    return replace(hit, context=reader.chunks.context(chosen.candidate.chunk_id, whole_section))


def read_text(text: str, within: Filters = ANYWHERE) -> Parsed:
    """Step 1; `within` says what no query can: which workspaces, which paths, at which time."""
    parsed = parse(text)
    beyond = {name: getattr(within, name) for name in ("workspaces", "exact_paths", "valid_at")}
    filters = replace(parsed.query.filters, **beyond)
    return replace(parsed, query=replace(parsed.query, filters=filters))


@dataclass(frozen=True, slots=True)
class Ranked:
    """The chunks that answer, best first, and how they were found."""

    parsed: Parsed
    candidates: Sequence[Candidate]
    legs: tuple[Leg, ...] = ()
    asked: EmbeddedQuery | None = None
    period: Period | None = None
    below: Sequence[Candidate] = ()
    """Those whose relevance was too low."""


def rank(
    parsed: Parsed,
    options: Options,
    reader: Reader,
    ask: EmbedQuery = no_vectors,
    elsewhere: RemoteSearch = no_remote,
) -> Ranked:
    """Steps 2 to 6."""
    if not parsed.query.has_words:
        # What filters alone ask for is just what was asked for.
        listed = reader.chunks.list_filtered(parsed.query.filters, options.k)
        return Ranked(parsed, [Candidate(chunk, 1.0) for chunk in listed])
    answer = (elsewhere if _searches_everywhere(parsed) else no_remote)(parsed.text, options.k)
    retrieval = _retrieve(parsed, options, reader, ask)
    if not retrieval.evidence and (looser := without_quotes(parsed)):
        retrieval = _retrieve(looser, options, reader, ask)
    candidates = retrieval.candidates(fuse(retrieval.evidence, options.fusion))
    period = _period(retrieval.parsed, options.decay, reader)
    # Before the threshold, so that a higher one only removes.
    _age(candidates, options.decay, period, reader)
    hits, leg = answer()
    ordered = interleave(sorted(candidates, key=lambda found: found.order), from_elsewhere(hits))
    return Ranked(
        retrieval.parsed,
        [found for found in ordered if found.relevance >= options.min_score],
        (*retrieval.legs, *([leg] if leg else [])),
        retrieval.asked,
        period,
        [found for found in ordered if found.relevance < options.min_score],
    )


def _searches_everywhere(parsed: Parsed) -> bool:
    """Whether a query asks for nothing that only the index can tell."""
    query = parsed.query
    return not (query.filters.selects_content or query.all_of or query.none_of)


def _retrieve(parsed: Parsed, options: Options, reader: Reader, ask: EmbedQuery) -> Retrieval:
    retrieval = Retrieval(parsed, reader, max(options.k * options.multiplier, POOL))
    retrieval.run(options.mode, ask)
    return retrieval


def _period(parsed: Parsed, decay: Decay, reader: Reader) -> Period | None:
    """Return the time that a query speaks of; what has no date of its own is looked up."""
    spoken = find_period(parsed.text, decay.today)
    if not isinstance(spoken, Event):
        return spoken
    day = _day_of(read_text(spoken.what, parsed.query.filters).query, reader)
    return spoken.period(day) if day else None


def _day_of(event: WordQuery, reader: Reader) -> dt.date | None:
    """Return the date of the note that surely tells of an event, if one does."""
    with suppress(KeywordSearchUnavailable):
        sure = _SURE * reader.keywords.ideal_score(event)
        matches = [
            match.chunk_id for match in reader.keywords.search(event, POOL) if match.score >= sure
        ]
        notes = reader.chunks.note_dates(matches)
        return next((day for match in matches if (day := parse_day(notes[match][1]))), None)
    return None


def _age(
    candidates: Sequence[Candidate], decay: Decay, period: Period | None, reader: Reader
) -> None:
    """Step 5: what time leaves of each."""
    if period is None and (decay.method == OFF or decay.today is None):
        return
    notes = reader.chunks.note_dates([found.chunk_id for found in candidates])
    dated = [  # none is older for what is only there because many hits were asked for
        Dated(0.0 if found.overflow_rank else found.relevance, *notes[found.chunk_id])
        for found in candidates
    ]
    for found, kept in zip(candidates, decay_factors(dated, decay, period), strict=True):
        found.decay = kept


def select_hits(ranked: Ranked, options: Options, reader: Reader) -> list[Selected]:
    """Steps 7 and 8."""
    choice = options.k * options.multiplier
    return select(ranked.candidates, options.k, choice, options.diversity, reader, ranked.asked)


def _suggestions(text: str, query: WordQuery, reader: Reader) -> Iterator[str]:
    """Yield the query with each unknown word replaced by its nearest known one."""
    words = [node for node in query.any_of if isinstance(node, Word)]
    for unknown in reader.keywords.unknown_words(words)[:3]:
        for token in find_nearest(unknown.casefold(), reader.keywords.vocabulary):
            if word := reader.keywords.surface_form(token, unknown, query.filters):
                yield text.replace(unknown, word)
