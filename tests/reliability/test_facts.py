"""Facts are not lost unnoticed, and forgotten texts leave no bytes."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from memwell import Memory
from memwell.model import Fact
from tests.conftest import Write
from tests.support.cli import run, run_json


def _files_with(folder: Path, texts: list[str]) -> list[tuple[str, str]]:
    """Return each file below a folder that contains one of the texts, with that text."""
    contents = {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }
    return [
        (name, text)
        for name, content in contents.items()
        for text in texts
        if text.encode() in content
    ]


# -- D4: forget ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_reliability_d04_forgotten_facts_leave_no_byte_in_the_home(seed: int, home: Path) -> None:
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
        assert _files_with(home, texts) == []
    assert _files_with(home, texts) == []
    with Memory() as memory:
        assert {fact.text.split()[0] for fact in _all_facts(memory)} == {*marks} - {*gone}


def _all_facts(memory: Memory) -> list[Fact]:
    with memory.facts.store.for_viewer(memory.viewer) as facts:
        return facts.changed_since(0)[0]


# -- D17: deleted notes ----------------------------------------------------------------------------


def test_reliability_d17_deleted_notes_leave_no_byte_in_the_index(
    home: Path, workspace: Path, write: Write
) -> None:
    chosen = random.Random(17)
    marks = [f"Zq{number:03}{chosen.getrandbits(40):010x}" for number in range(200)]
    for number, mark in enumerate(marks):
        write(f"memory/{number}.md", f"# Note\n\nabout lamps\n\n## Part\n\n{mark} is {mark}z " * 8)
    with Memory(workspace=workspace) as memory:
        memory.index()
    order = chosen.sample(range(200), 90)
    for start in range(0, 90, 10):
        for number in order[start : start + 10]:
            (workspace / f"memory/{number}.md").unlink()
        with Memory(workspace=workspace) as memory:
            memory.index()
    for number in range(200, 220):
        write(f"memory/{number}.md", f"# Note {number}\n\nNothing special\n")
    with Memory(workspace=workspace) as memory:
        memory.index()
    gone = [piece for number in order for piece in (marks[number], marks[number].lower())]
    assert _files_with(home, gone) == []


def test_reliability_d04_leftovers_of_a_killed_restore_are_removed(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    fact = _remember(workspace, "Zqlamp stands in the north room")
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
    assert not [file for file in leftovers if file.exists()]
    for file in leftovers:
        file.write_bytes(copy)
    backup.unlink()
    assert run("forget", fact, cwd=workspace).returncode == 0
    assert _files_with(home.parent, ["Zqlamp"]) == []


def test_reliability_d04_texts_of_an_old_home_are_not_left_in_its_index(
    home: Path, workspace: Path
) -> None:
    from memwell.store.sqlite.schema import FACT_MIGRATIONS

    home.mkdir(mode=0o700)
    old = apsw.Connection(str(home / "memory.db"))
    old.pragma("journal_mode", "WAL")
    for _, statements in FACT_MIGRATIONS[:2]:
        old.execute(statements)
    old.pragma("user_version", 2)
    for number in range(200):
        text = f"Zq{number:03}lamp stands in the room"
        at = "2026-01-01T00:00:00.000+00:00"
        row = (f"{number:020}", text, text.casefold(), at, at, number + 1)
        old.execute(
            "INSERT INTO fact_rows VALUES (?1, ?2, ?3, 'fact', 'cli', '', 0.5, 1, 'permanent', ?4,"
            " ?5, NULL, NULL, NULL, NULL, 'agent', 'main', ?6)",
            row,
        )
    old.execute("UPDATE revisions SET last = 200")
    old.close()
    assert run("search", "room lamp", cwd=workspace).stderr == ""
    assert run("verify", cwd=workspace).returncode == 0
    same = run("remember", "zq007LAMP stands, in the room", cwd=workspace)
    assert same.stdout == f"reinforced: {7:020}\n"
    assert run("forget", *(f"{number:020}" for number in range(100)), cwd=workspace).returncode == 0
    gone = [f"q{number:03}lamp" for number in range(100)]
    assert _files_with(home, gone) == []


def test_reliability_d17_pruned_facts_leave_no_byte_in_the_home(
    home: Path, workspace: Path
) -> None:
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=400)
    with Memory(clock=lambda: long_ago) as memory:
        memory.remember("Zqlamp stands in the north room", decay_class="session")
        memory.remember("Anna reads in the library")
        assert memory.search("zqlamp").hits
    assert run("facts", "prune", cwd=workspace).stdout == "1 pruned\n"
    assert run("search", "zqlamp", cwd=workspace).returncode == 1
    assert _files_with(home, ["Zqlamp", "zqlamp"]) == []


# -- D1, D19: a lost memory.db ---------------------------------------------------------------------

LAMPS = [f"The lamp with the number {number} stands in a room" for number in range(5)]
QUIET = "Anna likes quiet places in the north wing"
ZEBRAS = "Zebras graze behind the new barn"


def _remember(cwd: Path, text: str) -> str:
    return str(run_json("remember", text, cwd=cwd)["fact"]["id"])


def _texts(cwd: Path) -> set[str]:
    return {fact["text"] for fact in run_json("facts", "list", cwd=cwd)["facts"]}


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
        _remember(workspace, text)
    shutil.copy(home / "memory.db", older := tmp_path / "older.db")
    _remember(workspace, QUIET)
    assert run("search", "quiet", cwd=workspace).returncode == 0
    _lose(how, home, older)

    for command in (["search", "lamp"], ["recall", "Which lamp is it?"], ["facts", "list"]):
        assert "memwell facts rescue" in run(*command, cwd=workspace).stderr
    assert run("verify", cwd=workspace).returncode == 1
    assert run("doctor", cwd=workspace).returncode == 1
    for number in range(12):  # as many changes as the index followed do not hide the loss
        told = run("remember", f"{ZEBRAS}: {number}", cwd=workspace)
        assert told.stdout.startswith("added")
        assert "memwell facts rescue" in told.stderr
    assert ZEBRAS in run("search", "zebras", cwd=workspace).stdout.replace("«", "").replace("»", "")
    assert "quiet" in run("search", "quiet", cwd=workspace).stdout  # the index overwrote nothing

    assert run("facts", "rescue", cwd=workspace).returncode == 2  # it asks first
    assert QUIET not in _texts(workspace)
    rescued = run("facts", "rescue", "--yes", cwd=workspace)
    assert (rescued.returncode, rescued.stderr) == (0, "")
    assert {*LAMPS, QUIET, *(f"{ZEBRAS}: {number}" for number in range(12))} <= _texts(workspace)
    assert run("verify", cwd=workspace).returncode == 0
    assert run("doctor", cwd=workspace).returncode == 0
    for words in ("quiet", "zebras", "lamp"):
        found = run("search", words, cwd=workspace)
        assert (found.returncode, found.stderr) == (0, "")


def test_reliability_d01_a_restored_backup_is_followed(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    _remember(workspace, QUIET)
    run("search", "quiet", cwd=workspace)
    run("backup", str(tmp_path / "backup.db"), cwd=workspace)
    (home / "memory.db").unlink()
    run("remember", ZEBRAS, cwd=workspace)
    restored = run("restore", str(tmp_path / "backup.db"), cwd=workspace)
    assert (restored.returncode, restored.stderr) == (0, "")
    found = run("search", "quiet", cwd=workspace)
    assert (found.returncode, found.stderr) == (0, "")
    assert run("verify", cwd=workspace).returncode == 0
    assert run("search", "zebras", cwd=workspace).returncode == 1


def test_reliability_d01_rescue_keeps_details_scopes_and_superseded_facts(
    home: Path, workspace: Path
) -> None:
    with Memory(user="anna") as memory:
        old = memory.remember(QUIET, category="preference", tags=["wing"], importance=0.9).fact
        memory.supersede(old.id, "Anna likes loud places now", importance=0.7)
        memory.search("places")
        before = _without_events(memory.export())
    (home / "memory.db").unlink()
    assert run("facts", "rescue", "--yes", cwd=workspace).returncode == 0
    with Memory(user="anna") as memory:
        assert _without_events(memory.export()) == before


def _without_events(export: str) -> list[dict[str, object]]:
    return [{**json.loads(line), "events": []} for line in export.splitlines()]


def test_reliability_d01_a_damaged_memory_without_a_backup_is_rescued(
    home: Path, workspace: Path
) -> None:
    _remember(workspace, QUIET)
    run("search", "quiet", cwd=workspace)
    (home / "memory.db").write_bytes(random.Random(1).randbytes(20_000))
    assert run("facts", "rescue", "--yes", cwd=workspace).returncode == 0
    assert _texts(workspace) == {QUIET}
    assert list(home.glob("memory.db.before-*"))


@pytest.mark.parametrize("how", ["damaged", "unreadable"])
def test_reliability_d19_doctor_looks_at_memory(how: str, home: Path, workspace: Path) -> None:
    _remember(workspace, QUIET)
    assert run("doctor", cwd=workspace).returncode == 0
    if how == "damaged":
        (home / "memory.db").write_bytes(random.Random(1).randbytes(20_000))
    else:
        (home / "memory.db").chmod(0)
    checked = run("doctor", cwd=workspace)
    assert checked.returncode == 1
    assert f"FAIL facts: {home / 'memory.db'}" in checked.stdout


# -- D18: remember keeps what differs --------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ("Deploys go out on Monday", "Deploys go out on Tuesday"),
        (
            "The left valve must be opened before the pump is started",
            "The right valve must be opened before the pump is started",
        ),
        ("Anna Williams leads the platform team", "Anna William leads the platform team"),
        ("The tank holds forty litres of water", "The tank holds forty gallons of water"),
    ],
)
def test_reliability_d18_another_word_makes_another_fact(
    known: str, told: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "minilm")
    first = _remember(workspace, known)
    answer = run_json("remember", told, cwd=workspace)
    assert answer["outcome"] == "added"
    assert answer["similar_to"] is None or answer["similar_to"]["id"] == first
    assert _texts(workspace) == {known, told}


def test_reliability_d18_a_similar_fact_is_named_and_an_inflection_reinforces(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "minilm")
    monday = _remember(workspace, "Deploys go out on Monday")
    tuesday = run("remember", "Deploys go out on Tuesday", cwd=workspace).stdout.splitlines()
    assert tuesday[1:] == [f"similar to {monday}: Deploys go out on Monday"]
    first = _remember(workspace, "The staging database listens on port 5433.")
    again = run_json("remember", "the staging database listened on port 5433", cwd=workspace)
    assert (again["outcome"], again["fact"]["id"]) == ("reinforced", first)


# -- D24: a read-only home -------------------------------------------------------------------------


def test_reliability_d24_a_home_that_cannot_be_written_is_backed_up(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    _remember(workspace, QUIET)
    backup = tmp_path / "backup.db"
    home.chmod(0o500)
    for file in home.glob("memory.db*"):
        file.chmod(0o400)
    done = _run_without_root("backup", str(backup), cwd=workspace)
    home.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("verify", str(backup), cwd=workspace).returncode == 0


def _run_without_root(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that has to respect the permissions of files."""
    command = [sys.executable, "-m", "memwell", *arguments]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root may write everywhere, and setpriv is missing")
        # Root without this capability is an ordinary owner of its files.
        dropped = "-dac_override,-dac_read_search"
        command = [setpriv, f"--bounding-set={dropped}", f"--inh-caps={dropped}", *command]
    return subprocess.run(command, cwd=cwd, capture_output=True, encoding="utf-8", check=False)


# -- D28: a lost log -------------------------------------------------------------------------------


def test_reliability_d28_facts_that_were_only_in_a_lost_log_are_noticed(
    home: Path, workspace: Path
) -> None:
    _remember(workspace, QUIET)
    script = (
        "import os, memwell; memory = memwell.Memory();"
        f" memory.remember({ZEBRAS!r}); memory.search('zebras'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    for suffix in ("-wal", "-shm"):
        (home / f"memory.db{suffix}").unlink()
    assert _texts(workspace) == {QUIET}
    checked = run("verify", cwd=workspace)
    assert checked.returncode == 1
    assert "memwell facts rescue" in checked.stdout
    assert run("facts", "rescue", "--yes", cwd=workspace).returncode == 0
    assert _texts(workspace) == {QUIET, ZEBRAS}
