"""How long a fact is valid, by its decay class: one table, and functions over plain values.

Times have a time zone, any one: a fact expires at the same moment wherever it is read.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from memwell.errors import MemwellError


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a fact of a class is valid, and whether reading it starts that time again."""

    lasts: dt.timedelta | None
    """None is unlimited."""
    renewed_by_reading: bool


Lifetimes = Mapping[str, Lifetime]

LIFETIMES: Lifetimes = MappingProxyType(
    {
        "permanent": Lifetime(None, renewed_by_reading=False),
        "stable": Lifetime(dt.timedelta(days=90), renewed_by_reading=True),
        "active": Lifetime(dt.timedelta(days=14), renewed_by_reading=True),
        "session": Lifetime(dt.timedelta(hours=24), renewed_by_reading=False),
        "checkpoint": Lifetime(dt.timedelta(hours=4), renewed_by_reading=False),
    }
)

FRESH = 0.75
"""The share of its lifetime in which a fact keeps its full confidence."""
STALE = 0.5
"""The factor on the confidence after that."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LIFETIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])", re.ASCII)
_FOR_EVER = frozenset(("never", "forever"))


def lifetime(decay_class: str, table: Lifetimes = LIFETIMES) -> Lifetime:
    """Return the lifetime of a decay class."""
    try:
        return table[decay_class]
    except KeyError:
        raise MemwellError(
            f"{decay_class!r} is not a decay class", f"Use one of: {', '.join(table)}"
        ) from None


def expiry_time(
    decay_class: str, since: dt.datetime, table: Lifetimes = LIFETIMES
) -> dt.datetime | None:
    """Return the time, in UTC, when a fact created or renewed at `since` expires; None is never."""
    since = _to_utc(since, "since")
    lasts = lifetime(decay_class, table).lasts
    if lasts is None:
        return None
    try:
        return since + lasts
    except OverflowError:  # later than the last date of datetime
        return None


def is_expired(expires: dt.datetime | None, now: dt.datetime) -> bool:
    """Whether a fact has expired; at the moment `expires` itself it has."""
    now = _to_utc(now, "now")
    return expires is not None and now >= _to_utc(expires, "expires")


def confidence(
    stated: float, since: dt.datetime, expires: dt.datetime | None, now: dt.datetime
) -> float:
    """Return the current confidence of a fact that was stated with a confidence.

    All of it for three quarters of its lifetime, then half, then 0. Before `since` (a clock may
    be set back) it is all of it.
    """
    since, now = _to_utc(since, "since"), _to_utc(now, "now")
    if is_expired(expires, now):
        return 0.0
    if expires is None:
        return stated
    stale_from = since + (_to_utc(expires, "expires") - since) * FRESH
    return stated if now < stale_from else stated * STALE


def parse_lifetimes(given: Iterable[str], table: Lifetimes = LIFETIMES) -> dict[str, Lifetime]:
    """Return the table with overrides such as "stable=90d" or "active=never".

    An override changes how long a class lasts, not whether reading renews it.
    """
    changed = dict(table)
    for override in given:
        name, _, value = (part.strip() for part in override.partition("="))
        changed[name] = replace(lifetime(name, table), lasts=_parse_length(name, value.lower()))
    return changed


def _parse_length(name: str, text: str) -> dt.timedelta | None:
    if text in _FOR_EVER:
        return None
    match = _LIFETIME.fullmatch(text)
    try:
        lasts = dt.timedelta(seconds=float(match[1]) * _UNITS[match[2]] if match else 0)
        if not lasts:
            raise MemwellError(
                f"The lifetime of decay class {name!r} is {text!r}, which is not a length of time",
                'Give a number above 0 and a unit, like "90d", "24h" or "30m", or "never"',
            )
        return lasts
    except OverflowError:
        raise MemwellError(
            f"The lifetime of decay class {name!r} is {text!r}, which is too long",
            'Use "never" instead',
        ) from None


def _to_utc(moment: dt.datetime, name: str) -> dt.datetime:
    """Return a time in UTC; refuse a time without a zone, because it is ambiguous."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise MemwellError(
            f"The time {name} = {moment.isoformat()} has no time zone",
            "Give one: 2026-02-10T08:15:00+00:00, or datetime(..., tzinfo=UTC)",
        )
    try:
        return moment.astimezone(dt.UTC)
    except OverflowError:  # within hours of the first or last date of datetime
        edge = dt.datetime.min if moment.year == dt.MINYEAR else dt.datetime.max
        return edge.replace(tzinfo=dt.UTC)
