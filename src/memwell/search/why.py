"""Where a note was lost on its way through a search, or at which place it is.

The steps are those of the search itself (pipeline.py); here they are asked about one note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memwell.model import Trace
from memwell.search.dedupe import OFF, Selected, add_trace
from memwell.search.pipeline import Options, Ranked, rank, read_text, select_hits
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
    """What became of a note in a search."""

    query: str
    path: str
    verdict: str
    reason: str
    remedy: str = ""
    trace: Trace | None = None
    """Of its best passage, if a leg brought one."""

    @property
    def found(self) -> bool:
        """Whether it is among the hits."""
        return self.verdict == FOUND


def why(
    text: str,
    path: str,
    chunks: Sequence[int],
    options: Options,
    reader: Reader,
    within: Filters,
    ask: EmbedQuery,
) -> Why:
    """Follow the chunks of a note through a search."""
    parsed = read_text(text, within)
    mine = frozenset(chunks)
    if filtered := _filtered(parsed.query.filters, chunks, reader):
        return Why(text, path, FILTERED, f"{filtered} leaves it out", f"Search without {filtered}")
    ranked = rank(parsed, options, reader, ask)
    chosen = select_hits(ranked, options, reader)
    verdict = (
        _among_hits(chosen, mine, options)
        or _lost_in_order(ranked, chosen, mine, options)
        or _below(ranked, mine, options)
        or _never_a_candidate(ranked, chunks, reader)
    )
    return replace(verdict, query=text, path=path)


def _verdict(verdict: str, reason: str, remedy: str = "", trace: Trace | None = None) -> Why:
    return Why("", "", verdict, reason, remedy, trace)


def _filtered(filters: Filters, chunks: Sequence[int], reader: Reader) -> str:
    """Return the filter that leaves a note out."""
    nothing = Filters(workspaces=filters.workspaces)
    for name in _TYPED:
        one = replace(nothing, **{name: getattr(filters, name)})
        if one != nothing and not reader.chunks.has_allowed(one, chunks):
            value = getattr(filters, name)
            shown = value if isinstance(value, str) else " ".join(value)
            return f"{_TYPED[name]}{shown}"
    return ""


_TYPED = {
    "paths": "path:",
    "not_paths": "-path:",
    "tags": "tag:",
    "not_tags": "-tag:",
    "after": "after:",
    "before": "before:",
}


def _among_hits(chosen: Sequence[Selected], mine: frozenset[int], options: Options) -> Why | None:
    for place, one in enumerate(chosen, 1):
        if one.candidate.chunk_id in mine:
            hit = one.to_hit(options.min_score, explain=True)
            return _verdict(FOUND, f"hit {place} of {len(chosen)}", trace=hit.trace)
    for place, one in enumerate(chosen, 1):
        if any(copy.chunk_id in mine for copy, _ in one.copies):
            where = f"{one.hit.path}:{one.hit.start_line}"
            return _verdict(COLLAPSED, f"hit {place}, {where}, says nearly the same and lists it")
    return None


def _lost_in_order(
    ranked: Ranked, chosen: Sequence[Selected], mine: frozenset[int], options: Options
) -> Why | None:
    at, best = _best(ranked.candidates, mine)
    if best is None:
        return None
    trace = add_trace(best, options.min_score)
    place = f"candidate {at} of {len(ranked.candidates)}"
    if options.diversity.method != OFF and at <= options.k * options.multiplier:
        return _verdict(
            NOT_DIVERSE,
            f"{place}, too like hits that are shown",
            "Search with --diversity off",
            trace,
        )
    ageless = sorted(ranked.candidates, key=lambda one: (-one.fused, one.chunk_id))
    before, _ = _best(ageless, mine)
    if before <= len(chosen) < at:
        reason = f"{place}; without time it would be {before} ({best.decay.why})"
        remedy = "Name its time in the query, or set search.decay to off"
        return _verdict(DECAYED, reason, remedy, trace)
    return _verdict(
        OUTRANKED, f"{place}, and {options.k} hits are shown", f"Ask for more hits: -k {at}", trace
    )


def _below(ranked: Ranked, mine: frozenset[int], options: Options) -> Why | None:
    _, best = _best(ranked.below, mine)
    if best is None:
        return None
    return _verdict(
        BELOW,
        f"its relevance {best.relevance:.3f} is below min_score {options.min_score:g}",
        f"Search with --min-score {best.relevance - 0.0005:.3f}",
        add_trace(best, options.min_score),
    )


def _never_a_candidate(ranked: Ranked, chunks: Sequence[int], reader: Reader) -> Why:
    query = ranked.parsed.query
    if not query.has_words:
        return _verdict(OUTRANKED, "the filters list more notes before it", "Ask for more hits: -k")
    if (query.all_of or query.none_of) and not reader.keywords.has_matching(query, chunks):
        return _verdict(
            EXCLUDED,
            "it lacks what must match, or holds what must not",
            "Search for plain words, without quotes, AND and -",
        )
    legs = "; ".join(_places(ranked, chunks, reader))
    return _verdict(OUTSIDE, legs or "no leg answered", "Use words that it holds, or ask otherwise")


def _places(ranked: Ranked, chunks: Sequence[int], reader: Reader) -> Iterator[str]:
    """Yield where each leg has it, however far down."""
    mine, query, everything = frozenset(chunks), ranked.parsed.query, max(1, reader.total)
    for leg in ranked.legs:
        if not leg.answered:
            yield f"{leg.name}: did not answer ({leg.reason})"
            continue
        if leg.name == "words":
            matches = reader.keywords.search(query, everything)
        elif ranked.asked:
            matches = reader.vectors.nearest(
                ranked.asked.space, ranked.asked.vector, query, everything
            )
        else:
            continue
        at = next((n for n, match in enumerate(matches, 1) if match.chunk_id in mine), None)
        nowhere = "shares no word with it" if leg.name == "words" else "has no vector of it"
        yield f"{leg.name}: " + (nowhere if at is None else f"place {at} of {len(matches)}")


def _best(candidates: Sequence[Candidate], mine: frozenset[int]) -> tuple[int, Candidate | None]:
    """Return the place of a note's best chunk, from 1, and the chunk."""
    found = ((at, one) for at, one in enumerate(candidates, 1) if one.chunk_id in mine)
    return next(found, (len(candidates) + 1, None))
