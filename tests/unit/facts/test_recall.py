"""The recall block quotes what says something, and of a list the items that match."""

from __future__ import annotations

import pytest

from memwell import Memory
from memwell.facts.recall import recall_block
from memwell.model import Hit
from tests.conftest import Write

MEMORY = """# Memory

- Passport expires 2027-08-19, kept in the blue folder.
- The dog is called Pixel, a grey whippet.
- Coffee: flat white with oat milk, no sugar.
- Python line length is 100 characters.
- The gateway is deployed on Thursdays.
- The dentist is Dr. Sorensen in the harbour street.
"""


def hit(text: str, **fields: object) -> Hit:
    return Hit("a.md", "/w", 1, 1, 1.0, 1.0, text, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["# hi", "## Later\n\n", "#\n"])
def test_recall_skips_a_note_that_has_only_a_heading(text: str) -> None:
    assert recall_block([hit(text)], 500).block == ""
    filled = recall_block([hit(text), hit("# hi\n\nThe cat is Miso.")], 500)
    assert [used.text for used in filled.hits] == ["# hi\n\nThe cat is Miso."]


def test_recall_keeps_a_fact_that_begins_with_a_hash() -> None:
    assert "#general" in recall_block([hit("# #general is the channel", kind="fact")], 500).block


def test_recall_quotes_the_bullet_and_not_the_whole_file(memory: Memory, write: Write) -> None:
    memory.index(write("MEMORY.md", MEMORY).parent)
    block = memory.recall("when does my passport expire?").block
    assert "Passport expires 2027-08-19" in block
    assert "Pixel" not in block
    assert "oat milk" not in block


def test_recall_quotes_the_item_that_is_most_similar() -> None:
    start = MEMORY.index("Coffee")
    found = hit(MEMORY, focus=(start, start + len("Coffee: flat white with oat milk, no sugar.")))
    block = recall_block([found], 500).block
    assert block.split(': "')[1].split('"')[0] == "Coffee: flat white with oat milk, no sugar."
