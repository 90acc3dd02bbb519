"""The commands about facts: where they write, in which order they list, and what they name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memwell import Memory
from tests.support.cli import run, run_json, run_process


def test_export_to_a_hyphen_writes_to_standard_output(tmp_path: Path, memory: Memory) -> None:
    memory.remember("The cat is named Miso.")
    done = run("export", "-", cwd=tmp_path)
    assert "Miso" in done.stdout
    assert done.stdout == run("export", cwd=tmp_path).stdout
    assert not (tmp_path / "-").exists()


def test_a_fact_told_from_python_says_so(tmp_path: Path, memory: Memory) -> None:
    assert memory.remember("The cat is named Miso.").fact.source == "python"
    run("remember", "The dog is named Rex.", cwd=tmp_path)
    (dog,) = run_json("facts", "list", "--source", "cli", cwd=tmp_path)["facts"]
    assert dog["text"] == "The dog is named Rex."
    run("supersede", dog["id"], "The dog is named Max.", cwd=tmp_path)
    (dog,) = run_json("facts", "list", "--source", "cli", cwd=tmp_path)["facts"]
    assert dog["text"] == "The dog is named Max."


def test_forget_names_the_facts_that_the_forgotten_one_superseded(
    tmp_path: Path, memory: Memory
) -> None:
    first = memory.remember("The standup is at nine.").fact.id
    second = memory.supersede(first, "The standup is at ten.").fact.id
    third = memory.supersede(second, "The standup is at noon.").fact.id
    done = run("forget", third, cwd=tmp_path)
    assert done.stdout == "1 forgotten\n"
    command = done.stderr.split("`")[1].split()
    assert (command[:2], {*command[2:]}) == (["memwell", "forget"], {first, second})
    assert run(*command[1:], cwd=tmp_path).stdout == "2 forgotten\n"
    assert b"standup" not in (memory.home / "memory.db").read_bytes()


def test_forget_erases_the_predecessors_if_asked(tmp_path: Path, memory: Memory) -> None:
    first = memory.remember("The standup is at nine.").fact.id
    second = memory.supersede(first, "The standup is at ten.").fact.id
    done = run("forget", second, "--predecessors", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["count"] == 2
    assert json.loads(done.stdout)["predecessors"] == []
    assert memory.export() == ""


@pytest.mark.process
def test_facts_told_at_the_same_instant_are_listed_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_NOW", "2026-02-10T12:00:00")
    texts = [f"The cat number {n} sleeps." for n in range(4)]
    for text in texts:
        assert run_process("remember", text, cwd=tmp_path).returncode == 0
    run("remember", "The dog sleeps.", cwd=tmp_path)
    run("remember", "The dog barks.", cwd=tmp_path)
    listed = [fact["text"] for fact in run_json("facts", "list", cwd=tmp_path)["facts"]]
    assert listed == [*texts, "The dog sleeps.", "The dog barks."][::-1]
