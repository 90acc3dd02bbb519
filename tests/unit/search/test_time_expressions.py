"""Periods in queries, decay by age, and both in whole searches."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell import Memory, config
from memwell.errors import ConfigError
from memwell.search.decay import (
    LIKELY_OUTSIDE,
    OUTSIDE,
    PLAIN,
    RELATIVE,
    UNDATED,
    UNDECAYED,
    Dated,
    Decay,
    decay_factors,
)
from memwell.search.time_expressions import Event, Period, find_time_expression
from tests.conftest import REPOSITORY, Write

TODAY = dt.date(2026, 2, 10)
"""A Tuesday."""


def days(start: str, end: str) -> Period:
    """From the first day to the last, either may be open."""
    last = dt.date.fromisoformat(end) + dt.timedelta(1) if end else None
    return Period(dt.date.fromisoformat(start) if start else None, last)


def find_period(text: str, today: dt.date | None) -> Period | Event | None:
    named = find_time_expression(text, today)
    return named.period if named else None


# -- periods in queries ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("what happened in September 2025", days("2025-09-01", "2025-09-30")),
        ("standup sept. 2025", days("2025-09-01", "2025-09-30")),
        ("on 15 September 2025", days("2025-09-15", "2025-09-15")),
        ("the 1st of May, 2023", days("2023-05-01", "2023-05-01")),
        ("May 10th, 2024", days("2024-05-10", "2024-05-10")),
        ("log of 2025-09-15", days("2025-09-15", "2025-09-15")),
        ("2025-12", days("2025-12-01", "2025-12-31")),
        ("how often in 2023?", days("2023-01-01", "2023-12-31")),
        ("before 2025", days("", "2024-12-31")),
        ("since March 2025", days("2025-03-01", "")),
        ("after 2025-09-15", days("2025-09-16", "")),
        ("between June 2025 and August 2025", days("2025-06-01", "2025-08-31")),
    ],
)
def test_absolute_dates_do_not_depend_on_today(text: str, period: Period) -> None:
    assert find_period(text, None) == period
    assert find_period(text, TODAY) == period


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("today's plan", days("2026-02-10", "2026-02-10")),
        ("what did I do yesterday", days("2026-02-09", "2026-02-09")),
        ("log of last week", days("2026-02-02", "2026-02-08")),
        ("this week", days("2026-02-09", "2026-02-15")),
        ("last month", days("2026-01-01", "2026-01-31")),
        ("last year", days("2025-01-01", "2025-12-31")),
        ("last Tuesday", days("2026-02-03", "2026-02-03")),
        ("on Friday", days("2026-02-06", "2026-02-06")),
        ("3 days ago", days("2026-02-07", "2026-02-07")),
        ("2 weeks ago", days("2026-01-24", "2026-01-30")),
        ("the last 10 days", days("2026-01-31", "2026-02-10")),
        ("in September", days("2025-09-01", "2025-09-30")),
        ("in February", days("2026-02-01", "2026-02-28")),
        ("on 15 September", days("2025-09-15", "2025-09-15")),
        ("since March", days("2025-03-01", "")),
    ],
)
def test_relative_dates_need_today(text: str, period: Period) -> None:
    assert find_period(text, TODAY) == period
    assert find_period(text, None) is None


@pytest.mark.parametrize(
    ("text", "period", "rest"),
    [
        (
            "was war letzte Woche mit der Datenbank",
            days("2026-02-02", "2026-02-08"),
            "was war mit der Datenbank",
        ),
        ("am Dienstag", days("2026-02-03", "2026-02-03"), ""),
        ("vor drei Tagen", days("2026-02-07", "2026-02-07"), ""),
        ("seit März 2025", days("2025-03-01", ""), ""),
        ("in den letzten 10 Tagen", days("2026-01-31", "2026-02-10"), ""),
        ("am 15. September", days("2025-09-15", "2025-09-15"), ""),
        ("la réunion de la semaine dernière", days("2026-02-02", "2026-02-08"), "la réunion de"),
        ("qu'a-t-on fait hier", days("2026-02-09", "2026-02-09"), "qu'a-t-on fait"),
        ("il y a deux semaines", days("2026-01-24", "2026-01-30"), ""),
        ("en mars 2025", days("2025-03-01", "2025-03-31"), ""),
        ("qué pasó el mes pasado", days("2026-01-01", "2026-01-31"), "qué pasó"),
        ("el 15 de septiembre de 2025", days("2025-09-15", "2025-09-15"), ""),
        ("hace 3 días", days("2026-02-07", "2026-02-07"), ""),
        ("desde enero", days("2026-01-01", ""), ""),
        ("o que aconteceu na semana passada", days("2026-02-02", "2026-02-08"), "o que aconteceu"),
        ("em março de 2025", days("2025-03-01", "2025-03-31"), ""),
        ("na segunda-feira", days("2026-02-09", "2026-02-09"), ""),
        ("上周发生了什么", days("2026-02-02", "2026-02-08"), "发生了什么"),
        ("上周三的会议", days("2026-02-04", "2026-02-04"), "的会议"),
        ("2025年3月15日", days("2025-03-15", "2025-03-15"), ""),
        ("两周前", days("2026-01-24", "2026-01-30"), ""),
        ("先週のメモ", days("2026-02-02", "2026-02-08"), "のメモ"),
        ("先週の月曜日", days("2026-02-02", "2026-02-02"), ""),
        ("3日前の会議", days("2026-02-07", "2026-02-07"), "の会議"),
        ("3月以降", days("2025-03-01", ""), ""),
        ("지난주 회의", days("2026-02-02", "2026-02-08"), "회의"),
        ("2025년 3월", days("2025-03-01", "2025-03-31"), ""),
        ("어제", days("2026-02-09", "2026-02-09"), ""),
    ],
)
def test_eight_languages_name_times(text: str, period: Period, rest: str) -> None:
    named = find_time_expression(text, TODAY)
    assert named
    assert (named.period, named.rest) == (period, rest)


@pytest.mark.parametrize(
    "text",
    [
        "was steht hier drin",
        "may I ask",
        "march forward",
        "June 31 2025",
        "port 2025",
        "the last straw",
        "weekly",
    ],
)
def test_words_that_are_not_a_time(text: str) -> None:
    assert find_period(text, TODAY) is None


def test_an_event_is_found_by_its_description() -> None:
    assert find_period("what did we use before the move?", TODAY) == Event("before", "the move")
    assert find_period("what changed since we moved, roughly", TODAY) == Event("since", "we moved")
    assert Event("before", "").period(TODAY) == Period(None, TODAY, certain=False)
    assert Event("since", "").period(TODAY) == Period(TODAY, None, certain=False)


@given(st.text(), st.dates())
def test_any_text_is_read(text: str, today: dt.date) -> None:
    for said in (text, f"last {text} in May 9999 years ago"):
        spoken = find_period(said, today)
        assert spoken is None or isinstance(spoken, Event | Period)
        if isinstance(spoken, Period) and spoken.start and spoken.end:
            assert spoken.start < spoken.end


# -- decay -----------------------------------------------------------------------------------------


def shares(decay: Decay, *passages: tuple[float, str | None]) -> list[float]:
    dated = [Dated(relevance, "a.md", date) for relevance, date in passages]
    return [kept.factor for kept in decay_factors(dated, decay, None)]


def test_plain_decay_by_hand() -> None:
    plain = Decay(PLAIN, TODAY, half_life=30)
    assert shares(plain, (1, "2026-01-11"), (1, "2025-12-12"), (1, None)) == [0.5, 0.25, 1.0]
    assert shares(plain, (1, "2026-02-11")) == [1.0]  # of tomorrow


def test_relative_decay_by_hand() -> None:
    decay = Decay(RELATIVE, TODAY, half_life=30, least=0.75)
    assert shares(decay, (0.9, "2025-10-01"), (0.8, "2025-10-31")) == [0.875, 1.0]
    # The newer note is much less relevant, so age is not counted from it.
    assert shares(decay, (0.9, "2024-02-10"), (0.4, "2026-02-10")) == [1.0, 1.0]
    assert shares(decay, (0.9, None), (0.9, "not a date")) == [1.0, 1.0]


def test_evergreen_notes_do_not_age() -> None:
    decay = Decay(PLAIN, TODAY, evergreen=("people/*",))
    old = "2020-01-01"
    of_people, other = decay_factors(
        [Dated(1, "people/a.md", old), Dated(1, "log/a.md", old)], decay, None
    )
    assert of_people == UNDECAYED
    assert other.factor < 1e-9
    assert other.why == "2232 days old"


def test_a_period_decides_instead_of_age() -> None:
    passages = [Dated(1, "a", "2025-09-30"), Dated(1, "b", "2025-10-01"), Dated(1, "c", None)]
    kept = decay_factors(passages, Decay(PLAIN, TODAY), days("2025-09-01", "2025-09-30"))
    assert [one.factor for one in kept] == [1.0, OUTSIDE, UNDATED]
    assert kept[1].why == "2025-10-01 is not in 2025-09-01..2025-09-30"


@given(
    st.sampled_from([RELATIVE, PLAIN]),
    st.lists(st.tuples(st.floats(0, 1), st.dates(dt.date(1990, 1, 1), TODAY)), min_size=1),
    st.floats(0.1, 1000),
    st.floats(0, 1),
)
def test_an_older_note_never_keeps_more_of_its_score(
    method: str, passages: list[tuple[float, dt.date]], half_life: float, least: float
) -> None:
    decay = Decay(method, TODAY, half_life, least)
    dated = [Dated(relevance, "a.md", day.isoformat()) for relevance, day in passages]
    kept = [one.factor for one in decay_factors(dated, decay, None)]
    by_age = sorted(zip([day for _, day in passages], kept, strict=True))
    assert all(0 <= share <= 1 for share in kept)
    assert all(one[1] <= other[1] for one, other in pairwise(by_age))


# -- whole searches --------------------------------------------------------------------------------


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The example notes, with keyword and vector search.

    For this model the three answers match about equally well. For the default model the oldest one,
    which is the longest about the subject, matches so much better that its age does not decide.
    """
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "minilm")
    memory = Memory(workspace=REPOSITORY / "examples" / "notes")
    memory.index()
    return memory


def test_the_newest_of_three_answers_comes_first(example: Memory) -> None:
    """Rod's standup was at half past nine, then at eleven, and is at a quarter past two."""
    newest, oldest = "memory/2026-02-10.md", "memory/2025-09-15.md"
    for later in (TODAY, dt.date(2026, 11, 15)):
        hits = example.search("Rod standup time", today=later).hits
        assert hits[0].path == newest
        better = next(hit for hit in hits if hit.path == oldest)
        assert better.relevance > hits[0].relevance  # though it matches better
        assert better.score < hits[0].score


def test_an_old_note_that_alone_answers_is_the_first_hit(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("memory/2024-02-08.md", "The spare key of the shed hangs behind the water meter.\n")
    for day in range(1, 11):
        write(f"memory/2026-02-{day:02}.md", f"Day {day}: the shed was painted, the meter read.\n")
    memory.index(workspace)
    hits = memory.search("where is the spare key of the shed", today=TODAY, explain=True).hits
    assert hits[0].path == "memory/2024-02-08.md"


def test_a_time_in_the_query_is_preferred(memory: Memory, workspace: Path, write: Write) -> None:
    for month in ("2025-08", "2025-09", "2025-10"):
        write(f"memory/{month}-05.md", f"Budget meeting with the council, minutes of {month[-2:]}.")
    write("memory/2025-09-20.md", "We moved to the new house.\n")
    for number in range(20):
        write(f"other{number}.md", f"Something else entirely, number {number}.\n")
    memory.index(workspace)

    def first(query: str) -> str:
        return memory.search(query, today=TODAY).hits[0].path

    assert first("budget meeting in September 2025") == "memory/2025-09-05.md"
    assert first("budget meeting with the council last August") == "memory/2025-08-05.md"
    assert first("budget meeting before 2025-08-31") == "memory/2025-08-05.md"
    after = memory.search("budget meeting after we moved", today=TODAY, explain=True).hits
    order = [hit.path for hit in after]
    assert order.index("memory/2025-10-05.md") < order.index("memory/2025-09-05.md")
    last = next(hit.trace for hit in after if hit.path == "memory/2025-09-05.md")
    assert last
    assert last.kept == LIKELY_OUTSIDE


def test_the_current_time_can_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.now({}).date() == dt.date.today()
    assert config.now({"MEMWELL_NOW": "2026-02-10"}).date() == TODAY
    assert config.now({"MEMWELL_NOW": "2026-02-10T23:59"}).date() == TODAY
    with pytest.raises(ConfigError, match=r"MEMWELL_NOW = 'soon' is not a time"):
        config.now({"MEMWELL_NOW": "soon"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HALF_LIFE", "0"),
        ("HALF_LIFE", "-1"),
        ("HALF_LIFE", "nan"),
        ("DECAY_FLOOR", "1.5"),
        ("DECAY", "sometimes"),
    ],
)
def test_an_invalid_value_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"MEMWELL_SEARCH_{name}", value)
    with pytest.raises(ConfigError, match=rf"search\.{name.lower()}.*{value}"):
        config.load(None)
