"""The lines of a passage that a hit shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell.memory import Memory
from memwell.model import Hit
from memwell.search.snippet import snippet
from tests.conftest import Write


def hit(text: str, *words: str, focus: tuple[int, int] | None = None) -> Hit:
    at = sorted((text.index(word), text.index(word) + len(word)) for word in words)
    return Hit("a.md", "/notes", 10, 20, 1.0, 1.0, text, marks=tuple(at), focus=focus)


def shown(one: Hit, lines: int = 3, width: int = 200) -> list[str]:
    return [line.text for line in snippet(one, lines, width)]


def test_the_lines_with_the_most_words_are_shown() -> None:
    text = "\n\nOne heron.\n\nNothing.\nA grey heron eats\nfish.\n"
    assert shown(hit(text, "heron"), 1) == ["One heron."]
    assert shown(hit(text, "grey", "eats", "fish"), 2) == ["A grey heron eats", "fish."]
    assert [line.number for line in snippet(hit(text, "fish"), 1)] == [14]
    assert shown(hit("\n \n", *[])) == []


def test_a_long_line_is_cut_where_it_holds_the_most_words() -> None:
    filler = "so many words that say nothing at all about it, " * 10
    text = f"The heron. {filler} Enable it with PRAGMA journal_mode. {filler}"
    (line,) = snippet(hit(text, "heron", "Enable", "journal", "mode"), 1, 100)
    assert "Enable it with PRAGMA journal_mode." in line.text
    assert len(line.text) <= 102
    assert [line.text[start:end] for start, end in line.marks] == ["Enable", "journal", "mode"]
    assert shown(hit(filler), 1, 20) == [filler[:20].rstrip() + "…"]


def test_the_item_that_matched_is_shown() -> None:
    items = [f"- Item {number} of the list." for number in range(10)]
    text = "\n" + "\n".join(items)
    at = text.index("Item 7")
    assert shown(hit(text, focus=(at, at + 10)), 2) == items[6:8]


def test_a_search_shows_the_item_that_answers(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "memwell")
    others = "".join(f"- Ask someone about the {n}th part of the boiler.\n" for n in range(20))
    write("list.md", f"# Memory\n\n{others}- The cat gets her food at six and at eight.\n")
    with Memory() as memory:
        memory.index(workspace)
        (found,) = memory.search("when is the animal fed").hits
    assert found.focus
    assert found.text[slice(*found.focus)] == "The cat gets her food at six and at eight."
    assert "- The cat gets her food at six and at eight." in shown(found)
