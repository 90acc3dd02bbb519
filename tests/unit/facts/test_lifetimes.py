"""Decay classes: when a fact expires, its confidence over time, and configured lifetimes."""

from __future__ import annotations

import contextlib
import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell.errors import MemwellError
from memwell.facts.lifetimes import (
    LIFETIMES,
    Lifetime,
    confidence,
    expiry_time,
    is_expired,
    lifetime,
    parse_lifetimes,
)

BEGUN = dt.datetime(2026, 2, 10, 8, 15, tzinfo=dt.UTC)
MOMENT = dt.timedelta(microseconds=1)
ENDING = [name for name, row in LIFETIMES.items() if row.lasts]
MOMENTS = st.datetimes(
    dt.datetime(1970, 1, 1),
    dt.datetime(2200, 1, 1),
    timezones=st.timezones(),
    allow_imaginary=False,
)


@pytest.mark.parametrize(
    ("name", "lasts", "by_reading"),
    [
        ("permanent", None, False),
        ("stable", dt.timedelta(days=90), True),
        ("active", dt.timedelta(days=14), True),
        ("session", dt.timedelta(hours=24), False),
        ("checkpoint", dt.timedelta(hours=4), False),
    ],
)
def test_the_table(name: str, lasts: dt.timedelta | None, by_reading: bool) -> None:
    assert lifetime(name) == Lifetime(lasts, by_reading)
    assert expiry_time(name, BEGUN) == (None if lasts is None else BEGUN + lasts)


@pytest.mark.parametrize("name", ENDING)
def test_a_fact_ends_at_the_moment_and_not_before(name: str) -> None:
    end = expiry_time(name, BEGUN)
    assert end is not None
    assert not is_expired(end, end - MOMENT)
    assert is_expired(end, end)
    assert confidence(0.8, BEGUN, end, end - MOMENT) == 0.8 / 2
    assert confidence(0.8, BEGUN, end, end) == 0
    assert confidence(0.8, BEGUN, end, end + dt.timedelta(days=1000)) == 0


@pytest.mark.parametrize("name", ENDING)
def test_confidence_halves_after_three_quarters(name: str) -> None:
    end = expiry_time(name, BEGUN)
    assert end is not None
    stale = BEGUN + (end - BEGUN) * 3 / 4
    assert confidence(0.8, BEGUN, end, BEGUN) == 0.8
    assert confidence(0.8, BEGUN, end, stale - MOMENT) == 0.8
    assert confidence(0.8, BEGUN, end, stale) == 0.8 / 2


def test_a_permanent_fact_neither_expires_nor_loses_confidence() -> None:
    end = expiry_time("permanent", BEGUN)
    later = BEGUN.replace(year=9999)
    assert end is None
    assert not is_expired(end, later)
    assert confidence(0.8, BEGUN, end, later) == 0.8


def test_a_clock_that_was_set_back_ends_nothing() -> None:
    end = expiry_time("checkpoint", BEGUN)
    assert confidence(0.8, BEGUN, end, BEGUN - dt.timedelta(days=30)) == 0.8
    assert not is_expired(end, BEGUN - dt.timedelta(days=30))


def test_an_end_before_the_beginning_is_an_end() -> None:
    assert confidence(0.8, BEGUN, BEGUN - MOMENT, BEGUN) == 0
    assert confidence(0.8, BEGUN, BEGUN, BEGUN) == 0


def test_an_hour_that_comes_twice_is_two_hours() -> None:
    """In the night when summer time ends, four hours are four hours."""
    zone = dt.timezone(dt.timedelta(hours=2))
    begun = dt.datetime(2026, 10, 25, 1, 0, tzinfo=zone)
    assert expiry_time("checkpoint", begun) == dt.datetime(2026, 10, 25, 3, 0, tzinfo=dt.UTC)


@given(st.sampled_from(ENDING), MOMENTS, MOMENTS, st.floats(0, 1))
def test_confidence_is_all_half_or_nothing_and_never_rises(
    name: str, since: dt.datetime, now: dt.datetime, stated: float
) -> None:
    end = expiry_time(name, since)
    assert end is not None
    left = confidence(stated, since, end, now)
    assert left in (stated, stated / 2, 0)
    assert left == 0 or not is_expired(end, now)
    assert confidence(stated, since, end, now + dt.timedelta(hours=1)) <= left


@given(st.sampled_from(sorted(LIFETIMES)), MOMENTS, st.timezones())
def test_the_zone_that_a_time_is_written_in_changes_nothing(
    name: str, since: dt.datetime, zone: dt.tzinfo
) -> None:
    elsewhere = since.astimezone(zone)
    end = expiry_time(name, since)
    assert end == expiry_time(name, elsewhere)
    assert end is None or end.tzinfo is dt.UTC
    assert is_expired(end, since) == is_expired(end, elsewhere)


def test_times_at_the_edge_of_the_calendar() -> None:
    last = dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=5)))
    first = dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))
    assert expiry_time("stable", last) is None
    assert expiry_time("stable", first) == dt.datetime(1, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
        days=90
    )
    assert is_expired(BEGUN, last)
    assert not is_expired(BEGUN, first)


NAIVE = dt.datetime(2026, 2, 10, 8, 15)


@pytest.mark.parametrize("name", ["since", "expires", "now"])
def test_a_time_without_a_zone_is_refused(name: str) -> None:
    times: dict[str, dt.datetime] = {"since": BEGUN, "expires": BEGUN, "now": BEGUN} | {name: NAIVE}
    with pytest.raises(
        MemwellError, match=f"{name} = 2026-02-10T08:15:00 has no time zone.*Give one"
    ):
        confidence(1, **times)
    if name != "since":
        with pytest.raises(MemwellError, match="no time zone"):
            is_expired(times["expires"], times["now"])
    with pytest.raises(MemwellError, match="no time zone"):
        expiry_time("permanent", NAIVE)


def test_an_unknown_decay_class_names_the_known_ones() -> None:
    with pytest.raises(
        MemwellError, match=r"'eternal' is not a decay class.*permanent, stable, active"
    ):
        expiry_time("eternal", BEGUN)
    with pytest.raises(MemwellError, match="'eternal' is not a decay class"):
        parse_lifetimes(["eternal=1d"])


@pytest.mark.parametrize(
    ("text", "lasts"),
    [
        ("90d", dt.timedelta(days=90)),
        ("24h", dt.timedelta(hours=24)),
        ("30m", dt.timedelta(minutes=30)),
        ("45s", dt.timedelta(seconds=45)),
        ("2w", dt.timedelta(weeks=2)),
        (" 1.5 H ", dt.timedelta(minutes=90)),
        ("never", None),
    ],
)
def test_configured_lifetimes(text: str, lasts: dt.timedelta | None) -> None:
    table = parse_lifetimes([f"active={text}"])
    assert table == {**LIFETIMES, "active": Lifetime(lasts, renewed_by_reading=True)}
    assert expiry_time("active", BEGUN, table) == (None if lasts is None else BEGUN + lasts)
    assert lifetime("active").lasts == dt.timedelta(days=14), "the table itself is as it was"


def test_a_permanent_class_can_be_given_a_lifetime() -> None:
    table = parse_lifetimes(["permanent=365d"])
    assert expiry_time("permanent", BEGUN, table) == BEGUN + dt.timedelta(days=365)


@pytest.mark.parametrize(
    "text",
    ["90", "d", "-1d", "0h", "0.0d", "1y", "ninety days", "1e9d", "١d", "nan d", "0.000000001s"],
)
def test_an_invalid_length_of_time_is_named_with_the_remedy(text: str) -> None:
    with pytest.raises(MemwellError) as error:
        parse_lifetimes([f"session={text}"])
    assert "'session'" in error.value.what
    assert repr(text) in error.value.what
    assert '"90d"' in error.value.remedy


def test_a_lifetime_that_is_too_long_is_refused() -> None:
    with pytest.raises(MemwellError, match=r"too long.*never"):
        parse_lifetimes(["session=999999999w"])
    table = parse_lifetimes(["session=99999999d"])
    assert expiry_time("session", BEGUN, table) is None


@given(st.one_of(st.text(), st.from_regex(r"[0-9]{1,12}(\.[0-9]+)?[smhdw]", fullmatch=True)))
def test_any_text_is_a_lifetime_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(MemwellError):
        lasts = parse_lifetimes([f"stable={text}"])["stable"].lasts
        assert lasts is None or lasts > dt.timedelta(0)
