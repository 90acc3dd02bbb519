"""A home on a full disk, with damaged files, with few descriptors, or open to others."""

from __future__ import annotations

import json
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memwell.memory import Memory
from tests.conftest import Write
from tests.support.cli import run

FACT = "The cat is named Miso."


def memwell(
    *arguments: str, cwd: Path, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "memwell", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        preexec_fn=before,
        check=False,
    )


def write_nothing() -> None:
    """As on a full disk, no file can grow."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.fixture
def filled(workspace: Path, write: Write) -> Path:
    """A workspace with a note and a fact, both indexed."""
    write("a.md", "The heron eats fish.\n")
    assert run("index", ".", cwd=workspace).returncode == 0
    assert run("remember", FACT, cwd=workspace).returncode == 0
    assert "Miso" in run("search", "Miso", cwd=workspace).stdout
    return workspace


@pytest.mark.parametrize("log", [False, True])
def test_reliability_d13_a_full_disk_can_be_searched(filled: Path, home: Path, log: bool) -> None:
    if log:  # a killed process left its log, with a fact that is nowhere else
        script = (
            "import os; from memwell import Memory; memory = Memory();"
            "memory.remember('The dog is named Rex.'); os._exit(0)"
        )
        subprocess.run([sys.executable, "-c", script], cwd=filled, check=True)
        assert (home / "memory.db-wal").stat().st_size
    listed = memwell("facts", "list", cwd=filled, before=write_nothing)
    assert (listed.returncode, FACT in listed.stdout) == (0, True)
    assert ("Rex" in listed.stdout) is log
    searched = memwell("search", "heron", cwd=filled, before=write_nothing)
    assert (searched.returncode, "a.md" in searched.stdout) == (0, True)
    assert "Miso" in memwell("search", "Miso", cwd=filled, before=write_nothing).stdout
    verified = memwell("verify", cwd=filled, before=write_nothing)
    assert (verified.returncode, "is sound" in verified.stdout) == (0, True)
    refused = memwell("remember", "The cow is brown.", cwd=filled, before=write_nothing)
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    assert run("remember", "The cow is brown.", cwd=filled).returncode == 0


def test_reliability_d03_a_shortage_of_descriptors_passes(filled: Path) -> None:
    script = """
import os, resource, sys
from memwell import Memory
for folder in sys.argv[1:]:  # imports all modules
    other = Memory(folder)
    other.remember("A fact of another memory.")
    other.search("fact")
memory = Memory()
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
highest = max(map(int, os.listdir("/proc/self/fd")))
resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limit[1]))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
try:
    memory.remember("Nothing can be opened.")
    raise SystemExit("the shortage had no effect")
except Exception as error:
    print(error)
try:
    memory.search("Miso")
except Exception as error:
    print(error)
for descriptor in taken:
    os.close(descriptor)
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
memory.remember("The dog is named Rex.")
assert any("Rex" in hit.text for hit in memory.search("Rex").hits)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(filled / "other")],
        cwd=filled,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("damage", [b"", b"no model", None])
def test_reliability_d10_a_damaged_model_is_written_again(
    workspace: Path, home: Path, write: Write, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "minilm")
    write("a.md", "The heron eats fish.\n")
    assert run("index", ".", cwd=workspace).returncode == 0
    (model,) = (home / "models").glob("minilm-*.onnx")
    sound = model.read_bytes()
    model.write_bytes(sound[:-1000] + bytes(1000) if damage is None else damage)
    searched = memwell("search", "what does the bird eat", "--json", cwd=workspace)
    assert searched.returncode == 0, searched.stderr
    assert all(leg["answered"] for leg in json.loads(searched.stdout)["legs"])
    (again,) = (home / "models").glob("minilm-*.onnx")
    assert again.read_bytes() == sound


def test_reliability_d11_a_replaced_snapshot_is_closed(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process replaces the snapshot of the vectors, as `forget` does."""
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    write("a.md", "The heron eats fish.\n")
    with Memory() as server:
        server.index(workspace)
        for number in range(5):
            told = server.remember(f"Fact number {number} is about a heron.")
            server.search("heron")
            with Memory() as other:
                other.forget(told.fact.id)
            server.search("heron")
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    assert [line for line in maps if "vectors-" in line and line.endswith("(deleted)")] == []


@pytest.mark.parametrize("damage", ["", "{", "[1, 2]", '{"workspaces": [{"root": 3}]}'])
def test_reliability_d14_a_damaged_list_of_workspaces_is_restored(
    filled: Path, home: Path, damage: str
) -> None:
    file = home / "agents" / "main" / "workspaces.json"
    before = json.loads(file.read_text())
    file.write_text(damage)
    listed = run("facts", "list", cwd=filled)
    assert (listed.returncode, FACT in listed.stdout) == (0, True)
    assert "a.md" in run("search", "heron", cwd=filled).stdout
    assert json.loads(file.read_text()) == before
    assert file.with_name("workspaces.json.corrupt").read_text() == damage


@pytest.mark.parametrize("damage", [b"no database" * 1000, None])
def test_reliability_d14_notes_are_found_beside_a_damaged_memory_db(
    filled: Path, home: Path, damage: bytes | None
) -> None:
    file = home / "memory.db"
    data = file.read_bytes()
    file.write_bytes(data[:100] + bytes(len(data) - 100) if damage is None else damage)
    for kind in ((), ("--kind", "note")):
        searched = run("search", "heron", *kind, cwd=filled)
        assert (searched.returncode, "a.md" in searched.stdout) == (0, True)
        assert "memory.db" in searched.stderr
        assert "damaged" in searched.stderr
    assert "Miso" in run("search", "Miso", cwd=filled).stdout  # the index still has it
    assert run("facts", "list", cwd=filled).returncode == 3
    assert run("verify", cwd=filled).returncode != 0


def test_reliability_d30_an_open_home_becomes_private(
    workspace: Path, home: Path, write: Write
) -> None:
    write("a.md", "The heron eats fish.\n")
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    done = run("index", ".", cwd=workspace)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert f"{home} was open to other users" in done.stderr
