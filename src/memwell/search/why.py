"""Why a search does or does not return a note: its rank, or the step that dropped it.

The steps are those of the search itself (pipeline.py), followed for one note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from memwell.model import Trace
from memwell.search.dedupe import OFF, Selected, build_trace
from memwell.search.pipeline import Options, Ranked, parse_query, rank, select_hits
from memwell.search.retrieve import Candidate, EmbedQuery
from memwell.store.contract.index import Reader
from memwell.store.contract.query import Filters

FOUND = "found"
NOT_INDEXED = "not indexed"
FILTERED = "filtered"
EXCLUDED = "excluded"
OUTSIDE = "outside the pool"
BELOW = "below the threshold"
COLLAPSED = "collapsed"
NOT_DIVERSE = "not diverse"
DECAYED = "decayed"
OUTRANKED = "outranked"


@dataclass(frozen=True, slots=True)
class Why:
    """The verdict on one note in one search, with the reason and a remedy."""

    query: str
    path: str
    verdict: str
    reason: str
    remedy: str = ""
    trace: Trace | None = None
    """Of the note's best passage, if a leg found one."""

    @property
    def found(self) -> bool:
        """Whether the note is among the hits."""
        return self.verdict == FOUND


def why(
    text: str,
    path: str,
    chunks: Sequence[int],
    options: Options,
    reader: Reader,
    within: Filters,
    embed_query: EmbedQuery,
) -> Why:
    """Follow the chunks of a note through a search."""
    parsed = parse_query(text, within)
    mine = frozenset(chunks)
    if filtered := _find_excluding_filter(parsed.query.filters, chunks, reader):
        return Why(text, path, FILTERED, f"{filtered} excludes it", f"Search without {filtered}")
    ranked = rank(parsed, options, reader, embed_query)
    chosen = select_hits(ranked, options, reader)
    verdict = (
        _among_hits(chosen, mine, options)
        or _lost_in_order(ranked, chosen, mine, options)
        or _below_threshold(ranked, mine, options)
        or _never_a_candidate(ranked, chunks, reader)
    )
    return replace(verdict, query=text, path=path)


def _verdict(verdict: str, reason: str, remedy: str = "", trace: Trace | None = None) -> Why:
    return Why("", "", verdict, reason, remedy, trace)


def _find_excluding_filter(filters: Filters, chunks: Sequence[int], reader: Reader) -> str:
    """Return the filter that excludes a note, as a user types it; "" if none does."""
    no_filter = Filters(workspaces=filters.workspaces)
    for name, prefix in _PREFIXES.items():
        single = replace(no_filter, **{name: getattr(filters, name)})
        if single != no_filter and not reader.chunks.has_allowed(single, chunks):
            value = getattr(filters, name)
            shown = value if isinstance(value, str) else " ".join(value)
            return f"{prefix}{shown}"
    return ""


_PREFIXES = {
    "paths": "path:",
    "not_paths": "-path:",
    "tags": "tag:",
    "not_tags": "-tag:",
    "after": "after:",
    "before": "before:",
}


def _among_hits(chosen: Sequence[Selected], mine: frozenset[int], options: Options) -> Why | None:
    for place, selected in enumerate(chosen, 1):
        if selected.candidate.chunk_id in mine:
            hit = selected.to_hit(options.min_score, explain=True)
            return _verdict(FOUND, f"hit {place} of {len(chosen)}", trace=hit.trace)
    for place, selected in enumerate(chosen, 1):
        if any(copy.chunk_id in mine for copy, _ in selected.copies):
            where = f"{selected.hit.path}:{selected.hit.start_line}"
            return _verdict(COLLAPSED, f"hit {place}, {where}, is nearly the same and lists it")
    return None


def _lost_in_order(
    ranked: Ranked, chosen: Sequence[Selected], mine: frozenset[int], options: Options
) -> Why | None:
    at, best = _best_of_note(ranked.candidates, mine)
    if best is None:
        return None
    trace = build_trace(best, options.min_score)
    place = f"candidate {at} of {len(ranked.candidates)}"
    if options.diversity.method != OFF and at <= options.k * options.multiplier:
        return _verdict(
            NOT_DIVERSE,
            f"{place}, too similar to hits before it",
            "Search with --diversity off",
            trace,
        )
    undecayed = sorted(ranked.candidates, key=attrgetter("fused", "place"), reverse=True)
    place_before, _ = _best_of_note(undecayed, mine)
    if place_before <= len(chosen) < at:
        reason = f"{place}; without decay it would be {place_before} ({best.decay.why})"
        remedy = "Name its date in the query, or set search.decay to off"
        return _verdict(DECAYED, reason, remedy, trace)
    return _verdict(
        OUTRANKED, f"{place}, and {options.k} hits are shown", f"Show more hits: -k {at}", trace
    )


def _below_threshold(ranked: Ranked, mine: frozenset[int], options: Options) -> Why | None:
    _, best = _best_of_note(ranked.below, mine)
    if best is None:
        return None
    return _verdict(
        BELOW,
        f"its relevance {best.relevance:.3f} is below min_score {options.min_score:g}",
        f"Search with --min-score {best.relevance - 0.0005:.3f}",
        build_trace(best, options.min_score),
    )


def _never_a_candidate(ranked: Ranked, chunks: Sequence[int], reader: Reader) -> Why:
    query = ranked.parsed.query
    if not query.has_words:
        return _verdict(OUTRANKED, "the filters list other notes before it", "Show more hits: -k")
    if (query.all_of or query.none_of) and not reader.keywords.has_matching(query, chunks):
        return _verdict(
            EXCLUDED,
            "it lacks required words, or it contains excluded words",
            "Search for plain words, without quotes, AND and -",
        )
    period = ranked.period
    if period and query.filters.undated:
        return _verdict(FILTERED, f"it is not dated {period}", "Search without the time")
    legs = "; ".join(_leg_places(ranked, chunks, reader))
    return _verdict(OUTSIDE, legs or "no leg answered", "Use words that the note contains")


def _leg_places(ranked: Ranked, chunks: Sequence[int], reader: Reader) -> Iterator[str]:
    """Yield the place of the note in the full result of each leg."""
    mine, query, everything = frozenset(chunks), ranked.parsed.query, max(1, reader.keywords.total)
    for leg in ranked.legs:
        if not leg.answered:
            yield f"{leg.name}: did not answer ({leg.reason})"
            continue
        if leg.name == "words":
            matches = reader.keywords.search(query, everything)
        elif ranked.embedded_query:
            matches = reader.vectors.nearest(
                ranked.embedded_query.space, ranked.embedded_query.vector, query, everything
            )
        else:
            continue
        at = next((n for n, match in enumerate(matches, 1) if match.chunk_id in mine), None)
        missing = "no word in common" if leg.name == "words" else "the note has no vector"
        yield f"{leg.name}: " + (missing if at is None else f"place {at} of {len(matches)}")


def _best_of_note(
    candidates: Sequence[Candidate], mine: frozenset[int]
) -> tuple[int, Candidate | None]:
    """Return the place of a note's best chunk, from 1, and the chunk."""
    places = (
        (at, candidate) for at, candidate in enumerate(candidates, 1) if candidate.chunk_id in mine
    )
    return next(places, (len(candidates) + 1, None))
