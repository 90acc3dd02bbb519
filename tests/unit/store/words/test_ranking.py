"""Which words of a question select, and that it costs nothing in quality."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import Memory
from memwell.search.parse import parse
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.words import ranking
from memwell.store.words.query import Clause
from memwell.store.words.tree import Term
from tests.conftest import EXAMPLES, Write
from tests.support.states import index_file

FREQUENCIES = [("a", 5), ("b", 10), ("c", 100)]
QUESTIONS = [
    "what is the name of the cat",
    "how do we restore the database from the backup on plover",
    "which bot gets the message when the certificate is about to run out",
    "what did Rod say about the standup in the morning",
    "where is the key to the heating and who repairs it",
    "what does Michael do when he has to decide between two plans",
]


def best(index: SqliteIndex, question: str) -> list[int]:
    with index.reading() as reader:
        return [match.chunk_id for match in reader.keywords.search(parse(question).query, 10)]


def test_words_divide_where_their_postings_exceed_the_budget() -> None:
    words = [Clause(Term((token,)), postings, token) for token, postings in FREQUENCIES]
    assert ranking._split(words, 15) == (words[:2], words[2:])
    assert ranking._split(words, 14) == (words[:1], words[1:])
    assert ranking._split(words, 1) == (words[:1], words[1:])  # the rarest always selects
    assert ranking._split(words, 1000) == (words, ())


def test_a_word_is_the_same_however_it_is_written(home: Path) -> None:
    with Memory() as memory:
        memory.index(EXAMPLES)
    index = SqliteIndex(index_file(home))
    assert best(index, "Cat cats named name") == best(index, "cat cat name name")
    index.close()


def test_the_shortcut_gives_the_answers_of_a_plain_or(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory() as memory:
        memory.index(EXAMPLES)
    index = SqliteIndex(index_file(home))
    plain = {question: best(index, question) for question in QUESTIONS}
    divided: list[int] = []
    split = ranking._split

    def noted(words: list[Clause], budget: float) -> tuple[list[Clause], list[Clause]]:
        selecting, scoring = split(words, budget)
        divided.append(len(scoring))
        return list(selecting), list(scoring)

    monkeypatch.setattr(ranking, "_split", noted)
    monkeypatch.setattr(ranking, "_SELECT_ROWS", 20)
    monkeypatch.setattr(ranking, "_SELECT_SHARE", 0.0)
    for question in QUESTIONS:
        assert best(index, question) == plain[question]
    assert any(divided)
    index.close()


def test_filters_widen_the_selection_until_all_that_fit_are_found(
    memory: Memory, workspace: Path, write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "_SELECT_ROWS", 1)
    monkeypatch.setattr(ranking, "_SELECT_SHARE", 0.0)
    for number in range(150):
        write(f"a/{number}.md", "rare common\n")
    for number in range(20):
        write(f"b/{number}.md", f"common {number}\n")
    for number in range(200):
        write(f"c/{number}.md", "other\n")
    memory.index(workspace)
    assert len(memory.search("rare common path:b", k=50).hits) == 20
