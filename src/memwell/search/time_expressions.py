"""The time that a query names: "in September 2025", "last week", "am Dienstag", 上周.

    time     := an ISO date | 15 September 2025 | September 2025 | in May | in 2025
              | today | yesterday | this or last week, month, year | on or last Tuesday
              | 3 days, weeks, months, years ago | the last 10 days
    period   := time | before, until time | after, since time | between time and time
    event    := before, after or since, and a thing whose date the notes may give (English)

A month or day without a year is the latest one that is not in the future. Expressions that depend
on today are ignored if today is not known. time_languages.py has the words of eight languages.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple

from memwell.search.time_languages import DAY, LANGUAGES, MONTH, WEEK, YEAR, Language
from memwell.store.words.function_words import guess_language
from memwell.store.words.normalise import runs_without_spaces

_DAYS = {DAY: 1, WEEK: 7, MONTH: 30, YEAR: 365}
_ISO = r"(?<!\d)(?P<iso>(?P<isoyear>\d{4})-(?P<isomonth>\d{2})(?:-(?P<isoday>\d{2}))?)(?!\d)"
_FIELD = re.compile(r"\{(month|weekday|unit|day|year|n)\}")
_WORD = re.compile(r"[^\W\d_]+")
_WHOSE = "the|our|my|his|her|their|we|I|he|she|they"
_EVENT = re.compile(rf"\b(before|after|since)\s+((?:{_WHOSE})\s.+)", re.I)
_EVENT_ENDS = re.compile(r"[?.!,;:]|\band\b")
_RANGE = re.compile(r"\b(?:between|from|zwischen|von|entre|de)\s+$", re.I)
_ABSOLUTE = frozenset({"iso", "date", "years"})
_HERE = "hier"
"""Yesterday in French, here in German and Dutch."""


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
        last = self.end - dt.timedelta(1) if self.end else None
        return str(last) if last and last == self.start else f"{self.start or ''}..{last or ''}"


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


class TimeExpression(NamedTuple):
    """A time in a text, and the rest of the text."""

    period: Period | Event
    rest: str
    """The text without the words that name the time."""
    date_words: tuple[str, ...] = ()
    """The words of a date that notes may write in the same way; none of "last week"."""
    language: str = "en"


class _Time(NamedTuple):
    period: Period
    start: int
    end: int
    language: str
    kind: str


def find_time_expression(text: str, today: dt.date | None) -> TimeExpression | None:
    """Return the period or the event that a query names, if it names one."""
    times = [*_find_times(text, today)]
    if not times:
        event = _find_event(text)
        return TimeExpression(event, text) if event else None
    first = times[0]
    period, start, end = first.period, first.start, first.end
    if len(times) > 1 and (joint := _RANGE.search(text[:start])):
        period = Period(period.start, times[1].period.end)
        start, end = joint.start(), times[1].end
    elif first.kind != "ago" and (relation := _find_relation(text, first)):
        period, start, end = relation
    rest = " ".join(f"{text[:start]} {text[end:]}".split())
    words = text[first.start : first.end].split() if first.kind in _ABSOLUTE else ()
    return TimeExpression(period, rest, tuple(words), first.language)


def _find_times(text: str, today: dt.date | None) -> Iterator[_Time]:
    """Yield the times that a text names, in the order of the text."""
    found = [
        _Time(period, match.start(), match.end(), name, _kind(match))
        for name in _languages_of(text)
        for match in _pattern(name).finditer(text)
        if (period := _to_period(match, LANGUAGES[name], today)) and not _is_here(match[0], text)
    ]
    end = 0
    for time in sorted(found, key=lambda time: (time.start, -time.end)):
        if time.start >= end:
            yield time
            end = time.end


def _kind(match: re.Match[str]) -> str:
    return (match.lastgroup or "").partition("_")[0]


def _is_here(said: str, text: str) -> bool:
    """Whether an expression is a word for "here" in the language of a text."""
    return said.casefold() == _HERE and guess_language(_WORD.findall(text)) in ("de", "nl")


def _languages_of(text: str) -> Iterator[str]:
    """Yield the languages in which a text may name a time; English also has the ISO dates."""
    words = {word.casefold() for word in _WORD.findall(text)}
    spaced = (name for name, language in LANGUAGES.items() if language.spaced)
    has_digit = any(map(str.isdigit, text))
    for name in spaced:
        if (has_digit and name == "en") or any(
            word.startswith(_beginnings(name)) for word in words
        ):
            yield name
    if runs_without_spaces(text):
        yield from (name for name, language in LANGUAGES.items() if not language.spaced)


@cache
def _beginnings(name: str) -> tuple[str, ...]:
    """Return how the words for times of a language begin: most queries need no pattern for them."""
    language = LANGUAGES[name]
    expressions = (language.months, language.weekdays, *language.units.values())
    patterns = " ".join((*expressions, *language.near.values(), language.years)).casefold()
    return tuple(word for word in _WORD.findall(patterns) if len(word) > 2)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of the times of a language. The name of a group begins with its kind."""
    language = LANGUAGES[name]
    fields = {
        "month": "|".join(language.months.split()),
        "weekday": "|".join(language.weekdays.split()),
        "unit": "|".join(language.units.values()),
        "day": r"\d{1,2}",
        "year": r"(?:19|20)\d{2}",
        "n": "|".join((r"\d{1,3}", *language.numbers.split())),
    }
    number = count()

    def group(field: re.Match[str]) -> str:
        return f"(?P<{field[1]}_{next(number)}>{fields[field[1]]})"

    kinds = {
        "oflastweek": language.of_last_week,
        "near": "|".join(language.near.values()),
        "date": "|".join(language.dates),
        "years": language.years,
        "weekdays": language.on_weekday,
        "ago": language.ago,
        "within": language.within,
    }
    patterns = [
        f"(?P<{kind}_{next(number)}>{_FIELD.sub(group, _with_spaces(pattern))})"
        for kind, pattern in kinds.items()
    ]
    whole = "|".join([_ISO, *patterns])
    return re.compile(rf"(?<!\w)(?:{whole})(?!\w)" if language.spaced else whole, re.I)


def _find_relation(text: str, time: _Time) -> tuple[Period, int, int] | None:
    """Return the period before or after a time, and where its expression starts and ends."""
    language = LANGUAGES[time.language]
    words = {
        relation: "|".join(
            getattr(other, relation)
            for other in (LANGUAGES.values() if not language.spaced else [language])
            if other.spaced == language.spaced and getattr(other, relation)
        )
        for relation in ("since", "before", "after")
    }
    inside = text[time.start : time.end]
    for relation, pattern in words.items():
        if not pattern:
            continue
        if not language.spaced:
            match = re.compile(pattern).match(text, time.end)
            start, end = time.start, match.end() if match else 0
        else:
            match = re.search(rf"(?<!\w)(?:{pattern})\s+(?:the\s+)?$", text[: time.start], re.I)
            start, end = match.start() if match else 0, time.end
            if not match and (match := re.match(rf"(?:{pattern})\s", inside, re.I)):
                start = time.start
        if match:
            return _relate(relation, time.period), start, end
    return None


def _relate(relation: str, period: Period) -> Period:
    match relation:
        case "since":
            return Period(period.start, None)
        case "before":
            return Period(None, period.start)
        case _:
            return Period(period.end, None)


def _find_event(text: str) -> Event | None:
    match = _EVENT.search(text)
    description = _EVENT_ENDS.split(match[2])[0].strip() if match else ""
    if not match or not description:
        return None
    return Event(match[1].lower(), description)


def _to_period(match: re.Match[str], language: Language, today: dt.date | None) -> Period | None:
    """Return the days of an expression; None if invalid or if it needs an unknown today."""
    said = {
        name.partition("_")[0]: value.casefold()
        for name, value in match.groupdict().items()
        if value
    }
    try:
        return _absolute_period(said, language, today) or (
            _relative_period(said, language, today) if today else None
        )
    except (ValueError, OverflowError):  # such as 31 June
        return None


def _absolute_period(
    said: Mapping[str, str], language: Language, today: dt.date | None
) -> Period | None:
    if "isoyear" in said:
        return _day_or_month(int(said["isoyear"]), int(said["isomonth"]), said.get("isoday"))
    if "years" in said:
        return _year(int(said["year"]))
    if "date" not in said:
        return None
    month, day = _position(said["month"], language.months.split()) + 1, said.get("day")
    if "year" in said:
        return _day_or_month(int(said["year"]), month, day)
    if today is None:
        return None
    latest = _day_or_month(today.year, month, day)
    in_future = latest.start is not None and latest.start > today
    return _day_or_month(today.year - 1, month, day) if in_future else latest


def _relative_period(said: Mapping[str, str], language: Language, today: dt.date) -> Period | None:
    if "oflastweek" in said:
        monday = today - dt.timedelta(7 + today.weekday())
        return _days(monday + dt.timedelta(_position(said["weekday"], language.weekdays.split())))
    if "near" in said:
        near = _position(said["near"], [*language.near.values()])
        unit, offset = [*language.near][near]
        return _shift(unit, offset, today)
    if "weekdays" in said:
        weekday = _position(said["weekday"], language.weekdays.split())
        return _days(today - dt.timedelta((today.weekday() - weekday - 1) % 7 + 1))
    if "unit" not in said:
        return None
    unit = [*_DAYS][_position(said["unit"], [language.units[unit] for unit in _DAYS])]
    number = said["n"]
    many = int(number) if number.isdigit() else _position(number, language.numbers.split()) + 1
    length = _DAYS[unit]
    if "within" in said:
        return Period(today - dt.timedelta(many * length), today + dt.timedelta(1))
    day = today - dt.timedelta(many * length)
    return _days(day - dt.timedelta(length // 2), length // 2 * 2 + 1)


def _position(text: str, patterns: Sequence[str]) -> int:
    """Return which of the patterns, each with the forms of one name, matches a text."""
    return next(
        n for n, pattern in enumerate(patterns) if re.fullmatch(_with_spaces(pattern), text, re.I)
    )


def _with_spaces(pattern: str) -> str:
    return pattern.replace(" ?", r"\s*").replace(" ", r"\s+")


def _day_or_month(year: int, month: int, day: str | None) -> Period:
    return _days(dt.date(year, month, int(day))) if day else _month(year, month)


def _shift(unit: str, offset: int, today: dt.date) -> Period:
    """Return the day, week, month or year that lies so many units from that of today."""
    if unit == DAY:
        return _days(today + dt.timedelta(offset))
    if unit == WEEK:
        return _days(today + dt.timedelta(7 * offset - today.weekday()), 7)
    if unit == MONTH:
        year, month = divmod(today.year * 12 + today.month - 1 + offset, 12)
        return _month(year, month + 1)
    return _year(today.year + offset)


def _days(first: dt.date, count: int = 1) -> Period:
    return Period(first, first + dt.timedelta(count))


def _month(year: int, month: int) -> Period:
    first = dt.date(year, month, 1)
    return Period(first, (first + dt.timedelta(31)).replace(day=1))


def _year(year: int) -> Period:
    return Period(dt.date(year, 1, 1), dt.date(year + 1, 1, 1))
