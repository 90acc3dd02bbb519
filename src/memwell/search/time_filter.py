"""A query that names a time: which notes it asks for, and which words are left to rank them.

If notes are dated in the period, they come first, whatever their relevance, and notes of other
times are left out. Notes without a date stay, and so do notes whose text names the same date. If
no note is dated in the period, the query is searched as it is, and a notice says so.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from memwell.errors import KeywordSearchUnavailable
from memwell.search.decay import parse_day
from memwell.search.parse import Parsed, parse
from memwell.search.time_expressions import Event, Period, TimeExpression, find_time_expression
from memwell.store.contract.index import Reader
from memwell.store.contract.query import Filters, Word, WordQuery
from memwell.store.words.function_words import (
    find_function_words,
    function_words_of,
    has_other_words,
    read_words_by_language,
)

_SURE_COVERAGE = 0.8
"""The share of an event's words that a passage must cover for its date to be the event's date."""
_MENTIONS = 100
"""The most passages that are looked up because they name the date of a query."""
ANY_DATE = "0001-01-01"


class TimedQuery(NamedTuple):
    """A query and the time that it asks for."""

    parsed: Parsed
    period: Period | None = None
    lists_period: bool = False
    """Whether the query asks for everything of its period."""


def apply_time(parsed: Parsed, today: dt.date | None, reader: Reader) -> TimedQuery:
    """Return the query with the filter for the time that it names, and without its words."""
    named = find_time_expression(parsed.text, today)
    if named is None:
        return TimedQuery(parsed)
    if isinstance(named.period, Event):
        return TimedQuery(parsed, _period_of_event(named.period, parsed, reader))
    period = named.period
    inside = _within(parsed.query.filters, period)
    if not reader.chunks.list_filtered(inside, 1):
        return TimedQuery(_with_notice(parsed, period, reader), period)
    if parsed.query.all_of:  # its user requires these very words
        return TimedQuery(parsed, period)
    if not has_other_words(named.rest, _words_without_subject(named.language)):
        listing = replace(parsed, query=WordQuery(filters=inside))
        return TimedQuery(listing, period, lists_period=True)
    rest = parse(named.rest)
    filters = replace(
        inside, undated=True, at_any_time=frozenset(_find_mentions(named, parsed, reader))
    )
    query = replace(rest.query, none_of=parsed.query.none_of, filters=filters)
    return TimedQuery(replace(parsed, query=query, text=rest.text), period)


@cache
def _words_without_subject(language: str) -> frozenset[str]:
    """Return the words of a language that ask for everything of a time: "what happened"."""
    happening = read_words_by_language(Path(__file__).with_name("happening_words.txt"))
    return happening[language] | function_words_of(language)


def _within(filters: Filters, period: Period) -> Filters:
    """Return the filters, and the period as one more."""
    after, before = filters.after, filters.before
    if period.start:
        after = max(after or "", period.start.isoformat())
    if period.end:
        before = min(before or "9999", period.end.isoformat())
    return replace(filters, after=after, before=before)


def _with_notice(parsed: Parsed, period: Period, reader: Reader) -> Parsed:
    dated = replace(parsed.query.filters, after=parsed.query.filters.after or ANY_DATE)
    any_dated = reader.chunks.list_filtered(dated, 1)
    which = f"is dated {period}" if any_dated else "has a date (see scan.date)"
    notice = f"No note {which}; searched for the words at any time"
    return replace(parsed, notices=(*parsed.notices, notice))


def _find_mentions(named: TimeExpression, parsed: Parsed, reader: Reader) -> Iterator[str]:
    """Yield the paths of notes that name the date of a query in their text."""
    words = named.date_words
    grammar = find_function_words(words)
    required = tuple(Word(word) for word in words if word not in grammar)
    if required:
        query = WordQuery(all_of=required, filters=parsed.query.filters)
        with suppress(KeywordSearchUnavailable):
            matches = [match.chunk_id for match in reader.keywords.search(query, _MENTIONS)]
            yield from (place.path for place in reader.chunks.places(matches).values())


def _period_of_event(event: Event, parsed: Parsed, reader: Reader) -> Period | None:
    """Return the period before or after an event whose date a note gives."""
    words = replace(parse(event.description).query, filters=parsed.query.filters)
    with suppress(KeywordSearchUnavailable):
        matches = [
            match.chunk_id
            for match in reader.keywords.search(words, _MENTIONS)
            if match.covered >= _SURE_COVERAGE
        ]
        places = reader.chunks.places(matches)
        days = (parse_day(places[match].date) for match in matches)
        return next((event.period(day) for day in days if day), None)
    return None
