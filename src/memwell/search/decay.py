"""The factor that age leaves of a passage's score. A pure function.

    relative   factor = least + (1 - least) x 2^(-age / half-life)
               age: in days, from the newest note that answers about as well. If two notes answer
               equally well, the newer one ranks first. A note that is the only answer keeps its
               score, however old it is.
    plain      factor = 2^(-age / half-life), age from today. After five months almost nothing
               is left.

Notes without a date and evergreen notes keep their score. If the query names a time, that time
decides instead of the age: the factor is OUTSIDE for notes outside the period and UNDATED for notes
without a date, and the logit of notes inside rises by INSIDE.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from memwell.config.sections import SearchSettings
from memwell.search.calibrate import BOTH
from memwell.search.time_expressions import Period

RELATIVE, PLAIN, OFF = "relative", "plain", "off"
OUTSIDE, LIKELY_OUTSIDE, UNDATED = 0.3, 0.75, 0.75
INSIDE = BOTH[1]
"""To be of the right time counts as much as to hold all the words of the query."""
ABOUT_AS_WELL = 0.5
"""The share of the best relevance that a passage needs for age to be counted from its date."""


@dataclass(frozen=True, slots=True)
class Decay:
    """How scores decay with age."""

    method: str = OFF
    today: dt.date | None = None
    """None if unknown: then nothing decays, and relative times in a query are ignored."""
    half_life: float = SearchSettings.half_life
    least: float = SearchSettings.decay_floor
    evergreen: tuple[str, ...] = ()
    """Globs on paths of notes that do not decay; * also matches a slash."""


class Dated(NamedTuple):
    """The relevance of a passage, and the path and date of its note."""

    relevance: float
    path: str
    date: str | None


class Decayed(NamedTuple):
    """The factor that is left of a score, what its logit gains, and the reason for either."""

    factor: float = 1.0
    why: str = ""
    gain: float = 0.0
    wrong_time: bool = False


UNDECAYED = Decayed()


def decay_factors(passages: Sequence[Dated], decay: Decay, period: Period | None) -> list[Decayed]:
    """Return the factor of each passage."""
    day_of = {date: parse_day(date) for date in {passage.date for passage in passages}}
    days = [day_of[passage.date] for passage in passages]
    if period:
        return [_period_factor(day, period) for day in days]
    today = decay.today
    if today is None or decay.method == OFF:
        return [UNDECAYED] * len(passages)
    ageing = days
    if decay.evergreen:
        ageing = [
            None if any(fnmatchcase(passage.path, glob) for glob in decay.evergreen) else day
            for passage, day in zip(passages, days, strict=True)
        ]
    since = today if decay.method == PLAIN else _newest_relevant_day(passages, ageing, today)
    factors = {day: _age_factor((since - day).days, decay) for day in {*ageing} if day}
    return [UNDECAYED if day is None else factors[day] for day in ageing]


def _period_factor(day: dt.date | None, period: Period) -> Decayed:
    if day is None:
        return Decayed(UNDATED, f"no date, the query asks for {period}")
    if period.contains(day):
        return Decayed(1.0, f"{day} is in {period}", INSIDE) if period.certain else UNDECAYED
    why = f"{day} is not in {period}"
    if not period.certain:
        return Decayed(LIKELY_OUTSIDE, why)
    return Decayed(OUTSIDE, why, wrong_time=True)


def _newest_relevant_day(
    passages: Sequence[Dated], days: Sequence[dt.date | None], today: dt.date
) -> dt.date:
    """Return the day of the newest passage that answers about as well as the best."""
    best = max((passage.relevance for passage in passages), default=0.0)
    relevant = [
        day
        for passage, day in zip(passages, days, strict=True)
        if day and day <= today and passage.relevance >= ABOUT_AS_WELL * best
    ]
    return max(relevant, default=today)


def _age_factor(age: int, decay: Decay) -> Decayed:
    if age <= 0:
        return UNDECAYED
    least = decay.least if decay.method == RELATIVE else 0.0
    than = "older than the newest" if decay.method == RELATIVE else "old"
    return Decayed(least + (1 - least) * 2 ** (-age / decay.half_life), f"{age} days {than}")


def parse_day(date: str | None) -> dt.date | None:
    """Return the day of an ISO date; None if there is none or it is not valid."""
    try:
        return dt.date.fromisoformat(date[:10]) if date else None
    except ValueError:
        return None
