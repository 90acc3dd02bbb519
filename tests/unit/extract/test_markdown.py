"""Facts from Markdown by rules: sixty labelled passages, and laws for any text."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell.extract.markdown import MAX_CHARACTERS, MarkdownFact, extract_facts
from tests.conftest import REPOSITORY

PASSAGES = REPOSITORY / "tests" / "support" / "data" / "passages.txt"


@dataclass
class Passage:
    """A text, and the facts (kind and text) that a person would extract from it."""

    name: str
    text: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)


def passages() -> list[Passage]:
    found: list[Passage] = []
    labels = False
    for line in PASSAGES.read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            found.append(Passage(line[4:]))
            labels = False
        elif line == "--- facts":
            labels = True
        elif found and labels:
            kind, _, text = line.partition(": ")
            found[-1].facts.append((kind, text))
        elif found:
            found[-1].text += line + "\n"
    return found


def folded(text: str) -> str:
    """Return a text without case, space and punctuation."""
    return "".join(filter(str.isalnum, text.casefold()))


def test_precision_and_recall_on_our_own_passages() -> None:
    found = labelled = right = same_kind = 0
    wrong, missed = [], []
    for passage in passages():
        facts = {folded(fact.text): fact for fact in extract_facts(passage.text)}
        labels = {folded(text): kind for kind, text in passage.facts}
        shared = facts.keys() & labels.keys()
        found, labelled, right = found + len(facts), labelled + len(labels), right + len(shared)
        same_kind += sum(facts[text].kind == labels[text] for text in shared)
        wrong += [f"{passage.name}: {facts[text].text}" for text in facts.keys() - shared]
        missed += [f"{passage.name}: {text}" for text in labels.keys() - shared]
    precision, recall = right / found, right / labelled
    figures = (
        f"{right} of {found} found are right, of {labelled} labelled: precision {precision:.3f}, "
        f"recall {recall:.3f}; kinds {same_kind / right:.3f}; wrong {wrong}; missed {missed}"
    )
    assert precision >= 0.9, figures
    assert recall >= 0.95, figures
    assert same_kind / right >= 0.95, figures


def test_the_passages_are_sixty_and_a_quarter_has_nothing_to_keep() -> None:
    all_of_them = passages()
    assert len({passage.name for passage in all_of_them}) == len(all_of_them) == 60
    assert sum(not passage.facts for passage in all_of_them) >= 60 / 4
    assert {kind for passage in all_of_them for kind, _ in passage.facts} == {
        "definition",
        "command",
        "bullet",
        "row",
    }


def texts(markdown: str) -> list[str]:
    return [fact.text for fact in extract_facts(markdown)]


def test_facts_know_their_lines() -> None:
    note = (
        "---\ntitle: x\n---\n# Cellar\n\nIt is damp. The pump is\na Grundfos from 2019. Nice.\n\n"
        "- switch: behind the door,\n  on the left\n\n## Start the pump\n\n```sh\npumpctl start\n```\n"
        "\n| a | b |\n|---|---|\n| one | two words |\n"
    )
    assert extract_facts(note) == [
        MarkdownFact("Cellar: The pump is a Grundfos from 2019.", 6, 7, "definition"),
        MarkdownFact("Cellar: switch: behind the door, on the left", 9, 10, "definition"),
        MarkdownFact("To start the pump: `pumpctl start`", 14, 16, "command"),
        MarkdownFact("Start the pump: one: b: two words", 20, 20, "row"),
    ]


def test_the_nearest_heading_that_says_something() -> None:
    assert texts("# Router\n\n## Overview\n\n- reachable at 10.0.0.1 only\n") == [
        "Router: reachable at 10.0.0.1 only"
    ]
    assert texts("# Router\n\n## Glossary\n\n- NAT - network address translation\n") == [
        "NAT: network address translation"
    ]
    assert texts("# Router {#router}\n\n- the router has two antennas\n") == [
        "the router has two antennas"
    ]


def test_a_fact_that_stands_twice_is_kept_once() -> None:
    assert texts("WAL stands for write-ahead log.\n\nWAL stands for *write-ahead* log.\n") == [
        "WAL stands for write-ahead log."
    ]


def test_what_is_as_long_as_allowed_is_kept_and_no_longer() -> None:
    head = "Soup: "
    assert texts(f"# Soup\n\n- is so {'x' * (300 - len(head + 'is so '))}\n") != []
    assert texts(f"# Soup\n\n- is so {'x' * (301 - len(head + 'is so '))}\n") == []


def test_commands_of_a_point_and_their_output() -> None:
    note = "# Disk\n\n1. Check the free space:\n\n   ```console\n   $ df -h\n   /dev/sda1 90%\n   ```\n2. Ask Paul for more of it\n"
    assert texts(note) == ["To check the free space: `df -h`", "Disk: Ask Paul for more of it"]


def test_markup_is_gone_and_code_stays() -> None:
    assert texts(
        "# Web\n\n- **see** the [`_index`](a.md) of *our* [[wiki|pages]] <br> `a*b*c`\n"
    ) == ["Web: see the `_index` of our pages `a*b*c`"]


PIECES = st.sampled_from(
    [
        "# ",
        "\n",
        "\n\n",
        "- ",
        "  - ",
        "1. ",
        "| a | b |\n|---|---|\n",
        "| c | d |\n",
        "```",
        "```sh\n",
        "$ ls\n",
        "**T**: ",
        "`ls -l`",
        "Run `make x` to build it. ",
        "A x is a y. ",
        "[ ] ",
        "---\n",
        "> ",
        "# a\n",
        ":",
        "=",
        "~~",
    ]
)


@given(st.lists(st.one_of(st.text(max_size=20), PIECES)).map("".join))
def test_any_text_gives_facts_that_are_short_enough_and_on_its_lines(text: str) -> None:
    lines = text.count("\n") + 1
    for fact in extract_facts(text):
        assert 1 <= fact.start_line <= fact.end_line <= lines
        assert len(fact.text) <= 300
        assert len(fact.text.split()) >= 2
        assert fact.text == fact.text.strip()


@pytest.mark.parametrize(
    "piece",
    [
        "*",
        "**a",
        "`",
        "[",
        "[a](",
        "- a\n",
        "| a ",
        "<",
        "a. ",
        "To a ",
        "~~",
        " - a\n  - b\n",
        "\\|",
        "x is ",
    ],
)
def test_a_long_text_of_one_piece_is_read(piece: str) -> None:
    found = extract_facts(piece * (50_000 // len(piece)))
    assert all(len(fact.text) <= MAX_CHARACTERS for fact in found)
