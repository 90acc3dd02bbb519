"""A home on a full disk, with damaged files, with few descriptors, or open to others."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from memwell import Memory
from tests.conftest import Write
from tests.reliability.defects.support import (
    drop_rights_of_root,
    find_crash,
    run,
    run_process,
    run_script,
    stop_all_writing,
)

FACT = "The cat is named Miso."


@pytest.fixture
def filled(workspace: Path, write: Write) -> Path:
    """A workspace with a note and a fact, both indexed."""
    write("a.md", "The heron eats fish.\n")
    assert run("index", ".", cwd=workspace).returncode == 0
    assert run("remember", FACT, cwd=workspace).returncode == 0
    assert "Miso" in run("search", "Miso", cwd=workspace).stdout
    return workspace


# -- D13: a full disk ------------------------------------------------------------------------------


@pytest.mark.parametrize("log", [False, True])
def test_reliability_d13_a_full_disk_can_be_searched(filled: Path, home: Path, log: bool) -> None:
    if log:  # a killed process left its log, with a fact that is nowhere else
        script = (
            "import os; from memwell import Memory; memory = Memory();"
            "memory.remember('The dog is named Rex.'); os._exit(0)"
        )
        assert run_script(script, cwd=filled).returncode == 0
        assert (home / "memory.db-wal").stat().st_size
    listed = run_process("facts", "list", cwd=filled, preexec_fn=stop_all_writing)
    assert (listed.returncode, FACT in listed.stdout) == (0, True), listed.stderr
    assert ("Rex" in listed.stdout) is log
    searched = run_process("search", "heron", cwd=filled, preexec_fn=stop_all_writing)
    assert (searched.returncode, "a.md" in searched.stdout) == (0, True)
    found = run_process("search", "Miso", cwd=filled, preexec_fn=stop_all_writing)
    assert "Miso" in found.stdout
    verified = run_process("verify", cwd=filled, preexec_fn=stop_all_writing)
    assert (verified.returncode, "is sound" in verified.stdout) == (0, True)
    refused = run_process("remember", "The cow is brown.", cwd=filled, preexec_fn=stop_all_writing)
    assert (refused.returncode != 0, find_crash(refused)) == (True, "")
    assert run("remember", "The cow is brown.", cwd=filled).returncode == 0


# -- D3, D11, D29: descriptors ---------------------------------------------------------------------

SHORTAGE = """
import os, resource, sys
from memwell import Memory
for folder in sys.argv[1:]:  # imports all modules
    other = Memory(folder)
    other.remember("A fact of another memory.")
    other.search("fact")
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
failed = 0
for free in range(8):
    memory = Memory()
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limit[1]))
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + free, limit[1]))
    for verb in (memory.search, memory.remember):
        try:
            verb("Nothing can be opened.")
        except Exception as error:
            failed += 1
            print(free, error)
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    memory.remember(f"The dog {free} is named Rex.")
    assert any(f"dog {free}" in hit.text for hit in memory.search("Rex", k=50).hits)
    memory.close()  # else the next one finds its files open
if not failed:
    raise SystemExit("the shortage had no effect")
"""


def test_reliability_d03_a_shortage_of_descriptors_passes(filled: Path) -> None:
    done = run_script(SHORTAGE, str(filled / "other"), cwd=filled)
    assert (find_crash(done), done.returncode) == ("", 0)


def test_reliability_d11_a_replaced_snapshot_is_closed(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process replaces the snapshot of the vectors, as `forget` does."""
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    sections = [f"# Bird {number}\n\nThe heron {number} eats fish.\n" for number in range(600)]
    write("a.md", "\n".join(sections))  # so many that they get a snapshot
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


WITHOUT_DESCRIPTORS = """
import os, resource, sys
from memwell import Memory

with Memory() as memory:
    memory.index(sys.argv[1])
    memory.index(sys.argv[1])  # imports all modules
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, most))
    try:
        print(*memory.index(sys.argv[1])[0].problems)
    except Exception as error:
        print(error)
"""


def test_reliability_d29_the_limit_of_open_files_is_named_as_such(
    workspace: Path, write: Write
) -> None:
    write("a.md", "zebra\n")
    told = run_script(WITHOUT_DESCRIPTORS, str(workspace), cwd=workspace)
    assert "ermissions" not in told.stdout
    assert "Too many open files" in told.stdout, told.stderr
    assert "ulimit -n" in told.stdout


# -- D10, D14: damaged files -----------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"", b"no model", None])
def test_reliability_d10_a_damaged_model_is_written_again(
    workspace: Path, home: Path, write: Write, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "minilm")
    write("a.md", "The heron eats fish.\n")
    assert run_process("index", ".", cwd=workspace).returncode == 0
    (model,) = (home / "models").glob("minilm-*.onnx")
    sound = model.read_bytes()
    model.write_bytes(sound[:-1000] + bytes(1000) if damage is None else damage)
    searched = run_process("search", "what does the bird eat", "--json", cwd=workspace)
    assert (find_crash(searched), searched.returncode) == ("", 0)
    assert all(leg["answered"] for leg in json.loads(searched.stdout)["legs"])
    (again,) = (home / "models").glob("minilm-*.onnx")
    assert again.read_bytes() == sound


@pytest.mark.parametrize("damage", ["", "{", "[1, 2]", '{"workspaces": [{"root": 3}]}'])
def test_reliability_d14_a_damaged_list_of_workspaces_is_restored(
    filled: Path, home: Path, damage: str
) -> None:
    file = home / "agents" / "main" / "workspaces.json"
    before = json.loads(file.read_text())
    file.write_text(damage)
    listed = run("facts", "list", cwd=filled)
    assert (listed.returncode, FACT in listed.stdout) == (0, True), listed.stderr
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
        assert (searched.returncode, "a.md" in searched.stdout) == (0, True), searched.stderr
        assert "memory.db" in searched.stderr
        assert "damaged" in searched.stderr
    assert "Miso" in run("search", "Miso", cwd=filled).stdout  # the index still has it
    assert run("facts", "list", cwd=filled).returncode == 3
    assert run("verify", cwd=filled).returncode != 0


# -- D23, D30: permissions -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shut", ["home", "home/agents", "above", "above/notes", "above/notes/a.md"]
)
def test_reliability_d23_doctor_reports_what_it_cannot_read(tmp_path: Path, shut: str) -> None:
    notes = tmp_path / "above" / "notes"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("zebra\n")
    assert run_process("index", str(notes), cwd=tmp_path).returncode == 0
    mode = (tmp_path / shut).stat().st_mode
    (tmp_path / shut).chmod(0)
    try:
        checked = run_process("doctor", cwd=tmp_path, preexec_fn=drop_rights_of_root)
    finally:
        (tmp_path / shut).chmod(mode)
    assert find_crash(checked) == ""
    assert checked.returncode == 1
    assert "FAIL" in checked.stdout
    assert str(tmp_path / shut) in checked.stdout or "a.md cannot be read" in checked.stdout


def test_reliability_d30_an_open_home_becomes_private(
    workspace: Path, home: Path, write: Write
) -> None:
    write("a.md", "The heron eats fish.\n")
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    done = run("index", ".", cwd=workspace)
    assert f"{stat.S_IMODE(home.stat().st_mode):o}" == "700"
    assert f"{home} was open to other users" in done.stderr
