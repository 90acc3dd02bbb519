"""A search, step by step.

1. parse      the text becomes a query: words that rank, words that must or must not match, filters
2. retrieve   the keyword leg returns its best chunks (filters act here, before ranking)
3. score      BM25 becomes relevance, between 0 and 1
4. threshold  what is below `min_score` is dropped
5. hits       chunks become passages with their note, line span and marked words
6. suggest    if nothing was found, words of the vocabulary that are nearly those typed
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from memwell.model import Freshness, Hit, Leg, SearchResult
from memwell.search.mark import Marker
from memwell.search.normalise import saturation
from memwell.search.parse import parse
from memwell.search.suggest import nearest
from memwell.store.base import Match, Word, WordQuery
from memwell.store.index import Reader


@dataclass(frozen=True, slots=True)
class Options:
    """How many hits, above which relevance."""

    k: int = 6
    min_score: float = 0.0


def search(
    text: str,
    options: Options,
    reader: Reader,
    freshness: Freshness,
    workspaces: tuple[int, ...] | None = None,
) -> SearchResult:
    """Run the steps above over one state of the index; `workspaces` None is all of them."""
    parsed = parse(text)
    if broken := reader.words_unusable():
        return SearchResult(
            text, (), (Leg("words", False, broken),), freshness, notices=parsed.notices
        )
    query = within(parsed.query, workspaces)
    marker = Marker(query, reader.tokens, reader.rows, reader.total)
    hits = tuple(_marked(hit, marker) for hit in reader.hits(rank(query, options, reader)))
    return SearchResult(
        query=text,
        hits=hits,
        legs=(Leg("words", True),),
        freshness=freshness,
        suggestions=() if hits else tuple(_suggestions(text, query, reader)),
        notices=parsed.notices,
    )


def rank(query: WordQuery, options: Options, reader: Reader) -> list[tuple[int, float]]:
    """Steps 2 to 4: the chunks that answer and the relevance of each, best first."""
    matches = reader.words(query, options.k)
    scored = ((match.chunk_id, _relevance(match)) for match in matches)
    kept = [(key, relevance) for key, relevance in scored if relevance >= options.min_score]
    return kept[: options.k]


def within(query: WordQuery, workspaces: tuple[int, ...] | None) -> WordQuery:
    """Restrict a query to workspaces; None is all of them."""
    return replace(query, filters=replace(query.filters, workspaces=workspaces))


def _relevance(match: Match) -> float:
    """A chunk that filters alone asked for is just what was asked for: 1."""
    return 1.0 if math.isinf(match.score) else saturation(match.score)


def _marked(hit: Hit, marker: Marker) -> Hit:
    return replace(hit, marks=marker.marks(hit.text))


def _suggestions(text: str, query: WordQuery, reader: Reader) -> Iterator[str]:
    """Yield the query with each unknown word replaced by its nearest known one."""
    words = [node for node in query.any_of if isinstance(node, Word)]
    for unknown in reader.unknown(words)[:3]:
        for token in nearest(unknown.casefold(), reader.vocabulary):
            yield text.replace(unknown, reader.written(token, unknown))
