"""`why` names the step that dropped a note; context around hits; phrases that no note contains."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import Memory
from memwell.errors import MemwellError
from memwell.model import Hit
from memwell.search.snippet import group_adjacent
from tests.conftest import Write
from tests.support.cli import run
from tests.support.embedders import Faulty


@pytest.fixture
def pets(memory: Memory, workspace: Path, write: Write) -> Memory:
    """A few notes on pets among many on other subjects."""
    write("cat.md", "# Cat\n\nThe cat Miso sleeps by the heater.\n")
    write("copy.md", "The cat Miso sleeps by the heater.\n")
    write("memory/2024-01-01.md", "The cat had kittens by the heater.\n")
    write("memory/2026-01-01.md", "The cat had its jab.\n")
    write("dog.md", "The dog Rex barks at the cat and the heater.\n")
    for number in range(30):
        write(f"other{number}.md", f"Something else entirely, of number {number} and the heater.\n")
    memory.index(workspace)
    return memory


def test_a_note_among_the_hits_has_a_place_and_a_trace(pets: Memory) -> None:
    found = pets.why("cat miso", "cat.md")
    assert found.found
    assert found.reason.startswith("hit 1 of ")
    assert found.trace
    assert found.trace.score == pets.search("cat miso").hits[0].score


@pytest.mark.parametrize(
    ("query", "path", "verdict", "reason"),
    [
        ("cat", "nothing.md", "not indexed", "there is no such file"),
        ("cat path:memory", "cat.md", "filtered", "path:memory excludes it"),
        ("cat after:2025-01-01", "memory/2024-01-01.md", "filtered", "after:2025-01-01"),
        (
            "cat -heater",
            "dog.md",
            "excluded",
            "lacks required words, or it contains excluded words",
        ),
        ('cat "its jab"', "dog.md", "excluded", "lacks required words"),
        ("kittens", "dog.md", "outside the pool", "words: no word in common"),
        ("the cat Miso sleeps", "copy.md", "collapsed", "cat.md:1, is nearly the same"),
    ],
)
def test_why_names_the_step_that_dropped_a_note(
    pets: Memory, query: str, path: str, verdict: str, reason: str
) -> None:
    found = pets.why(query, path)
    assert not found.found
    assert found.verdict == verdict
    assert reason in found.reason


def test_an_outranked_note_gets_the_k_that_shows_it(pets: Memory) -> None:
    found = pets.why("cat heater", "other7.md", k=2)
    assert found.verdict == "outranked"
    place = int(found.remedy.rpartition(" ")[2])
    assert pets.why("cat heater", "other7.md", k=place).found


def test_a_note_below_the_threshold_gets_the_min_score_that_shows_it(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    write("cat.md", "The cat sleeps by the heater.\n")
    for number in range(10):
        write(f"other{number}.md", f"Something else entirely, of number {number}.\n")
    with Memory(workspace=workspace, embedders={"mine": Faulty}) as memory:
        memory.index(workspace)
        found = memory.why("cat heater", "other7.md")
        assert found.verdict == "below the threshold"
        enough = float(found.remedy.rpartition(" ")[2])
        hits = memory.search("cat heater", k=99, min_score=enough).hits
        assert "other7.md" in {path for hit in hits for path in (hit.path, *hit.also)}


def test_a_file_that_is_not_a_note(pets: Memory, workspace: Path) -> None:
    (workspace / "picture.png").write_bytes(b"cat")
    found = pets.why("cat", "picture.png")
    assert "the file exists, but is not a note of this workspace" in found.reason


def test_why_on_the_command_line(pets: Memory, workspace: Path) -> None:
    there = run("why", "cat miso", "cat.md", "--mode", "words", cwd=workspace)
    assert there.returncode == 0
    assert there.stdout.startswith("cat.md: found, hit 1 of ")
    away = run("why", "kittens", str(workspace / "dog.md"), "--mode", "words", cwd=workspace)
    assert away.returncode == 1
    assert away.stdout.startswith("dog.md: outside the pool")


# -- context ---------------------------------------------------------------------------------------


def test_a_hit_with_context(
    memory: Memory, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_CHUNK_SIZE", "40")
    monkeypatch.setenv("MEMWELL_CHUNK_OVERLAP", "10")
    parts = [f"Paragraph {number} of the long section says something." * 3 for number in range(8)]
    parts[4] = parts[4].replace("something", "zebrafinch")
    write("long.md", "# Long\n\n" + "\n\n".join(parts) + "\n\n# Other\n\nNothing here.\n")
    memory.index(workspace)
    plain = memory.search("zebrafinch").hits[0]
    assert plain.context is None
    near = memory.search("zebrafinch", context="neighbours").hits[0].context
    whole = memory.search("zebrafinch", context="section").hits[0].context
    assert near
    assert whole
    assert near.start_line < plain.start_line <= plain.end_line < near.end_line
    assert plain.text.strip() in near.text
    text = (workspace / "long.md").read_text().split("# Other")[0]
    assert whole.text.strip() == text.strip()  # the overlap is not repeated
    with pytest.raises(MemwellError, match="'page' is not a context"):
        memory.search("zebrafinch", context="page")


def hit(path: str, start: int, end: int, heading: tuple[str, ...] = ("A",)) -> Hit:
    return Hit(path, "/w", start, end, 0.5, 0.5, "text", heading=heading)


def test_hits_that_follow_one_another_in_a_section_are_shown_as_one() -> None:
    first, second, third = hit("a.md", 10, 12), hit("b.md", 1, 2), hit("a.md", 5, 8)
    assert group_adjacent([first, second, third]) == [[third, first], [second]]
    apart = [hit("a.md", 1, 2), hit("a.md", 9, 10), hit("a.md", 3, 4, ("B",))]
    assert group_adjacent(apart) == [[one] for one in apart]


# -- quotes ----------------------------------------------------------------------------------------


def test_a_phrase_that_no_note_contains_is_searched_as_words(pets: Memory) -> None:
    result = pets.search('where is the cat "sleeping miso"')
    assert result.hits[0].path == "cat.md"
    assert result.notices == (
        'No passage contains "sleeping miso" word for word; searched for the single words',
    )
    assert pets.search('"sleeping miso"').hits == ()  # a phrase alone stays a phrase
    assert pets.search('where "cat Miso"').notices == ()
