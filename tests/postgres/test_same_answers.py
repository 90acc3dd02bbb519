"""The same notes and facts in both stores give the same answers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memwell import Memory
from memwell.config.fields import Value
from memwell.config.load import load
from memwell.evaluate.dataset import load as load_set
from memwell.evaluate.runner import evaluate_memory
from memwell.facts.service import NewFact
from memwell.store.factory import open_postgres
from memwell.store.postgres import keywords
from memwell.store.postgres import textsearch as candidates
from memwell.store.words import ranking
from tests.conftest import EXAMPLES, REPOSITORY, shared_set
from tests.support.postgres import app_url, build_agent_indexes, new_tenant

pytestmark = pytest.mark.slow

K = 6
SAME = 0.95
QUESTIONS = 60
PARTS = 4
"""Tests that share the queries, so that each is short on a busy machine, too."""
Shown = list[tuple[str, int, float]]


def cases() -> list[str]:
    """Queries about the example notes: real ones, and random ones with operators."""
    lines = (
        (REPOSITORY / "tests" / "quality" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    )
    found = [str(json.loads(line)["query"]) for line in lines]
    chance = random.Random(7)
    for file in sorted(EXAMPLES.rglob("*.md")):
        words = re.findall(r"\S+", file.read_text(encoding="utf-8"))
        start = chance.randrange(len(words))
        one, two, three = (chance.choice(words) for _ in range(3))
        found += [
            " ".join(words[start : start + chance.randint(1, 8)]),
            f'"{" ".join(words[start : start + 2])}"',
            f"{one} OR ({two} AND {three})",
            f"{one} {two} -{three}",
            f"{one[:4]}* path:{chance.choice(['memory', 'projects', '*.md'])}",
        ]
    return found


@pytest.fixture(scope="module", params=["small", "large"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Memory, Memory]]:
    """The example notes and some facts, in files and on a server, there also as a large agent's."""
    home = tmp_path_factory.mktemp("both")
    own: dict[str, Value] = {
        "embedding.chain": ("test",),
        "search.decay": "off",
        "sync.on_search": False,
    }
    tenant = new_tenant()
    server: dict[str, Value] = {**own, "store.url": app_url(), "store.tenant": tenant}
    with (
        Memory(home / "files", settings=own) as files,
        Memory(home / "server", settings=server) as on,
    ):
        for memory in (files, on):
            memory.index(EXAMPLES, embed=False)
            for number in range(20):
                what = ("cat", "deploy", "server", "standup")[number % 4]
                told = NewFact(f"Fact {number}: the {what} is at {number} o'clock.", scope="global")
                memory.facts.remember(told)
            memory.fill()
        with pytest.MonkeyPatch.context() as patch:
            if request.param == "large":
                # As if there were a hundred times as many: nothing is so rare that all is looked up.
                patch.setattr(ranking, "_SELECT_ROWS", 0)
                patch.setattr(candidates, "_SPARE", 1)
                for module in (candidates, keywords):
                    patch.setattr(module, "MANY_POSTINGS", 0)
                assert len(build_agent_indexes(tenant).built) == 2
            yield files, on


def shown(memory: Memory, query: str, mode: str = "hybrid") -> Shown:
    """The hits; a fact is named by its text, since ids are random."""
    hits = memory.search(query, k=K, mode=mode).hits
    return [
        (hit.text if hit.kind == "fact" else hit.path, hit.start_line, hit.score) for hit in hits
    ]


@pytest.mark.parametrize(
    ("both", "part"),
    [*(("small", part) for part in range(PARTS)), ("large", 0)],
    indirect=["both"],
)
def test_the_same_hits_with_the_same_scores(both: tuple[Memory, Memory], part: int) -> None:
    asked = cases()
    assert len(asked) >= 500
    asked = asked[part::PARTS]
    same = 0
    for query in asked:
        files, server = (shown(memory, query) for memory in both)
        if [place for *place, _ in files] == [place for *place, _ in server]:
            same += 1
            assert [score for *_, score in server] == pytest.approx(
                [score for *_, score in files], abs=1e-9
            )
    assert same >= SAME * len(asked), f"{same} of {len(asked)}"


@pytest.mark.parametrize("both", ["small"], indirect=True)
def test_words_score_the_same_to_nine_digits(both: tuple[Memory, Memory]) -> None:
    for query in cases()[::PARTS]:
        files, server = (shown(memory, query, "words") for memory in both)
        assert [place for *place, _ in files] == [place for *place, _ in server], query
        assert [score for *_, score in server] == pytest.approx(
            [score for *_, score in files], abs=1e-9
        )


@pytest.mark.parametrize("name", ["qmd-eval", "xquad-zh", "anthropic-docs"])
def test_the_same_quality_on_labelled_sets(name: str, tmp_path: Path, home: Path) -> None:
    dataset = load_set(shared_set(name))
    dataset = replace(dataset, questions=dataset.questions[:QUESTIONS])
    settings = load(None).with_overrides({"embedding.chain": ("test",)})
    index = open_postgres(app_url(), new_tenant(), tmp_path, "main").index
    found = [
        evaluate_memory(dataset, settings, "hybrid", tmp_path / "cache.db", index=one)
        for one in (None, index)
    ]
    files, server = (evaluation.overall["ndcg@10"] for evaluation in found)
    assert server == pytest.approx(files, abs=0.01)
