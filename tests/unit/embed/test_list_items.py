"""A vector for each item of a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell.embed.list_items import ListItemEmbedder, list_items, without_items
from memwell.embed.testing import WordCounts
from memwell.memory import Memory
from tests.conftest import Write

FACTS = """\
# Facts

- [x] The cat is named Miso and is grey.
- The boiler was serviced in October
  by the firm in Hill Street.
- milk
- The tax form is in the blue folder.
* Rod's standup is at a quarter past two.
"""


def test_items_keep_their_lines_and_the_title() -> None:
    assert list_items(FACTS) == [
        "# Facts\nThe cat is named Miso and is grey.",
        "# Facts\nThe boiler was serviced in October\n  by the firm in Hill Street.",
        "# Facts\nThe tax form is in the blue folder.",
        "# Facts\nRod's standup is at a quarter past two.",
    ]
    steps = [f"Step number {number} is long." for number in range(5)]
    numbered = (f"{number}. {step}" for number, step in enumerate(steps))
    assert list_items("\n".join(numbered)) == steps


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No list at all.",
        "- Two items that are\n- too few for a list\n" * 2,
        "A long paragraph that says most of what there is to say here, and then\n- one\n- two\n- x\n- y\n- z",
        "    - indented code\n    - is not a list of facts\n" * 5,
    ],
)
def test_what_is_not_a_list(text: str) -> None:
    assert list_items(text) == []


def test_the_whole_passage_comes_first() -> None:
    plain, embedder = WordCounts(), ListItemEmbedder(WordCounts())
    one, listed, empty = embedder.embed_documents(["A heron.", FACTS, ""])
    assert (len(one), len(listed), len(empty)) == (1, 5, 0)
    for row, text in zip(listed, [FACTS, *list_items(FACTS)], strict=True):
        assert (row == plain.embed_documents([text])[0][0]).all()
    assert without_items(embedder.fingerprint) == plain.fingerprint


def test_one_item_answers(workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "memwell")
    topics = ["the boiler", "the fence", "the tax form", "the bicycle", "the choir", "the router"]
    others = [f"- Number {n} on the list: ask someone about {topics[n % 6]}.\n" for n in range(24)]
    write("MEMORY.md", "# Memory\n\n" + "".join(others[:12]))
    write(
        "list.md",
        "# Memory\n\n" + "".join(others[12:]) + "- The cat gets her food at six and at eight.\n",
    )
    write("other.md", "Wild animals live in the forest.\n")
    with Memory() as memory:
        memory.index(workspace)
        first = memory.search("when do we feed the pet", mode="meaning").hits[0]
        assert first.path == "list.md"
