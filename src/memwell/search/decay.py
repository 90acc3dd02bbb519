"""What time leaves of a passage's score. A pure function.

    relative   kept = least + (1 - least) x 2^(-age / half-life)
               age: in days, from the newest note that answers about as well. Of two that answer the
               newer comes first, and one that answers alone loses nothing, however old it is.
    plain      kept = 2^(-age / half-life), age from today. Erases what is five months old.

Notes without a date, and those named evergreen, keep all. Where the query speaks of a time, that
decides instead of the age: what is outside of it keeps OUTSIDE, what has no date UNDATED.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from memwell.config.sections import SearchSettings
from memwell.search.time_expressions import Period

RELATIVE, PLAIN, OFF = "relative", "plain", "off"
OUTSIDE, LIKELY_OUTSIDE, UNDATED = 0.3, 0.75, 0.75
ABOUT_AS_WELL = 0.5
"""Of the best relevance, what makes a passage one that age is counted from."""


@dataclass(frozen=True, slots=True)
class Decay:
    """How passages age."""

    method: str = OFF
    today: dt.date | None = None
    """None where nobody can say: then nothing ages, and of the times that a query speaks of
    only those count that do not depend on it."""
    half_life: float = SearchSettings.half_life
    least: float = SearchSettings.decay_floor
    evergreen: tuple[str, ...] = ()
    """Globs on paths; * also crosses folders."""


class Dated(NamedTuple):
    """A passage: how relevant, of which note, of which day."""

    relevance: float
    path: str
    date: str | None


class Decayed(NamedTuple):
    """What is left of a score, and why not all."""

    factor: float = 1.0
    why: str = ""


UNDECAYED = Decayed()


def decay_factors(passages: Sequence[Dated], decay: Decay, period: Period | None) -> list[Decayed]:
    """Return what time leaves of each passage."""
    days = [parse_day(passage.date) for passage in passages]
    if period:
        return [_in_period(day, period) for day in days]
    today = decay.today
    if today is None or decay.method == OFF:
        return [UNDECAYED] * len(passages)
    ageing = days
    if decay.evergreen:
        ageing = [
            None if any(fnmatchcase(passage.path, glob) for glob in decay.evergreen) else day
            for passage, day in zip(passages, days, strict=True)
        ]
    since = today if decay.method == PLAIN else _newest(passages, ageing, today)
    return [UNDECAYED if day is None else _decayed((since - day).days, decay) for day in ageing]


def _in_period(day: dt.date | None, period: Period) -> Decayed:
    if day is None:
        return Decayed(UNDATED, f"no date, {period} was asked for")
    if period.holds(day):
        return UNDECAYED
    return Decayed(OUTSIDE if period.certain else LIKELY_OUTSIDE, f"{day} is not of {period}")


def _newest(passages: Sequence[Dated], days: Sequence[dt.date | None], today: dt.date) -> dt.date:
    """Return the day of the newest passage that answers about as well as the best."""
    best = max((passage.relevance for passage in passages), default=0.0)
    telling = [
        day
        for passage, day in zip(passages, days, strict=True)
        if day and day <= today and passage.relevance >= ABOUT_AS_WELL * best
    ]
    return max(telling, default=today)


def _decayed(age: int, decay: Decay) -> Decayed:
    if age <= 0:
        return UNDECAYED
    least = decay.least if decay.method == RELATIVE else 0.0
    than = "older than the newest" if decay.method == RELATIVE else "old"
    return Decayed(least + (1 - least) * 2 ** (-age / decay.half_life), f"{age} days {than}")


def parse_day(date: str | None) -> dt.date | None:
    """Read the date of a note."""
    try:
        return dt.date.fromisoformat(date[:10]) if date else None
    except ValueError:
        return None
