"""A search, step by step.

 1. parse      the text becomes a query: words that rank, words that must or must not match, filters
 2. retrieve   keyword search and vector search (the legs) return their best chunks, at least 100
               each; filters apply here, before ranking
 3. fuse       the legs' scores become one order; a leg that finds nothing is ignored; hits of a
               remote store are inserted by their relevance
 4. calibrate  the legs' scores of a chunk become its relevance, between 0 and 1
 5. decay      if two chunks answer equally well, the newer one comes first; if the query names a
               time, that time decides instead; a fact comes before those that it superseded
 6. threshold  chunks whose relevance before decay is below `min_score` are weak; the weakest are
               dropped
 7. dedupe     of chunks with nearly the same text one is kept, with the locations of the others;
               the chunks of one note become one hit
 8. diversify  on request, hits that repeat an earlier hit move down
 9. hits       chunks become passages with their note, line span, highlights and context
10. suggest    for words that no note holds, similar words of the vocabulary are suggested
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter

from memwell.config.sections import SearchSettings
from memwell.errors import KeywordSearchUnavailable
from memwell.model import Freshness, Hit, Leg, SearchResult
from memwell.search.decay import OFF, UNDECAYED, Dated, Decay, decay_factors
from memwell.search.dedupe import OFF as NO_DIVERSITY
from memwell.search.dedupe import Diversity, Selected, select
from memwell.search.filter_notices import explain_filters
from memwell.search.fuse import POOL, Fusion, fuse, fusion_for
from memwell.search.highlight import Highlighter
from memwell.search.parse import Parsed, loosen, parse
from memwell.search.remote_merge import RemoteSearch, interleave, no_remote, to_candidates
from memwell.search.retrieve import (
    HYBRID,
    Candidate,
    EmbeddedQuery,
    EmbedQuery,
    Retrieval,
    no_vectors,
)
from memwell.search.spelling import distance, find_nearest
from memwell.search.superseded import FindSuccessors, raise_successors
from memwell.search.time_expressions import Period
from memwell.search.time_filter import TimedQuery, apply_time
from memwell.store.contract.index import Reader
from memwell.store.contract.query import Filters, Place, Word, WordQuery
from memwell.store.words.function_words import find_function_words

ANYWHERE = Filters()
ORDERS = (BY_SCORE, BY_DATE, DIVERSE) = ("score", "date", "diversity")
GROUPS = (NOTES, PASSAGES) = ("notes", "passages")
CONTEXTS = (NO_CONTEXT, NEIGHBOURS, SECTION) = ("none", "neighbours", "section")
_MOST_UNKNOWN = 3
_SHORTEST_MISSPELT, _LONG_MISSPELT = 4, 6
"""The letters that a word needs to be corrected: too many words are similar to a shorter one."""


@dataclass(frozen=True, slots=True)
class Options:
    """The number of hits, the threshold, the legs, the fusion and what follows it."""

    k: int = SearchSettings.k
    min_score: float = 0.0
    show_weak: bool = False
    """Whether hits below `min_score` are shown, too, and marked: see `_is_shown`."""
    mode: str = HYBRID
    fusion: Fusion = field(default_factory=Fusion)
    diversity: Diversity = field(default_factory=Diversity)
    multiplier: int = SearchSettings.candidate_multiplier
    """Candidates for each hit, if that is more than the pool."""
    decay: Decay = field(default_factory=Decay)
    context: str = NO_CONTEXT
    group: str = PASSAGES
    """The unit of a hit: a passage, or a note with its best passage."""
    explain: bool = False


def search(
    text: str,
    options: Options,
    reader: Reader,
    freshness: Freshness,
    within: Filters = ANYWHERE,
    embed_query: EmbedQuery = no_vectors,
    remote_search: RemoteSearch = no_remote,
    find_successors: FindSuccessors | None = None,
) -> SearchResult:
    """Run the steps above on one state of the index, with the remote search in parallel."""
    parsed = parse_query(text, within)
    ranked = rank(parsed, options, reader, embed_query, remote_search, find_successors)
    chosen = select_hits(ranked, options, reader)
    hits = tuple(_to_hit(selected, options, reader) for selected in chosen)
    hits = tuple(_with_focus(hits, chosen, ranked.embedded_query, reader))
    suggestions: tuple[str, ...] = ()
    query = ranked.parsed.query
    with suppress(KeywordSearchUnavailable):  # then hits have no highlights
        highlighter = Highlighter(
            query, reader.keywords.tokens, reader.keywords.document_frequency, reader.keywords.total
        )
        hits = tuple(replace(hit, marks=highlighter.spans(hit.text)) for hit in hits)
        suggestions = tuple(_suggestions(text, query, reader, only_best=bool(hits)))
    return SearchResult(
        query=text,
        hits=hits,
        legs=ranked.legs,
        freshness=freshness,
        suggestions=suggestions,
        notices=(*ranked.parsed.notices, *(() if hits else explain_filters(query.filters, reader))),
        order=DIVERSE if options.diversity.method != NO_DIVERSITY else ranked.order,
    )


def _to_hit(selected: Selected, options: Options, reader: Reader) -> Hit:
    hit = selected.to_hit(options.min_score, explain=options.explain)
    if options.context == NO_CONTEXT or selected.candidate.hit:
        return hit
    whole_section = options.context == SECTION
    return replace(hit, context=reader.chunks.context(selected.candidate.chunk_id, whole_section))


def _with_focus(
    hits: Sequence[Hit], chosen: Sequence[Selected], query: EmbeddedQuery | None, reader: Reader
) -> Iterator[Hit]:
    """Yield the hits, each list with the item that is most similar to the query."""
    if query is None:
        yield from hits
        return
    from memwell.embed.list_items import item_spans, most_similar_item

    lists = [
        selected.candidate.chunk_id
        for hit, selected in zip(hits, chosen, strict=True)
        if not selected.candidate.hit and item_spans(hit.text)
    ]
    vectors = reader.vectors.windows(query.space, lists) if lists else {}
    for hit, selected in zip(hits, chosen, strict=True):
        rows = vectors.get(selected.candidate.chunk_id)
        focus = None if rows is None else most_similar_item(hit.text, rows, query.vector)
        yield replace(hit, focus=focus) if focus else hit


def parse_query(text: str, within: Filters = ANYWHERE) -> Parsed:
    """Step 1. `within` adds filters that have no query syntax: workspaces, exact paths, a time."""
    parsed = parse(text)
    added = {name: getattr(within, name) for name in ("workspaces", "exact_paths", "valid_at")}
    filters = replace(parsed.query.filters, **added)
    return replace(parsed, query=replace(parsed.query, filters=filters))


@dataclass(frozen=True, slots=True)
class Ranked:
    """The chunks that answer, best first, and how they were found."""

    parsed: Parsed
    candidates: Sequence[Candidate]
    legs: tuple[Leg, ...] = ()
    embedded_query: EmbeddedQuery | None = None
    period: Period | None = None
    below: Sequence[Candidate] = ()
    """The chunks whose relevance is below the threshold."""
    order: str = BY_SCORE


def rank(
    parsed: Parsed,
    options: Options,
    reader: Reader,
    embed_query: EmbedQuery = no_vectors,
    remote_search: RemoteSearch = no_remote,
    find_successors: FindSuccessors | None = None,
) -> Ranked:
    """Steps 2 to 6."""
    if not parsed.query.has_words:
        return _list_filtered(parsed, options, reader)
    timed = apply_time(parsed, options.decay.today, reader)
    if timed.lists_period:
        return _list_filtered(timed.parsed, options, reader)
    remote = remote_search if _can_search_remote(parsed) else no_remote
    remote_result = remote(parsed.text, options.k)
    retrieval = _retrieve(timed.parsed, options, reader, embed_query)
    if not retrieval.evidence and (looser := loosen(timed.parsed)):
        retrieval = _retrieve(looser, options, reader, embed_query)
    fusion = fusion_for(parsed.text, options.fusion)
    candidates = retrieval.candidates(fuse(retrieval.evidence, fusion))
    places = reader.chunks.places([candidate.chunk_id for candidate in candidates])
    for candidate in candidates:
        place = places[candidate.chunk_id]
        candidate.place = place.path, -place.seq
    # Decay comes before the threshold, so that a higher threshold only removes hits.
    _apply_decay(candidates, options.decay, timed, places)
    if find_successors:
        raise_successors(candidates, find_successors([place.path for place in places.values()]))
    hits, leg = remote_result()
    local = sorted(candidates, key=attrgetter("order"), reverse=True)
    ordered = interleave(local, to_candidates(hits))
    shown: list[Candidate] = []
    below: list[Candidate] = []
    for candidate in ordered:
        (shown if _is_shown(candidate, options) else below).append(candidate)
    return Ranked(
        retrieval.parsed,
        shown,
        (*retrieval.legs, *([leg] if leg else [])),
        retrieval.embedded_query,
        timed.period,
        below,
    )


def _list_filtered(parsed: Parsed, options: Options, reader: Reader) -> Ranked:
    """List the chunks that the filters select, newest first, each with relevance 1."""
    listed = reader.chunks.list_filtered(parsed.query.filters, options.k * options.multiplier)
    return Ranked(parsed, [Candidate(chunk, 1.0) for chunk in listed], order=BY_DATE)


def _is_shown(candidate: Candidate, options: Options) -> bool:
    """Step 6: whether a candidate may be a hit.

    One below the threshold may if its note is of the time that the query names, if it holds words
    of the query, or if it ranks above the average candidate.
    """
    if candidate.relevance >= options.min_score or candidate.decay.gain:
        return True
    return options.show_weak and bool(candidate.word_coverage or candidate.fused > 0)


def _can_search_remote(parsed: Parsed) -> bool:
    """Whether a remote store can answer the query: it knows no filters and no operators."""
    query = parsed.query
    return not (query.filters.selects_content or query.all_of or query.none_of)


def _retrieve(
    parsed: Parsed, options: Options, reader: Reader, embed_query: EmbedQuery
) -> Retrieval:
    retrieval = Retrieval(parsed, reader, max(options.k * options.multiplier, POOL))
    retrieval.run(options.mode, embed_query)
    return retrieval


def _apply_decay(
    candidates: Sequence[Candidate],
    decay: Decay,
    timed: TimedQuery,
    places: Mapping[int, Place],
) -> None:
    """Step 5: set the decay of each candidate."""
    ages = decay.method != OFF and decay.today and any(place.date for place in places.values())
    if timed.period is None and not ages:
        return
    dated = []
    for candidate in candidates:
        place = places[candidate.chunk_id]
        # Relevance 0 for overflow candidates: they must not be the newest note that ages the
        # others, or the score of a hit would depend on k.
        relevance = 0.0 if candidate.overflow_rank else candidate.relevance
        dated.append(Dated(relevance, place.path, place.date))
    factors = decay_factors(dated, decay, timed.period)
    naming_date = timed.parsed.query.filters.at_any_time
    for candidate, passage, factor in zip(candidates, dated, factors, strict=True):
        # A note of another time may name the date of the query.
        kept = factor.wrong_time and passage.path in naming_date
        candidate.decay = UNDECAYED if kept else factor


def select_hits(ranked: Ranked, options: Options, reader: Reader) -> list[Selected]:
    """Steps 7 and 8."""
    choice = options.k * options.multiplier
    return select(
        ranked.candidates,
        options.k,
        choice,
        options.diversity,
        reader,
        ranked.embedded_query,
        by_note=options.group == NOTES,
    )


def _suggestions(text: str, query: WordQuery, reader: Reader, *, only_best: bool) -> Iterator[str]:
    """Yield the query with its unknown words replaced by the nearest known ones.

    The first replaces every unknown word. The others replace one word each. If something was
    found, an unknown word may be right: then only long words with one wrong letter are replaced.
    """
    words = [node for node in query.any_of if isinstance(node, Word)]
    grammar = find_function_words(word.text for word in words)
    words = [word for word in words if word.text not in grammar]
    least, edits = (_LONG_MISSPELT, 1) if only_best else (_SHORTEST_MISSPELT, 2)
    unknown = [
        word
        for word in reader.keywords.unknown_words(words)
        if len(word) >= least and word.isalpha()
    ]
    known = {word: _known_words(word, edits, query, reader) for word in unknown[:_MOST_UNKNOWN]}
    corrected = text
    for word, similar in known.items():
        corrected = corrected.replace(word, similar[0]) if similar else corrected
    others = [text.replace(word, other) for word, similar in known.items() for other in similar]
    suggestions = dict.fromkeys([corrected] if only_best else [corrected, *others])
    yield from (suggestion for suggestion in suggestions if suggestion != text)


def _known_words(unknown: str, edits: int, query: WordQuery, reader: Reader) -> list[str]:
    """Return the words of the notes that are similar to an unknown word, the nearest first."""
    ((stem, _), *_) = reader.keywords.tokens(unknown)
    words = reader.keywords
    tokens = find_nearest(stem, words.vocabulary, words.document_frequency, most_edits=edits)
    forms = (reader.keywords.surface_form(token, unknown, query.filters) for token in tokens)
    # Stems may be nearer than words: "último" and "ultimate" are "ultimo" and "ultim".
    return [form for form in forms if form and (edits > 1 or distance(unknown, form, 1) == 1)]
