"""HyDE: recalling by answers that a model makes up, over real HTTP; and what it costs if it fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.search.hyde import ANSWERS
from memwell.store.sqlite.index import SqliteIndex
from tests.conftest import Write
from tests.support.cli import run
from tests.support.llm_servers import PROVIDERS, Set, configured, held_back, says, sent, setter
from tests.support.servers import Act, Server, raw, silent, status


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Set:
    return setter(monkeypatch)


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(provider: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A language model that is configured, in the protocol of each provider."""
    with configured(provider, monkeypatch) as started:
        yield started


QUESTION = "when can the bread go in?"
NOTE = "# Kitchen\n\nThe Miele takes ten minutes to heat up to 200 degrees.\n"
MADE_UP = "The Miele oven takes fifteen minutes to heat up to 220 degrees."


@pytest.fixture
def notes(workspace: Path, write: Write, setting: Set) -> Path:
    write("kitchen.md", NOTE)
    write("bake.md", "# Bread\n\nI bake on Sundays, before the guests come.\n")
    write("boats.md", "# Harbour\n\nThe ferry to the island leaves at six.\n")
    # The embedder for tests only counts words, so nothing is as relevant as with a real model.
    setting(embedding_chain="test", recall_min_score="0.05", recall_k="12")
    with Memory(fallback_workspace=workspace) as memory:
        memory.index(workspace)
    return workspace


def recalled(workspace: Path, question: str = QUESTION) -> tuple[list[str], list[str]]:
    with Memory(fallback_workspace=workspace) as memory:
        found = memory.recall(question)
        return [hit.path for hit in found.hits], memory.notices


def test_a_hypothetical_answer_adds_what_the_query_misses_and_loses_nothing(
    notes: Path, server: Server, setting: Set, home: Path
) -> None:
    plain, notices = recalled(notes)
    assert ("kitchen.md" not in plain, notices, server.requests) == (True, [], [])
    setting(search_hyde_enabled="true")
    server.usually = says(MADE_UP)
    found, notices = recalled(notes)
    assert (found, notices) == ([*plain, "kitchen.md"], [])
    assert recalled(notes)[0] == found
    assert len(server.requests) == 1, "the answer is kept"
    with Memory(fallback_workspace=notes) as memory:
        assert "kitchen.md" not in [hit.path for hit in memory.search(QUESTION).hits]
        assert (home / "agents" / "main" / ANSWERS).stat().st_mode & 0o077 == 0
        memory.forget(memory.remember("The Miele stands in the kitchen.").fact.id)
    assert not (home / "agents" / "main" / ANSWERS).exists()
    assert len(server.requests) == 1, "a search asks no model"


def test_a_hypothetical_answer_can_replace_the_query(
    notes: Path, server: Server, setting: Set
) -> None:
    setting(search_hyde_enabled="true", search_hyde_mode="replace", search_mode="meaning")
    server.usually = says(MADE_UP)
    assert recalled(notes)[0] == ["kitchen.md"]


@pytest.mark.parametrize("wrong", ["silent", "refusing", "failing", "broken", "empty", "unnamed"])
def test_when_hyde_fails_the_plain_query_answers_alone(
    notes: Path, server: Server, setting: Set, wrong: str
) -> None:
    plain, _ = recalled(notes)
    setting(search_hyde_enabled="true", llm_timeout=0.3)
    server.usually = {
        "silent": silent,
        "refusing": held_back,
        "failing": status(401, {"message": "no"}),
        "broken": raw(b'{"choices": [{"candidates": [{'),
        "empty": says(" "),
        "unnamed": says(MADE_UP),
    }[wrong]
    setting(**({"llm_default": ""} if wrong == "unnamed" else {}))
    for mode in ("add", "replace"):
        setting(search_hyde_mode=mode)
        found, notices = recalled(notes)
        assert found == plain
        assert len(notices) == (0 if wrong == "empty" else 1)


@pytest.mark.parametrize("act", [silent, status(401, {"message": "no"}), status(429)])
def test_a_model_that_fails_is_waited_for_once_by_all_processes(
    notes: Path, server: Server, setting: Set, act: Act
) -> None:
    setting(search_hyde_enabled="true", llm_timeout=0.3)
    server.usually = act
    first, second = (run("recall", QUESTION, cwd=notes) for _ in range(2))
    assert first.stderr.count("\n") == second.stderr.count("\n") == 1
    assert "a cooldown begins" in first.stderr
    assert f"a-model at {server.url.split('/')[2]} is in its cooldown: " in second.stderr
    asked = len(server.requests)
    with Memory(fallback_workspace=notes) as memory:
        for word in ("bread", "oven", "bread"):
            memory.recall(f"{word}: {QUESTION}")
        assert len(memory.notices) == 1, "it is said once"
    assert len(server.requests) == asked


def test_a_model_that_was_left_alone_is_asked_again_after_a_while(
    notes: Path, server: Server, setting: Set, provider: str, home: Path
) -> None:
    setting(search_hyde_enabled="true")
    server.usually = status(401, {"message": "no"})
    recalled(notes)
    name = f"{provider}:a-model at {server.url.split('/')[2]}"
    with closing(SqliteIndex(home / "agents" / "main" / "index.db")) as index:
        with index.writing_cooldowns() as rests:
            assert rests.get(name)
            rests.record_failure(name, "no", time.time() - 3600)
        server.usually = says(MADE_UP)
        found, notices = recalled(notes)
        assert ("kitchen.md" in found, notices, len(server.requests)) == (True, [], 2)
        with index.reading() as reader:
            assert reader.cooldowns.get(name) is None, "it answers"


def test_index_has_a_model_asked_again_at_once(notes: Path, server: Server, setting: Set) -> None:
    setting(search_hyde_enabled="true")
    server.usually = status(401, {"message": "no"})
    assert "kitchen.md" not in recalled(notes)[0]
    server.usually = says(MADE_UP)
    assert "kitchen.md" not in recalled(notes)[0]
    with Memory(fallback_workspace=notes) as memory:
        memory.index()
    assert "kitchen.md" in recalled(notes)[0]


def test_a_refusal_and_a_spent_budget_are_no_failures_of_the_model(
    notes: Path, server: Server, setting: Set
) -> None:
    setting(search_hyde_enabled="true", llm_max_calls=0)
    (notice,) = recalled(notes)[1]
    assert "0 times" in notice
    assert server.requests == []
    setting(llm_max_calls=1)
    server.script = [held_back]
    (notice,) = recalled(notes)[1]
    assert "will not answer this" in notice
    server.usually = says(MADE_UP)
    assert "kitchen.md" in recalled(notes)[0]


def test_answers_that_cannot_be_read_or_kept_are_asked_for_again(
    notes: Path, server: Server, setting: Set, home: Path
) -> None:
    setting(search_hyde_enabled="true")
    server.usually = says(f"```\n{MADE_UP}\n```")
    file = home / "agents" / "main" / ANSWERS
    for number, content in enumerate(["", "[1]", '{"x": '], 1):
        file.write_text(content, encoding="utf-8")
        assert "kitchen.md" in recalled(notes)[0]
        assert len(server.requests) == number
    file.unlink()
    file.mkdir()
    assert "kitchen.md" in recalled(notes)[0]


def test_what_is_sent_is_logged_without_a_key(
    notes: Path, setting: Set, tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, key = tmp_path / "llm.jsonl", "sk-not-for-anybody"
    setting(search_hyde_enabled="true", llm_log=log)
    with configured(provider, monkeypatch, key) as server:
        server.usually = says(f"{MADE_UP} {key}")
        recalled(notes)
        assert key in json.dumps(server.requests[0].headers)
    (line,) = log.read_text(encoding="utf-8").splitlines()
    assert key not in line
    assert QUESTION in json.loads(line)["messages"][1]["content"]
    assert json.loads(line)["answer"] == f"{MADE_UP} ***"


def test_a_log_that_cannot_be_written_is_said_once_and_costs_nothing(
    notes: Path, server: Server, setting: Set, tmp_path: Path
) -> None:
    setting(search_hyde_enabled="true", llm_log=tmp_path / "gone" / "llm.jsonl")
    server.usually = says(MADE_UP)
    with Memory(fallback_workspace=notes) as memory:
        for word in ("bread", "oven"):
            found = memory.recall(f"{word}: {QUESTION}")
            assert "kitchen.md" in [hit.path for hit in found.hits]
        (notice,) = memory.notices
    assert notice.startswith("llm.log = ")


def test_what_a_message_holds_of_secrets_is_not_sent(
    notes: Path, server: Server, setting: Set
) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    setting(search_hyde_enabled="true")
    recalled(notes, f"what is {token} for")
    (request,) = server.requests
    assert token not in json.dumps(request.body)
    assert "for" in sent(request)


def test_without_vectors_no_answer_is_asked_for(notes: Path, server: Server, setting: Set) -> None:
    setting(search_hyde_enabled="true", search_mode="words")
    recalled(notes)
    setting(search_mode="hybrid", embedding_chain="")
    recalled(notes)
    assert server.requests == []


# -- measured --------------------------------------------------------------------------------------


@pytest.fixture
def labelled(tmp_path: Path, setting: Set) -> Path:
    """A set in which a question and its answer have no word in common."""
    folder = tmp_path / "set"
    folder.mkdir()
    texts = {"oven": NOTE, "boats": "The ferry leaves at six."}
    texts |= {f"bread{number}": f"Bread of kind {number} is for sale." for number in range(12)}
    lines = [json.dumps({"id": name, "text": text}) for name, text in texts.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    asked = {"q1": QUESTION, "q2": "ferry"}
    lines = [json.dumps({"id": name, "text": text}) for name, text in asked.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines))
    (folder / "qrels.tsv").write_text("q1\toven\t1\nq2\tboats\t1\n")
    setting(embedding_chain="test", recall_min_score="0.05", recall_k="12")
    return folder


def evaluated(*arguments: str, cwd: Path) -> dict[str, Any]:
    done = run("eval", *arguments, "--hyde", "--json", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout)["hyde"])


def test_eval_compares_plain_searches_with_both_ways_of_hyde(
    labelled: Path, server: Server, provider: str
) -> None:
    server.usually = says(MADE_UP)
    hyde = evaluated(".", cwd=labelled)
    assert (hyde["model"], hyde["answered"]) == (f"{provider}:a-model", 2)
    assert (hyde["calls"], hyde["tokens"]) == (2, 2 * (19 + 10))
    assert {way: figures["recall@10"] for way, figures in hyde["metrics"].items()} == {
        "plain": 1 / 2,
        "add": 1,
        "replace": 1,
    }
    assert hyde["metrics"]["add"]["mrr@10"] >= hyde["metrics"]["plain"]["mrr@10"]
    assert evaluated(".", cwd=labelled)["calls"] == 0, "answers are kept"
    shown = run("eval", ".", "--hyde", cwd=labelled).stdout.splitlines()
    at = shown.index(f"with hypothetical answers of {provider}:a-model (2 of 2 queries have one)")
    assert [line.split()[0] for line in shown[at + 2 :]] == ["plain", "add", "replace"]


def test_eval_asks_ones_own_cases_with_hyde(notes: Path, write: Write, server: Server) -> None:
    server.usually = says(MADE_UP)
    write("cases.yaml", f"kitchen.md: {QUESTION}\n")
    figures = evaluated("cases.yaml", cwd=notes)["metrics"]
    assert [figures[way]["hit@10"] for way in ("plain", "add", "replace")] == [0, 1, 1]


def test_eval_keeps_to_the_budget_and_goes_on_the_next_time(
    labelled: Path, server: Server, setting: Set
) -> None:
    server.usually = says(MADE_UP)
    setting(llm_max_calls=1)
    done = run("eval", ".", "--hyde", cwd=labelled)
    assert "(1 of 2 queries have one)" in done.stdout
    assert done.stderr.count("llm.max_calls") == 1
    assert len(server.requests) == 1
    assert evaluated(".", cwd=labelled)["answered"] == 2
    assert len(server.requests) == 2


def test_eval_says_what_hyde_lacks(labelled: Path, server: Server, setting: Set) -> None:
    def told(*arguments: str) -> tuple[int, str]:
        done = run("eval", ".", "--hyde", *arguments, cwd=labelled)
        return done.returncode, " ".join(done.stderr.split())

    status, said = told("--compare", "search.mode=words")
    assert (status, "cannot be combined with --compare" in said) == (2, True)
    status, said = told("--compare", "search.hyde_enabled=true")
    assert (status, "does not change any figure" in said) == (2, True)
    status, said = told("--mode", "words")
    assert (status, "HyDE searches by embedding" in said) == (3, True)
    setting(llm_default="")
    status, said = told()
    assert (status, "Set llm.default" in said, server.requests) == (3, True, [])
