"""Facts are not lost unnoticed, and forgotten texts leave no bytes."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from memwell import Memory
from tests.conftest import Write
from tests.reliability.defects.support import (
    drop_rights_of_root,
    find_files_with,
    list_texts,
    remember,
    run,
    run_json,
    run_process,
    run_script,
)

# -- D1, D19, D28: a lost memory.db ----------------------------------------------------------------

LAMPS = [f"The lamp with the number {number} stands in a room" for number in range(5)]
QUIET = "Anna likes quiet places in the north wing"
ZEBRAS = "Zebras graze behind the new barn"


def _lose(how: str, home: Path, older: Path) -> None:
    file = home / "memory.db"
    match how:
        case "missing":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "older":
            shutil.copy(older, file)
        case "foreign":
            with Memory(home.with_name("foreign")) as memory:
                for number in range(20):
                    memory.remember(f"Somebody else has the fact {number}")
            shutil.copy(home.with_name("foreign") / "memory.db", file)


@pytest.mark.parametrize("how", ["missing", "empty", "older", "foreign"])
def test_reliability_d01_a_lost_memory_is_noticed_and_rescued(
    how: str, home: Path, workspace: Path, tmp_path: Path
) -> None:
    for text in LAMPS:
        remember(workspace, text)
    shutil.copy(home / "memory.db", older := tmp_path / "older.db")
    remember(workspace, QUIET)
    assert run("search", "quiet", cwd=workspace).returncode == 0
    _lose(how, home, older)

    verified = run("verify", cwd=workspace)
    assert verified.returncode == 1, verified.stdout
    assert run("doctor", cwd=workspace).returncode == 1
    for command in (["search", "lamp"], ["recall", "Which lamp is it?"], ["facts", "list"]):
        assert "memwell facts rescue" in run(*command, cwd=workspace).stderr
    for number in range(12):  # as many changes as the index followed do not hide the loss
        told = run("remember", f"{ZEBRAS}: {number}", cwd=workspace)
        assert told.stdout.startswith("added")
        assert "memwell facts rescue" in told.stderr
    assert ZEBRAS in run("search", "zebras", cwd=workspace).stdout.replace("«", "").replace("»", "")
    assert "quiet" in run("search", "quiet", cwd=workspace).stdout  # the index overwrote nothing

    assert run("facts", "rescue", cwd=workspace).returncode == 2  # it asks first
    assert QUIET not in list_texts(workspace)
    rescued = run("facts", "rescue", "--yes", cwd=workspace)
    assert (rescued.returncode, rescued.stderr) == (0, "")
    assert {*LAMPS, QUIET, *(f"{ZEBRAS}: {number}" for number in range(12))} <= list_texts(
        workspace
    )
    assert run("verify", cwd=workspace).returncode == 0
    assert run("doctor", cwd=workspace).returncode == 0
    for words in ("quiet", "zebras", "lamp"):
        found = run("search", words, cwd=workspace)
        assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_reliability_d01_a_fact_told_after_a_loss_is_found(
    how: str, home: Path, workspace: Path, tmp_path: Path
) -> None:
    for text in LAMPS:
        remember(workspace, text)
    assert run("search", "lamp", cwd=workspace).returncode == 0
    _lose(how, home, tmp_path)
    assert run("remember", ZEBRAS, cwd=workspace).stdout.startswith("added")
    found = run("search", "zebras", cwd=workspace)
    assert (found.returncode, "graze" in found.stdout) == (0, True), found.stderr


def test_reliability_d01_a_change_of_facts_writes_one_backup_a_day(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name_backups() -> list[str]:
        return sorted(file.name for file in (home / "backups").glob("*.db"))

    monkeypatch.setenv("MEMWELL_NOW", "2026-03-02T12:00:00+00:00")
    run("search", "lamp", cwd=workspace)
    assert name_backups() == []
    run("remember", "The lamp is green.", cwd=workspace)
    run("remember", "The door is blue.", cwd=workspace)
    monkeypatch.setenv("MEMWELL_NOW", "2026-03-05T12:00:00+00:00")
    run("search", "lamp", cwd=workspace)
    run("facts", "list", cwd=workspace)
    assert name_backups() == ["memory-20260302T120000Z.db"]
    run("remember", "The roof is red.", cwd=workspace)
    listed = run_json("backup", "list", cwd=workspace)["backups"]
    assert [(backup["at"][:10], backup["facts"]) for backup in listed] == [
        ("2026-03-05", 3),
        ("2026-03-02", 1),
    ]
    assert {file.stat().st_mode & 0o777 for file in (home / "backups").glob("*.db")} == {0o600}
    for backup in listed:
        assert run("verify", backup["file"], cwd=workspace).returncode == 0
        assert backup["file"] in run("backup", "list", cwd=workspace).stdout


@pytest.mark.parametrize("how", ["damaged", "unreadable"])
def test_reliability_d19_doctor_looks_at_memory(how: str, home: Path, workspace: Path) -> None:
    remember(workspace, QUIET)
    assert run("doctor", cwd=workspace).returncode == 0
    if how == "damaged":
        (home / "memory.db").write_bytes(random.Random(1).randbytes(20_000))
    else:
        (home / "memory.db").chmod(0)
    checked = run("doctor", cwd=workspace)
    assert checked.returncode == 1, checked.stdout
    assert f"FAIL facts: {home / 'memory.db'}" in checked.stdout


def test_reliability_d28_facts_that_were_only_in_a_lost_log_are_noticed(
    home: Path, workspace: Path
) -> None:
    remember(workspace, QUIET)
    script = (
        "import os, memwell; memory = memwell.Memory();"
        f" memory.remember({ZEBRAS!r}); memory.search('zebras'); os._exit(9)"
    )
    assert run_script(script, cwd=workspace).returncode == 9
    for suffix in ("-wal", "-shm"):
        (home / f"memory.db{suffix}").unlink()
    assert list_texts(workspace) == {QUIET}
    checked = run("verify", cwd=workspace)
    assert checked.returncode == 1, checked.stdout
    assert "memwell facts rescue" in checked.stdout
    assert run("facts", "rescue", "--yes", cwd=workspace).returncode == 0
    assert list_texts(workspace) == {QUIET, ZEBRAS}


# -- D4: forget ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_reliability_d04_forgotten_facts_leave_no_byte_in_the_home(
    seed: int, home: Path, workspace: Path
) -> None:
    chosen = random.Random(seed)
    marks = [f"Zq{chosen.getrandbits(48):012x}" for _ in range(300)]
    with Memory() as memory:
        ids = {}
        for mark in marks:
            words = [f"word{chosen.getrandbits(16)}" for _ in range(chosen.randrange(5, 40))]
            ids[mark] = memory.remember(" ".join([mark, *words])).fact.id
        memory.search("word")
        gone = chosen.sample(marks, 120)
        for mark in gone:
            assert not memory.forget(ids[mark]).pending
        texts = [text for mark in gone for text in (mark, mark.lower())]
        assert find_files_with(home, texts) == []
    assert find_files_with(home, texts) == []
    exported = run("export", cwd=workspace).stdout.splitlines()
    kept = {json.loads(line)["text"].split()[0] for line in exported}
    assert kept == {*marks} - {*gone}


def test_reliability_d04_leftovers_of_a_killed_restore_are_removed(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    fact = remember(workspace, "Zqlamp stands in the north room")
    backup = tmp_path / "backup.db"
    assert run("backup", str(backup), cwd=workspace).returncode == 0
    copy = backup.read_bytes()
    leftovers = [
        home / ".restore.abc123.part",
        home / ".memory.db.before-20261116-030100.abc123.part",
        tmp_path / ".backup.db.abc123.part",
    ]
    for file in leftovers:
        file.write_bytes(copy)
    run("facts", "list", cwd=workspace)
    assert [file for file in leftovers if file.exists()] == []
    for file in leftovers:
        file.write_bytes(copy)
    backup.unlink()
    assert run("forget", fact, cwd=workspace).returncode == 0
    assert find_files_with(home.parent, ["Zqlamp"]) == []


def test_reliability_d04_unfinished_files_of_killed_commands_are_removed(
    home: Path, workspace: Path
) -> None:
    assert run("remember", "The cat is named Miso.", cwd=workspace).returncode == 0
    assert run("index", ".", cwd=workspace).returncode == 0
    agent = home / "agents" / "main"
    (home / "models").mkdir()
    old = [
        home / ".tokens.json.a1.part",
        agent / ".hyde.json.b2.part",
        home / "models" / ".m.c3.part",
    ]
    young = agent / ".workspaces.json.d4.part"  # another process may be writing it
    for file in (*old, young):
        file.write_text("{}")
    for file in old:
        os.utime(file, (0, 0))
    assert run("facts", "list", cwd=workspace).returncode == 0
    assert [file for file in (*old, young) if file.exists()] == [young]


# -- D17: deleted notes and pruned facts -----------------------------------------------------------


def test_reliability_d17_deleted_notes_leave_no_byte_in_the_index(
    home: Path, workspace: Path, write: Write
) -> None:
    chosen = random.Random(17)
    marks = [f"Zq{number:03}{chosen.getrandbits(40):010x}" for number in range(200)]
    for number, mark in enumerate(marks):
        write(f"memory/{number}.md", f"# Note\n\nabout lamps\n\n## Part\n\n{mark} is {mark}z " * 8)
    assert run("index", cwd=workspace).returncode == 0
    order = chosen.sample(range(200), 90)
    for start in range(0, 90, 10):
        for number in order[start : start + 10]:
            (workspace / f"memory/{number}.md").unlink()
        assert run("index", cwd=workspace).returncode == 0
    for number in range(200, 220):
        write(f"memory/{number}.md", f"# Note {number}\n\nNothing special\n")
    assert run("index", cwd=workspace).returncode == 0
    gone = [piece for number in order for piece in (marks[number], marks[number].lower())]
    assert find_files_with(home, gone) == []


def test_reliability_d17_pruned_facts_leave_no_byte_in_the_home(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_NOW", "2025-03-02T12:00:00+00:00")
    remember(workspace, "Zqlamp stands in the north room", "--decay", "session")
    remember(workspace, "Anna reads in the library")
    assert run("search", "zqlamp", cwd=workspace).returncode == 0
    monkeypatch.setenv("MEMWELL_NOW", "2026-04-06T12:00:00+00:00")
    assert run("facts", "prune", cwd=workspace).stdout == "1 pruned\n"
    assert run("search", "zqlamp", cwd=workspace).returncode == 1
    assert find_files_with(home, ["Zqlamp", "zqlamp"]) == []


# -- D18: remember keeps what differs --------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ("Deploys go out on Monday", "Deploys go out on Tuesday"),
        (
            "The left valve must be opened before the pump is started",
            "The right valve must be opened before the pump is started",
        ),
    ],
)
def test_reliability_d18_another_word_makes_another_fact(
    known: str, told: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "minilm")
    first = remember(workspace, known)
    answer = run_json("remember", told, cwd=workspace)
    assert answer["outcome"] == "added"
    assert list_texts(workspace) == {known, told}
    assert answer["similar_to"] is None or answer["similar_to"]["id"] == first


# -- D24: a read-only home -------------------------------------------------------------------------


def test_reliability_d24_a_home_that_cannot_be_written_is_backed_up(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    remember(workspace, QUIET)
    backup = tmp_path / "backup.db"
    home.chmod(0o500)
    for file in home.glob("memory.db*"):
        file.chmod(0o400)
    done = run_process("backup", str(backup), cwd=workspace, preexec_fn=drop_rights_of_root)
    home.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("verify", str(backup), cwd=workspace).returncode == 0
