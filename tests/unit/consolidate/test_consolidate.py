"""A plan is proposed, read, applied and undone, and nothing changes without it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memwell import FactFilter, Memory
from memwell.consolidate.digest import digest, find_points, find_weeks
from memwell.llm.base import Answer
from tests.conftest import Write
from tests.support.cli import run, run_json
from tests.support.llm_servers import configured, says

OLD, NEW = "The standup is at 9:30.", "The standup is at 14:15."
SHORT, LONG = "The boiler is in the cellar.", "The old boiler is in the damp cellar."


@pytest.fixture
def logs(workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMWELL_NOW", "2026-11-17T10:00:00")
    write("MEMORY.md", "# Memory\n")
    write(
        "memory/2026-11-10.md", "# 2026-11-10\n\n## 09:15\n\nThe pump was replaced. It is loud.\n"
    )
    write(
        "memory/2026-11-13.md", "# 2026-11-13\n\n- Anna signed the lease\n- [ ] call the plumber\n"
    )
    write("memory/2026-11-16.md", "# 2026-11-16\n\nThis week is not over.\n")
    return workspace


@pytest.fixture
def told(logs: Path) -> Iterator[Memory]:
    with Memory(workspace=logs) as memory:
        for text in (OLD, SHORT, NEW, LONG, "The cat is named Miso."):
            memory.remember(text)
        yield memory


def texts(memory: Memory) -> set[str]:
    return {fact.text for fact in memory.facts.find(FactFilter())}


def test_a_plan_changes_nothing_until_it_is_applied_and_can_be_undone(
    told: Memory, logs: Path
) -> None:
    everything = {OLD, SHORT, NEW, LONG, "The cat is named Miso."}
    done = run("consolidate", cwd=logs)
    assert done.returncode == 0, done.stderr
    assert texts(told) == everything
    assert "3 steps by rules written to memwell-plan.json" in done.stdout
    assert f"instead of: {OLD} (the newer one says '14:15' instead of '9:30')" in done.stdout

    applied = run("consolidate", "--apply", "memwell-plan.json", cwd=logs)
    assert applied.stdout == "3 steps applied\n"
    assert texts(told) == {NEW, LONG, "The cat is named Miso."}
    note = (logs / "memory" / "weekly" / "2026-W46.md").read_text(encoding="utf-8")
    assert "The pump was replaced." in note
    assert told.search("pump replaced").hits[0].path.startswith("memory/")
    assert told.search("when is the standup", kind="fact").hits[0].text == NEW
    again = run("consolidate", "--apply", "memwell-plan.json", cwd=logs)
    assert (again.stdout, again.returncode) == ("0 steps applied\n", 1)
    assert run("consolidate", cwd=logs).stdout == "There is nothing to consolidate\n"

    undone = run("consolidate", "--undo", "memwell-plan.json", cwd=logs)
    assert undone.stdout == "3 steps undone\n"
    assert texts(told) == everything
    assert not (logs / "memory" / "weekly" / "2026-W46.md").exists()
    assert run("consolidate", "--undo", "memwell-plan.json", cwd=logs).returncode == 1


def test_steps_can_be_deleted_from_a_plan_and_it_is_private(told: Memory, logs: Path) -> None:
    run("consolidate", "--no-digest", cwd=logs)
    file = logs / "memwell-plan.json"
    assert file.stat().st_mode & 0o077 == 0
    plan = json.loads(file.read_text(encoding="utf-8"))
    assert {step["kind"] for step in plan["steps"]} == {"merge", "supersede"}
    plan["steps"] = [step for step in plan["steps"] if step["kind"] == "merge"]
    file.write_text(json.dumps(plan), encoding="utf-8")
    assert run_json("consolidate", "--apply", str(file), cwd=logs)["steps"][0]["applied"] is True
    assert texts(told) == {OLD, NEW, LONG, "The cat is named Miso."}


def test_what_changed_after_the_plan_is_left_alone(told: Memory, logs: Path) -> None:
    run("consolidate", cwd=logs)
    (old,) = [fact for fact in told.facts.find(FactFilter()) if fact.text == OLD]
    told.facts.edit(old.id, text="The standup is at 9:45.")
    done = run("consolidate", "--apply", "memwell-plan.json", cwd=logs)
    assert done.stdout == "2 steps applied\n"
    assert done.stderr == f"left alone: The fact {old.id} was changed since\n"
    (logs / "memory" / "weekly" / "2026-W46.md").write_text("mine\n", encoding="utf-8")
    undone = run("consolidate", "--undo", "memwell-plan.json", cwd=logs)
    assert undone.stdout == "1 step undone\n"
    assert "was changed by hand" in undone.stderr
    assert (logs / "memory" / "weekly" / "2026-W46.md").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize("path", ["../outside.md", "/tmp/outside.md"])
def test_a_plan_writes_nothing_outside_of_the_workspace(
    told: Memory, logs: Path, path: str
) -> None:
    step = {"kind": "digest", "why": "", "path": path, "text": "x"}
    (logs / "plan.json").write_text(json.dumps({"steps": [step], "by": "x"}), encoding="utf-8")
    done = run("consolidate", "--apply", "plan.json", cwd=logs)
    assert done.returncode == 1
    assert "outside of the workspace" in done.stderr
    assert not (logs / path).exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"steps": [{"bogus": 1}], "by": "x"}'])
def test_a_file_that_is_not_a_plan_is_named(logs: Path, text: str) -> None:
    (logs / "plan.json").write_text(text, encoding="utf-8")
    done = run("consolidate", "--apply", "plan.json", cwd=logs)
    assert done.returncode == 3
    assert "plan.json is not a plan" in done.stderr


def test_a_language_model_judges_what_no_rule_decides(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(workspace=logs) as memory:
        for text in (
            "Deploys to production need two reviews.",
            "Production deploys need one review.",
        ):
            memory.remember(text)
        with configured("openai", monkeypatch) as server:
            server.usually = says("1 contradiction")
            done = run("consolidate", "--no-digest", cwd=logs)
            assert "1 step by a-model" in done.stdout
            sent = str(server.requests[0].body)
            assert "Deploys to production need two reviews." in sent
        assert run("consolidate", "--rules", "--no-digest", cwd=logs).returncode == 1
        run("consolidate", "--apply", "memwell-plan.json", cwd=logs)
        assert texts(memory) == {"Production deploys need one review."}


def test_a_language_model_that_fails_leaves_the_rules(
    told: Memory, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_LLM_DEFAULT", "openai:none")
    monkeypatch.setenv("MEMWELL_LLM_OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("MEMWELL_LLM_TIMEOUT", "0.2")
    told.remember("The harbour crane is in the harbour yard since May.")
    told.remember("The harbour crane of the yard is out of order.")
    done = run("consolidate", cwd=logs)
    assert "3 steps by rules" in done.stdout
    assert "2026-W46 has no summary" in done.stderr


class Summariser:
    """A model that returns one summary, and keeps what it was sent."""

    name, model, address = "test", "test", "here"

    def __init__(self) -> None:
        self.sent = ""

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        self.sent = user
        return Answer("- The pump is new.", 1, 1)


def test_a_week_is_summarised_without_its_secrets(logs: Path, write: Write) -> None:
    from memwell.consolidate.ask_model import summarise

    write("memory/2026-11-11.md", "The key is sk-abcdefghijklmnopqrstuvwxyz123456.\n")
    (week,) = find_weeks(logs, "memory", dt.date(2026, 11, 17))
    model = Summariser()
    text = digest(week, summarise(week, model))
    assert "sk-abcdef" not in model.sent
    assert "pump was replaced" in model.sent
    assert text.startswith("---\ndate: 2026-11-15\ntags: [digest]\n---\n\n# Week 2026-W46")
    assert "- The pump is new.\n\n## Tuesday, [2026-11-10](../2026-11-10.md)" in text


def test_a_week_with_one_log_or_a_digest_has_none(logs: Path, write: Write) -> None:
    write("memory/2026-11-03.md", "One log alone.\n")
    weeks = find_weeks(logs, "memory", dt.date(2026, 11, 17))
    assert [week.name for week in weeks] == ["2026-W46"]
    write("memory/weekly/2026-W46.md", "mine\n")
    assert find_weeks(logs, "memory", dt.date(2026, 11, 17)) == []


def test_points_are_bullets_and_first_sentences() -> None:
    text = "---\na: b\n---\n# Day\n\n## 10:00\n\nFirst. Second.\n\n- one\n- [x] two\n- one\n"
    assert find_points(text) == ["First.", "one", "two"]
    assert len(find_points("\n\n".join(f"Point {n}." for n in range(20)))) == 8
