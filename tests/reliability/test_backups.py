"""Automatic backups: written after changes, rotated, restored by one command, and erased from."""

from __future__ import annotations

import datetime as dt
import os
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from memwell import Memory
from tests.support.cli import run, run_json

START = dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC)  # a Monday


def _backups(home: Path) -> list[Path]:
    return sorted((home / "backups").glob("*.db"))


def _day(number: int) -> dt.datetime:
    return START + dt.timedelta(days=number)


def _remember_daily(days: int, **settings: float) -> None:
    """Remember one fact a day."""
    now = START
    with Memory(clock=lambda: now, settings=settings) as memory:
        for number in range(days):
            now = _day(number)
            memory.remember(f"The number of this day is {number}.")
        assert memory.notices == []


# -- writing and rotating --------------------------------------------------------------------------


def test_seven_daily_and_four_weekly_backups_are_kept(home: Path) -> None:
    _remember_daily(60)
    last = START + dt.timedelta(days=59)  # a Thursday
    daily = [last - dt.timedelta(days=number) for number in range(7)]
    # Before those seven days: the Thursday of the same week, then three Sundays.
    weekly = [last - dt.timedelta(days=number) for number in (7, 11, 18, 25)]
    expected = sorted(f"memory-{day:%Y%m%dT%H%M%SZ}.db" for day in (*daily, *weekly))
    assert [file.name for file in _backups(home)] == expected


def test_backups_take_no_more_space_than_allowed(home: Path) -> None:
    _remember_daily(3)
    size = _backups(home)[0].stat().st_size
    shutil.rmtree(home)
    _remember_daily(9, **{"backup.max_mb": 2.5 * size / 1e6})
    assert len(_backups(home)) == 2
    shutil.rmtree(home)
    _remember_daily(3, **{"backup.every": 0.0})
    assert _backups(home) == []


@pytest.mark.parametrize("problem", ["blocked", "too large"])
def test_a_failed_backup_is_a_notice(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    home.mkdir(mode=0o700)
    if problem == "blocked":
        (home / "backups").write_text("not a folder")
    else:
        monkeypatch.setenv("MEMWELL_BACKUP_MAX_MB", "0.01")
    done = run("remember", "The lamp is green.", cwd=workspace)
    assert (done.returncode, done.stdout[:6]) == (0, "added:")
    assert "no automatic backup was written" in done.stderr
    assert "The lamp is green." in run("facts", "list", cwd=workspace).stdout
    assert not [*home.rglob("*.part*")]


@pytest.mark.process
def test_a_disk_without_space_for_a_backup_is_a_notice(home: Path, workspace: Path) -> None:
    with Memory(settings={"backup.every": 0.0}) as memory:
        for number in range(600):
            memory.remember(f"The chair number {number} is in the room, with a table beside it.")
    assert (home / "memory.db").stat().st_size > 250_000
    done = subprocess.run(
        [sys.executable, "-m", "memwell", "remember", "The lamp is green."],
        cwd=workspace,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)),
        check=False,
    )
    assert (done.returncode, done.stdout[:6]) == (0, "added:"), done.stderr
    assert "no automatic backup was written" in done.stderr
    assert [*(home / "backups").iterdir()] == []
    assert "The lamp is green." in run("facts", "list", cwd=workspace).stdout


def test_a_backup_to_a_file_works_as_before(home: Path, workspace: Path) -> None:
    run("remember", "The lamp is green.", cwd=workspace)
    assert run("backup", "mine.db", cwd=workspace).returncode == 0
    assert run("backup", "mine.db", cwd=workspace).returncode != 0
    assert run("backup", "mine.db", "--force", cwd=workspace).returncode == 0
    assert run("backup", "./list", cwd=workspace).returncode == 0
    assert (workspace / "mine.db").exists()
    assert (workspace / "list").exists()
    assert run("restore", "mine.db", cwd=workspace).returncode == 0


# -- restoring -------------------------------------------------------------------------------------


@pytest.mark.parametrize("followed", [True, False])
@pytest.mark.parametrize("loss", ["deleted", "emptied"])
def test_a_lost_memory_is_restored_from_the_latest_backup(
    home: Path, workspace: Path, followed: bool, loss: str
) -> None:
    run("remember", "The lamp is green.", cwd=workspace)
    if followed:
        run("search", "lamp", cwd=workspace)
    (newest,) = _backups(home)
    memory = home / "memory.db"
    memory.unlink() if loss == "deleted" else memory.write_bytes(b"")
    for command in (("search", "lamp"), ("status",)):
        said = run(*command, cwd=workspace).stderr
        assert "memwell restore latest" in said
        assert str(newest) in said
        if loss == "emptied":
            memory.write_bytes(b"")
        else:
            memory.unlink(missing_ok=True)
    for command in (("doctor",), ("verify",)):
        done = run(*command, cwd=workspace)
        assert done.returncode == 1
        assert "memwell restore latest" in done.stdout + done.stderr
    assert str(newest) in run("doctor", cwd=workspace).stdout
    assert run("restore", "latest", cwd=workspace).returncode == 0
    assert "The lamp is green." in run("facts", "list", cwd=workspace).stdout
    assert run("verify", cwd=workspace).returncode == 0


def test_a_new_memory_beside_backups_is_reported(home: Path, workspace: Path) -> None:
    assert run("remember", "The lamp is green.", cwd=workspace).stderr == ""
    (newest,) = _backups(home)
    (home / "memory.db").unlink()
    done = run("remember", "The door is blue.", cwd=workspace)
    assert done.returncode == 0
    assert "was missing or empty" in done.stderr
    assert "`memwell restore latest` restores the automatic backup of " in done.stderr
    assert str(newest) in done.stderr


def test_a_damaged_memory_names_the_latest_backup(home: Path, workspace: Path) -> None:
    run("remember", "The lamp is green.", cwd=workspace)
    (home / "memory.db").write_bytes(os.urandom(8192))
    done = run("facts", "list", cwd=workspace)
    assert done.returncode != 0
    assert "memwell restore latest" in done.stderr
    (newest,) = _backups(home)
    assert run("restore", newest.name, cwd=workspace).returncode == 0
    assert "The lamp is green." in run("facts", "list", cwd=workspace).stdout


def test_a_new_memory_does_not_replace_backups_of_the_lost_one(
    home: Path,
) -> None:
    with Memory(clock=partial(_day, 0)) as memory:
        for number in range(20):
            memory.remember(f"The lamp has the number {number}.")
        memory.search("lamp")
    kept = _backups(home)
    (home / "memory.db").unlink()
    for day in range(1, 20):
        with Memory(clock=partial(_day, day)) as memory:
            memory.remember(f"The door has the number {day}.")
    assert _backups(home) == kept


def test_there_is_nothing_to_restore_without_backups(workspace: Path) -> None:
    assert run_json("backup", "list", cwd=workspace) == {"backups": []}
    done = run("restore", "latest", cwd=workspace)
    assert done.returncode != 0
    assert "no automatic backup" in done.stderr


# -- erasing ---------------------------------------------------------------------------------------


def _files_with(folder: Path, text: str) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if text.encode() in file.read_bytes()]


def test_forget_erases_from_every_backup(home: Path, workspace: Path) -> None:
    _remember_daily(12)
    run("remember", "The Zqlamp is green.", cwd=workspace)
    fact = run_json("facts", "list", cwd=workspace)["facts"][0]["id"]
    source = _backups(home)[-1]
    assert "Zqlamp" in source.read_bytes().decode("latin-1")
    for file in _backups(home)[:-1]:
        shutil.copyfile(source, file)
    mine = workspace / "mine.db"
    run("backup", str(mine), cwd=workspace)
    run("restore", str(mine), cwd=workspace)
    assert [*home.glob("memory.db.before-*")]
    done = run("forget", fact, cwd=workspace)
    assert done.returncode == 0
    assert str(mine) in done.stderr
    assert _files_with(home, "Zqlamp") == []
    assert len(_backups(home)) > 7
    for file in _backups(home):
        assert run("verify", str(file), cwd=workspace).returncode == 0
    run("restore", "latest", cwd=workspace)
    assert len(run_json("facts", "list", cwd=workspace)["facts"]) == 12


def test_a_damaged_backup_is_not_left_with_the_text(home: Path, workspace: Path) -> None:
    run("remember", "The Zqlamp is green.", cwd=workspace)
    fact = run_json("facts", "list", cwd=workspace)["facts"][0]["id"]
    (backup,) = _backups(home)
    content = bytearray(backup.read_bytes())
    content[100:2000] = os.urandom(1900)
    backup.write_bytes(content)
    assert "damaged" in run("backup", "list", cwd=workspace).stdout
    assert run("doctor", cwd=workspace).returncode == 1
    with Memory(user="ben") as ben:
        assert not [check for check in ben.doctor() if check.name == "backup"]
    assert run("forget", fact, cwd=workspace).returncode == 0
    assert _files_with(home, "Zqlamp") == []


def test_parts_of_a_killed_backup_are_removed(home: Path, workspace: Path) -> None:
    run("remember", "The Zqlamp is green.", cwd=workspace)
    (backup,) = _backups(home)
    for suffix in ("", "-journal"):
        shutil.copyfile(backup, backup.with_name(f".{backup.name}.abc123.part{suffix}"))
    run("facts", "list", cwd=workspace)
    assert [*(home / "backups").iterdir()] == [backup]


def test_a_damaged_file_from_before_a_restore_is_named(home: Path, workspace: Path) -> None:
    with Memory() as memory:
        for number in range(300):
            memory.remember(f"The chair number {number} is in the room.")
        fact = memory.remember("The Zqlamp is green.").fact.id
    before = home / "memory.db.before-20260301-120000"
    assert run("backup", str(before), cwd=workspace).returncode == 0
    content = bytearray(before.read_bytes())
    for page in range(6, len(content) // 4096, 3):
        content[4096 * page + 1000 : 4096 * page + 1100] = os.urandom(100)
    before.write_bytes(content)
    done = run("forget", fact, cwd=workspace)
    assert (done.returncode, done.stdout) == (0, "1 forgotten\n")
    assert done.stderr == f"{before} may still contain it: delete that backup if it should not\n"
    assert set(_files_with(home, "Zqlamp")) <= {before.name}


def _kill_while_writing(process: subprocess.Popen[bytes], folder: Path, nth: int) -> None:
    """Kill a process while it writes the n-th file of a folder."""
    before, seen = {*os.listdir(folder)}, set[str]()
    while process.poll() is None and len(seen) < nth:
        seen |= {name for name in os.listdir(folder) if name.endswith(".part")} - before
    process.kill()
    process.wait()


@pytest.mark.process
def test_a_killed_forget_leaves_valid_backups(home: Path, workspace: Path) -> None:
    texts = [f"The Zqlamp{number:02} stands in the room." for number in range(12)]
    with Memory() as memory:
        for number in range(400):
            memory.remember(f"The chair number {number} is in the room.")
        ids = [memory.remember(text).fact.id for text in texts]
    source = _backups(home)[0]
    run("backup", str(workspace / "all.db"), cwd=workspace)
    for number in range(4):
        shutil.copyfile(
            workspace / "all.db", source.with_name(f"memory-2026010{number + 1}T000000Z.db")
        )
    (workspace / "all.db").unlink()
    interrupted = 0
    for number, fact in enumerate(ids):
        command = [sys.executable, "-m", "memwell", "forget", fact]
        process = subprocess.Popen(
            command, cwd=workspace, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _kill_while_writing(process, home / "backups", nth=1 + number % 4)
        unchanged = [file for file in _backups(home) if texts[number].encode() in file.read_bytes()]
        parts = [*(home / "backups").glob(".*.part*")]
        interrupted += bool(parts and unchanged)
        for file in _backups(home):
            assert run("verify", str(file), cwd=workspace).returncode == 0
    assert interrupted
    left = {fact["id"] for fact in run_json("facts", "list", cwd=workspace)["facts"]}
    gone = [text for text, fact in zip(texts, ids, strict=True) if fact not in left]
    assert [text for text in gone if _files_with(home, text)] == []
    assert len(left) == 412 - len(gone)
    assert not [*home.rglob("*.part*")]
