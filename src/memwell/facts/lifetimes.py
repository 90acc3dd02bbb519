"""How long a fact is held true, by its decay class: one table, and functions over plain values.

Times are aware, in any zone: what is written down in one zone ends at the same moment in another.
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
    """How long a fact of a class lives, and what begins its life anew."""

    lasts: dt.timedelta | None
    """None is for ever."""
    renewed_by_reading: bool
    renewed_by_confirming: bool


Lifetimes = Mapping[str, Lifetime]

LIFETIMES: Lifetimes = MappingProxyType(
    {
        "permanent": Lifetime(None, renewed_by_reading=False, renewed_by_confirming=False),
        "stable": Lifetime(dt.timedelta(days=90), True, True),
        "active": Lifetime(dt.timedelta(days=14), True, True),
        "session": Lifetime(dt.timedelta(hours=24), False, True),
        "checkpoint": Lifetime(dt.timedelta(hours=4), False, True),
    }
)

FRESH = 0.75
"""The share of its life during which a fact keeps its confidence."""
STALE = 0.5
"""What is left of the confidence after that."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LIFETIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])", re.ASCII)
_FOR_EVER = frozenset(("never", "forever"))


def lifetime(decay_class: str, table: Lifetimes = LIFETIMES) -> Lifetime:
    """Return the row of a class."""
    try:
        return table[decay_class]
    except KeyError:
        raise MemwellError(
            f"There is no decay class {decay_class!r}", f"Use one of: {', '.join(table)}"
        ) from None


def expiry_time(
    decay_class: str, since: dt.datetime, table: Lifetimes = LIFETIMES
) -> dt.datetime | None:
    """Return when a fact that was made or renewed at `since` ends, in UTC; None is never."""
    since = _to_utc(since, "since")
    lasts = lifetime(decay_class, table).lasts
    if lasts is None:
        return None
    try:
        return since + lasts
    except OverflowError:  # no calendar goes that far
        return None


def is_expired(expires: dt.datetime | None, now: dt.datetime) -> bool:
    """Whether a fact has ended: at the moment `expires` itself it has."""
    now = _to_utc(now, "now")
    return expires is not None and now >= _to_utc(expires, "expires")


def confidence(
    stated: float, since: dt.datetime, expires: dt.datetime | None, now: dt.datetime
) -> float:
    """Return what is left of the confidence that a fact was stated with.

    All of it for three quarters of its life, then half, and nothing from its end on. Before its
    life began (clocks are set back) it is fresh.
    """
    since, now = _to_utc(since, "since"), _to_utc(now, "now")
    if is_expired(expires, now):
        return 0.0
    if expires is None:
        return stated
    stale_from = since + (_to_utc(expires, "expires") - since) * FRESH
    return stated if now < stale_from else stated * STALE


def parse_lifetimes(given: Iterable[str], table: Lifetimes = LIFETIMES) -> dict[str, Lifetime]:
    """Return the table with the lifetimes that a user gives instead: "stable=90d", "active=never".

    What renews a fact stays as it is in the table; only how long it lasts is changed.
    """
    changed = dict(table)
    for one in given:
        name, _, value = (part.strip() for part in one.partition("="))
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
                f"The lifetime of decay class {name!r} is {text!r}, which is no length of time",
                'Give a number above 0 and a unit, like "90d", "24h" or "30m", or "never"',
            )
        return lasts
    except OverflowError:
        raise MemwellError(
            f"The lifetime of decay class {name!r} is {text!r}, longer than a calendar goes",
            'Say "never" instead',
        ) from None


def _to_utc(moment: dt.datetime, name: str) -> dt.datetime:
    """Return the moment in UTC; without a zone it could be any of a day's moments."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise MemwellError(
            f"The time {name} = {moment.isoformat()} has no time zone",
            "Give one: 2026-02-10T08:15:00+00:00, or datetime(..., tzinfo=UTC)",
        )
    try:
        return moment.astimezone(dt.UTC)
    except OverflowError:  # the first or last hours that there are, seen from another zone
        edge = dt.datetime.min if moment.year == dt.MINYEAR else dt.datetime.max
        return edge.replace(tzinfo=dt.UTC)
