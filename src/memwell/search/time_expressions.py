"""The period that a query names: "in September 2025", "last week", "before the move".

    span     := on 2025-09-15 | September 2025 | 15 September | in May | in 2025
              | today | yesterday | this or last or past week, month, year | last Tuesday
              | 3 days, weeks, months, years ago | the last 10 days
    period   := span | before, until span | after, since span | between span and span
    event    := before, after or since, and a thing whose date the notes may give

A month or day without a year is the latest one that is not in the future. Expressions that depend
on today are ignored if today is not known. The words are English; ISO dates always work.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH = "|".join((*_MONTHS, *(f"{month[:3]}[.]?" for month in _MONTHS), "sept[.]?"))
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
_SPAN = re.compile(
    rf"""
    \b(?: (?P<iso>\d{{4}}-\d{{2}}(?:-\d{{2}})?)
      | (?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)(?P<month>{_MONTH})\b
            (?:,?\s+(?P<year>\d{{4}}))?
      | (?P<month2>{_MONTH})\s+(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<year2>\d{{4}}))?
      | (?P<month3>{_MONTH}),?\s+(?:of\s+)?(?P<year3>\d{{4}})
      | (?:in|during|last|this|before|after|since|until|by|and)\s+(?P<month4>{_MONTH})
            (?![\w'’]|,?\s+(?:of\s+)?\d)
      | (?:in|during|of|before|after|since|until|and)\s+(?P<year5>(?:19|20)\d{{2}})(?![-/.]?\d)
      | (?P<near>today|yesterday)
      | (?P<which>this|last|past)\s+(?P<unit>week|month|year)
      | (?:last|on)\s+(?P<weekday>{"|".join(_DAYS)})
      | (?P<ago>\d{{1,3}})\s+(?P<ago_unit>day|week|month|year)s?\s+ago
      | (?:last|past)\s+(?P<within>\d{{1,3}})\s+(?P<within_unit>day|week|month|year)s?
    )\b
    """,
    re.X | re.I,
)
_RELATION = re.compile(r"\b(before|until|after|since)\s+(?:the\s+|our\s+|my\s+)?$", re.I)
_WHOSE = "the|our|my|his|her|their|we|I|he|she|they"
_EVENT = re.compile(rf"\b(before|after|since)\s+((?:{_WHOSE})\s.+)", re.I)
_EVENT_ENDS = re.compile(r"[?.!,;:]|\band\b")


@dataclass(frozen=True, slots=True)
class Period:
    """Days from `start` up to `end` (exclusive); None is unlimited."""

    start: dt.date | None
    end: dt.date | None
    certain: bool = True
    """Whether the date is in the query; otherwise it was looked up in the notes."""

    def contains(self, day: dt.date) -> bool:
        """Whether a day is in the period."""
        return (self.start is None or self.start <= day) and (self.end is None or day < self.end)

    def __str__(self) -> str:
        return f"{self.start or ''}..{self.end - dt.timedelta(1) if self.end else ''}"


@dataclass(frozen=True, slots=True)
class Event:
    """Before or after something whose date the notes may give."""

    relation: str
    description: str

    def period(self, day: dt.date) -> Period:
        """Return the period before or after the day of the event."""
        if self.relation == "before":
            return Period(None, day, certain=False)
        return Period(day, None, certain=False)


def find_period(text: str, today: dt.date | None) -> Period | Event | None:
    """Return the period or the event that a query names, if it names one."""
    spans = [(match, span) for match in _SPAN.finditer(text) if (span := _to_period(match, today))]
    if not spans:
        return _find_event(text)
    match, first = spans[0]
    before = text[: match.start()]
    relation = _RELATION.search(before) or _RELATION.match(match[0].partition(" ")[0] + " ")
    if len(spans) > 1 and re.search(r"\b(?:between|from)\s+$", before, re.I):
        return Period(first.start, spans[1][1].end)
    match relation[1].lower() if relation else "":
        case "before" | "until":
            return Period(None, first.start)
        case "after":
            return Period(first.end, None)
        case "since":
            return Period(first.start, None)
    return first


def _find_event(text: str) -> Event | None:
    match = _EVENT.search(text)
    description = _EVENT_ENDS.split(match[2])[0].strip() if match else ""
    if not match or not description:
        return None
    return Event(match[1].lower(), description)


def _to_period(match: re.Match[str], today: dt.date | None) -> Period | None:
    """Return the days of an expression; None if invalid or if it needs an unknown today."""
    try:
        return _absolute_period(match, today) or (_relative_period(match, today) if today else None)
    except (ValueError, OverflowError):  # such as 31 June
        return None


def _absolute_period(match: re.Match[str], today: dt.date | None) -> Period | None:
    if match["iso"]:
        iso_year, iso_month, *rest = match["iso"].split("-")
        return _day_or_month(int(iso_year), int(iso_month), rest[0] if rest else None)
    if match["year5"]:
        return _year(int(match["year5"]))
    name = match["month"] or match["month2"] or match["month3"] or match["month4"]
    if name is None:
        return None
    month = next(n for n, full in enumerate(_MONTHS, 1) if full.startswith(name.lower()[:3]))
    day, year = match["day"] or match["day2"], match["year"] or match["year2"] or match["year3"]
    if year:
        return _day_or_month(int(year), month, day)
    if today is None:
        return None
    latest = _day_or_month(today.year, month, day)
    in_future = latest.start is not None and latest.start > today
    return _day_or_month(today.year - 1, month, day) if in_future else latest


def _day_or_month(year: int, month: int, day: str | None) -> Period:
    return _days(dt.date(year, month, int(day))) if day else _month(year, month)


def _relative_period(match: re.Match[str], today: dt.date) -> Period | None:
    if match["near"]:
        return _days(today - dt.timedelta(match["near"].lower() == "yesterday"))
    if match["weekday"]:
        back = (today.weekday() - _DAYS.index(match["weekday"].lower()) - 1) % 7 + 1
        return _days(today - dt.timedelta(back))
    if match["within"]:
        length = int(match["within"]) * _UNITS[match["within_unit"].lower()]
        return Period(today - dt.timedelta(length), today + dt.timedelta(1))
    if match["ago"]:
        unit = _UNITS[match["ago_unit"].lower()]
        day = today - dt.timedelta(int(match["ago"]) * unit)
        return _days(day - dt.timedelta(unit // 2), unit // 2 * 2 + 1)
    if match["unit"]:
        this = _period_around(match["unit"].lower(), today)
        if match["which"].lower() == "this" or this.start is None:
            return this
        return _period_around(match["unit"].lower(), this.start - dt.timedelta(1))
    return None


def _period_around(unit: str, day: dt.date) -> Period:
    """Return the week, month or year that contains a day."""
    if unit == "week":
        return _days(day - dt.timedelta(day.weekday()), 7)
    return _month(day.year, day.month) if unit == "month" else _year(day.year)


def _days(first: dt.date, count: int = 1) -> Period:
    return Period(first, first + dt.timedelta(count))


def _month(year: int, month: int) -> Period:
    first = dt.date(year, month, 1)
    return Period(first, (first + dt.timedelta(31)).replace(day=1))


def _year(year: int) -> Period:
    return Period(dt.date(year, 1, 1), dt.date(year + 1, 1, 1))
