"""The words of a query are highlighted, those of its grammar are not."""

from __future__ import annotations

import pytest

from memwell import Memory
from tests.conftest import Write


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("how do I take my coffee", {"take", "coffee"}),
        ("what do we do about the coffee", {"coffee"}),
    ],
)
def test_function_words_are_not_highlighted(
    memory: Memory, write: Write, query: str, marked: set[str]
) -> None:
    memory.index(write("a.md", "What do I do: I take my coffee black, and I do like it.\n").parent)
    (hit,) = memory.search(query).hits
    assert {hit.text[start:end] for start, end in hit.marks} == marked
