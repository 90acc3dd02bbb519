"""Erasing facts: no file of the home keeps the text, even with open readers and after crashes."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from memwell import Memory
from memwell.errors import MemwellError
from memwell.facts.erase import finish_erasures
from tests.support.cli import run

SECRET = "The zebrafinch code is quokka."


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")


def holding(home: Path, text: bytes = b"quokka") -> list[str]:
    """Return the files of the home that contain a text."""
    files = [file for file in home.rglob("*") if file.is_file()]
    return sorted(file.name for file in files if text in file.read_bytes())


def test_every_agents_files_are_scrubbed(home: Path, embedded: None) -> None:
    with Memory(agent="one") as one, Memory(agent="two") as two:
        fact = one.remember(SECRET, scope="global").fact
        for memory in (one, two):
            assert memory.search("zebrafinch").hits[0].path == fact.id
            memory.fill()
        assert {"index.db", "memory.db"} <= {re.sub("-wal$", "", name) for name in holding(home)}
        done = one.forget(fact.id)
        assert (done.count, done.pending, done.backups) == (1, False, ())
        assert holding(home) == []
        for memory in (one, two):
            assert memory.search("zebrafinch", kind="fact").hits == ()


def test_vectors_in_the_cache_are_erased_too(home: Path, embedded: None) -> None:
    with Memory() as memory:
        fact = memory.remember(SECRET).fact
        memory.remember("The door is green.")
        memory.fill()
        assert cached(home) == 2
        memory.forget(fact.id)
        assert cached(home) == 1


def cached(home: Path) -> int:
    connection = apsw.Connection(str(home / "agents" / "main" / "embeddings.db"))
    found = connection.execute("SELECT count(*) FROM cached").get
    connection.close()
    return int(str(found))


def test_an_erasure_that_a_reader_blocks_is_pending_until_the_next_open(
    home: Path, embedded: None
) -> None:
    with Memory() as memory:
        fact = memory.remember(SECRET).fact
        memory.search("zebrafinch")
    reader = apsw.Connection(str(home / "agents" / "main" / "index.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM chunks").fetchall()
    with Memory() as memory:
        assert memory.forget(fact.id).pending
        assert memory.search("zebrafinch", kind="fact").hits == ()  # a search no longer finds it
        assert holding(home) != []
        reader.close()
    with Memory() as memory:
        memory.search("anything")
        assert holding(home) == []


def test_an_erasure_that_a_crash_interrupts_is_finished(home: Path, embedded: None) -> None:
    with Memory() as memory:
        fact = memory.remember(SECRET).fact
        memory.search("zebrafinch")
        memory.facts.forget([fact.id])  # and then the process dies
    assert holding(home) != []
    with Memory() as memory:
        memory.recall("zeppelins")
        assert holding(home) == []
        assert memory.facts.store.pending_erasures() == {}


def test_quarantined_files_are_erased(home: Path, workspace: Path) -> None:
    with Memory() as memory:
        fact = memory.remember(SECRET).fact
        memory.search("zebrafinch")
    file = home / "agents" / "main" / "index.db"
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + b"x" * 4000 + whole[4100:])
    with Memory() as memory:
        assert memory.search("zebrafinch").hits[0].path == fact.id
        assert any("corrupt" in name for name in holding(home))
        memory.forget(fact.id)
        assert holding(home) == []


def test_backups_that_contain_the_fact_are_named_wherever_they_are(
    home: Path, tmp_path: Path
) -> None:
    before, after, gone = (tmp_path / f"{name}.backup" for name in ("before", "after", "gone"))
    with Memory() as memory:
        memory.remember("The door is green.")
        memory.facts.store.require_file().backup(before)
        fact = memory.remember(SECRET).fact
        memory.facts.store.require_file().backup(after)
        memory.facts.store.require_file().backup(gone)
        gone.unlink()
        assert memory.forget(fact.id).backups == (str(after),)
        assert finish_erasures(memory.facts.store)


def test_forgetting_by_query_shows_the_facts_and_asks(home: Path, workspace: Path) -> None:
    with Memory() as memory:
        old = memory.remember("The hamster is called Pip.").fact
        memory.supersede(old.id, "The hamster is called Bolt.")
        memory.remember("The door is green.")
    asked = run("forget", "--query", "hamster", cwd=workspace)
    assert asked.returncode == 2
    assert "The hamster is called Pip." in asked.stderr
    assert "2 facts would be forgotten: add --yes" in asked.stderr
    assert run("forget", "--query", "hamster", "--yes", cwd=workspace).stdout == "2 forgotten\n"
    assert holding(home, b"hamster") == []
    nothing = run("forget", "--query", "hamster", "--yes", cwd=workspace)
    assert (nothing.returncode, nothing.stderr) == (1, "There is nothing to forget\n")
    assert run("forget", cwd=workspace).returncode == 2
    assert run("forget", "x", "--scope", "user", cwd=workspace).returncode == 2


def test_forgetting_a_scope_leaves_the_others(home: Path, workspace: Path) -> None:
    with Memory(user="anna") as anna:
        anna.remember("Anna likes tea.", scope="user")
        anna.remember("Anna's old flat is in Graz.", scope="user", decay_class="checkpoint")
        anna.remember("The door is green.", scope="agent")
    done = run("forget", "--scope", "user", "--user", "anna", "--yes", cwd=workspace)
    assert done.stdout == "2 forgotten\n"
    with Memory(user="anna") as anna:
        assert [hit.text for hit in anna.search("Anna door").hits] == ["The door is green."]
        with pytest.raises(MemwellError, match="'planet' is not a scope"):
            anna.facts.list_scope("planet")


def test_doctor_finds_nothing_wrong_right_after_a_fact_was_forgotten(
    memory: Memory, workspace: Path
) -> None:
    """FTS5's check once read the structure that a connection had cached before the erasure."""
    (workspace / "cat.md").write_text("The cat is named Miso.\n")
    memory.index(workspace)
    fact = memory.remember("The boiler is serviced every March.").fact
    assert memory.search("boiler").hits
    memory.doctor()
    memory.forget(fact.id)
    assert [check.detail for check in memory.doctor() if not check.ok] == []
