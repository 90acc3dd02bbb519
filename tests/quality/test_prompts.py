"""What everyday prompts recall, in a notebook of 532 notes that is not part of this project.

Half of the prompts were written before the rules of recall, and half after them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.facts.recall_subject import has_subject, least_relevance
from tests.conftest import REPOSITORY

HERE = Path(__file__).parent
NOTEBOOK = REPOSITORY.parent / "shared" / "bench" / "workspaces" / "til"


def read(name: str) -> list[dict[str, Any]]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


PROMPTS, QUESTIONS = read("prompts.jsonl"), read("til_questions.jsonl")


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    if not NOTEBOOK.is_dir():
        pytest.skip("the notebook is not here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMWELL_EMBEDDING_CHAIN", "memwell")
        home = tmp_path_factory.mktemp("home")
        with Memory(home=home, workspace=NOTEBOOK) as memory:
            memory.index(NOTEBOOK)
            yield memory


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("yes do it", False),
        ("looks good, thanks!", False),
        ("commit this and push", False),
        ("ja, mach das bitte", False),
        ("sí, continúa", False),
        ("oui, vas-y", False),
        ("sim, faça o commit", False),
        ("继续", False),
        ("好的，提交吧", False),
        ("はい、お願いします", False),
        ("네, 계속해줘", False),
        ("when is Rod's birthday?", True),
        ("fix the parser of invoices", True),
        ("Wann kommt der Klempner?", True),
        ("数据库什么时候迁移", True),
        ("予算はいくらですか", True),
    ],
)
def test_a_prompt_of_acknowledgements_and_orders_names_no_subject(prompt: str, named: bool) -> None:
    assert has_subject(prompt) is named


def test_a_prompt_with_orders_recalls_only_what_fits_better() -> None:
    least = [
        least_relevance(prompt, 0.5)
        for prompt in (
            "when is Rod's birthday?",
            "fix the parser of invoices",
            "can you make the tests pass",
            "把这个函数拆成两个",
            "yes",
        )
    ]
    orders = [0, 1 / 3, 2 / 3, 6 / 9, 1]
    assert least == pytest.approx([0.5 + 0.25 * share for share in orders])


def test_every_question_names_a_subject() -> None:
    assert all(has_subject(case["query"]) for case in QUESTIONS)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_everyday_prompts_recall_hardly_anything(notebook: Memory) -> None:
    for half in (1, 2):
        prompts = [case["prompt"] for case in PROMPTS if case["half"] == half]
        assert len(prompts) == 20
        assert sum(bool(notebook.recall(prompt).block) for prompt in prompts) <= 4


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_real_questions_recall_their_note(notebook: Memory) -> None:
    for case in QUESTIONS:
        notebook.reset_recall_history()
        assert case["note"] in notebook.recall(case["query"]).block, case["query"]
