"""A small workspace in four languages: every question finds its note, and no answer is empty.

The questions were written before the ranking that they judge.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from memwell import Memory
from memwell.config.sections import RecallSettings
from tests.support.embedders import embedding_once

HERE = Path(__file__).parent
QUESTIONS = [
    json.loads(line)
    for line in (HERE / "small_questions.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    folder = tmp_path_factory.mktemp("small")
    shutil.copytree(HERE / "small", folder / "notes")
    with pytest.MonkeyPatch.context() as patch, embedding_once():
        patch.setenv("MEMWELL_EMBEDDING_CHAIN", "memwell")
        with Memory(home=folder / "home", workspace=folder / "notes") as memory:
            memory.index(folder / "notes")
            yield memory


@pytest.mark.parametrize("case", QUESTIONS, ids=lambda case: str(case["query"]))
def test_the_answer_is_among_three_hits(small: Memory, case: dict[str, str]) -> None:
    assert case["note"] in [hit.path for hit in small.search(case["query"], k=3).hits]


def test_the_scores_of_a_small_workspace_are_not_too_low(small: Memory) -> None:
    best = [small.search(case["query"], k=3).hits[0] for case in QUESTIONS]
    assert sum(hit.weak for hit in best) == 0
    assert sum(hit.score >= RecallSettings.min_score for hit in best) >= 23


def test_the_words_alone_answer_most_questions(small: Memory) -> None:
    found = [
        case["note"] in [hit.path for hit in small.search(case["query"], k=3, mode="words").hits]
        for case in QUESTIONS
    ]
    assert sum(found) >= 25


@pytest.mark.parametrize(
    "query", ["zzzzqqq", "xylofon quartz", "the", "what is the capital of Mongolia"]
)
def test_nonsense_and_foreign_questions_find_only_weak_hits(small: Memory, query: str) -> None:
    assert all(hit.weak for hit in small.search(query).hits)


@pytest.mark.parametrize("query", ["如何从 Python 历史中删除密码", "Kestrel のトリガー"])
def test_one_word_of_a_question_in_another_script_is_not_an_answer(
    small: Memory, query: str
) -> None:
    found = small.search(query).hits
    assert found
    assert all(hit.score < 0.5 for hit in found)


def test_hits_are_in_the_order_of_the_scores_that_they_show(small: Memory) -> None:
    for case in QUESTIONS:
        scores = [hit.score for hit in small.search(case["query"], k=10).hits]
        assert scores == sorted(scores, reverse=True)


def test_hits_are_different_notes_unless_passages_are_asked_for(small: Memory) -> None:
    by_note = [hit.path for hit in small.search("Ines", k=10).hits]
    assert len(by_note) == len({*by_note})
    assert len(small.search("Ines", k=10, group="passages").hits) > len(by_note)
