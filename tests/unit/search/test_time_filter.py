"""Questions about a time, and filters that match nothing."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from memwell.memory import Memory
from memwell.model import SearchResult
from tests.conftest import Write

TODAY = dt.date(2026, 11, 16)
"""A Monday."""
LAST_WEEK = ["memory/2026-11-15.md", "memory/2026-11-13.md", "memory/2026-11-10.md"]


@pytest.fixture
def diary(memory: Memory, workspace: Path, write: Write) -> Memory:
    for day in ("10-28", "11-02", "11-06", "11-10", "11-13", "11-15"):
        write(f"memory/2026-{day}.md", f"# {day}\n\nTalked with Anna about the invoices.\n")
    write("memory/2026-11-13.md", "# 11-13\n\nMoved the database to a new host.\n")
    write("memory/2026-11-06.md", "# 11-06\n\nThe database backup failed.\n")
    write("MEMORY.md", "The database runs on heron.\n\nTaxes are due on 13 November.\n")
    memory.index(workspace)
    return memory


def paths(result: SearchResult) -> list[str]:
    return [hit.path for hit in result.hits]


@pytest.mark.parametrize(
    "query",
    [
        "what happened last week",
        "last week",
        "what did I do last week?",
        "was ist letzte Woche passiert",
        "qu'est-ce qui s'est passé la semaine dernière",
        "¿qué pasó la semana pasada?",
        "o que aconteceu na semana passada",
        "上周发生了什么",
        "先週何があった",
        "지난주에 무슨 일이 있었나",
    ],
)
def test_a_question_for_a_time_alone_lists_its_notes_newest_first(
    diary: Memory, query: str
) -> None:
    found = diary.search(query, today=TODAY)
    assert paths(found) == LAST_WEEK
    assert found.order == "date"
    assert not any(hit.weak for hit in found.hits)


def test_notes_of_the_time_come_first_and_others_are_left_out(diary: Memory) -> None:
    found = diary.search("what about the database last week", today=TODAY, explain=True)
    assert paths(found)[0] == "memory/2026-11-13.md"
    assert "memory/2026-11-06.md" not in paths(found)  # it matches as well, but is older
    assert "MEMORY.md" in paths(found)  # it has no date
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert found.hits[0].trace
    assert found.hits[0].trace.gain > 0


def test_the_words_of_the_time_do_not_count(diary: Memory) -> None:
    with_time = diary.search("database last week", today=TODAY, explain=True).hits[0].trace
    assert with_time
    assert with_time.covered == 1.0


def test_notes_of_the_time_are_exempt_from_the_threshold(diary: Memory) -> None:
    found = diary.search("zeppelin last week", today=TODAY, min_score=0.9)
    assert set(paths(found)) <= {*LAST_WEEK}
    found = diary.search("invoices and zeppelins yesterday", today=TODAY, min_score=0.99)
    assert paths(found) == ["memory/2026-11-15.md"]
    assert not found.hits[0].weak


def test_without_notes_of_the_time_others_are_marked(diary: Memory) -> None:
    found = diary.search("database in 2024", today=TODAY)
    assert "memory/2026-11-13.md" in paths(found)
    assert all(hit.weak for hit in found.hits if hit.date)
    assert found.notices == (
        "No note is dated 2024-01-01..2024-12-31; searched for the words at any time",
    )


def test_a_note_that_names_the_date_stays(diary: Memory, workspace: Path, write: Write) -> None:
    write("memory/2026-11-02.md", "# 11-02\n\nThe car inspection is on 13 November.\n")
    diary.index(workspace)
    assert "memory/2026-11-02.md" in paths(diary.search("inspection on 13 November", today=TODAY))
    assert "memory/2026-11-02.md" not in paths(diary.search("inspection last Friday", today=TODAY))


def test_why_names_the_time(diary: Memory) -> None:
    why = diary.why("database last week", "memory/2026-11-06.md", today=TODAY)
    assert (why.verdict, why.reason) == ("filtered", "it is not dated 2026-11-09..2026-11-15")


@pytest.mark.parametrize(
    ("query", "notice"),
    [
        ("tag:boat database", "No note has the tag boat"),
        ("path:boats/* database", "path:boats/* matches no note"),
        ("after:2027 database", "No note is dated after 2027-01-01"),
        ("before:2020 database", "No note is dated before 2020-01-01"),
        ("before:2026-11 after:2026-11 database", "No note matches all the filters"),
    ],
)
def test_filters_that_match_nothing_are_named(diary: Memory, query: str, notice: str) -> None:
    found = diary.search(query, today=TODAY)
    assert (found.hits, found.notices) == ((), (notice,))


def test_a_workspace_without_dates_says_so(memory: Memory, workspace: Path, write: Write) -> None:
    write("a.md", "The database runs on heron.\n")
    memory.index(workspace)
    no_date = "No note has a date"
    assert memory.search("after:2023 database").notices[0].startswith(no_date)
    last_week = memory.search("database last week", today=TODAY)
    assert paths(last_week) == ["a.md"]
    assert last_week.notices[0].startswith(no_date)
