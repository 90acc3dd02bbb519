"""Facts are not lost unnoticed, and forgotten texts leave no bytes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import apsw
import pytest

from memwell import Memory
from tests.reliability.defects.support import find_files_with, list_texts, remember
from tests.support.cli import run, run_json


def test_texts_of_an_old_home_are_not_left_in_its_index(home: Path, workspace: Path) -> None:
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
    assert find_files_with(home, gone) == []


# -- a lost memory.db ------------------------------------------------------------------------------

QUIET = "Anna likes quiet places in the north wing"
ZEBRAS = "Zebras graze behind the new barn"


def test_a_restored_backup_is_followed(home: Path, workspace: Path, tmp_path: Path) -> None:
    remember(workspace, QUIET)
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


def test_rescue_keeps_details_scopes_and_superseded_facts(home: Path, workspace: Path) -> None:
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


def test_a_damaged_memory_without_a_backup_is_rescued(home: Path, workspace: Path) -> None:
    remember(workspace, QUIET)
    run("search", "quiet", cwd=workspace)
    (home / "memory.db").write_bytes(random.Random(1).randbytes(20_000))
    assert run("facts", "rescue", "--yes", cwd=workspace).returncode == 0
    assert list_texts(workspace) == {QUIET}
    assert list(home.glob("memory.db.before-*"))


# -- remember keeps what differs -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ("Anna Williams leads the platform team", "Anna William leads the platform team"),
        ("The tank holds forty litres of water", "The tank holds forty gallons of water"),
    ],
)
def test_another_name_or_unit_makes_another_fact(
    known: str, told: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "memwell")
    first = remember(workspace, known)
    answer = run_json("remember", told, cwd=workspace)
    assert answer["outcome"] == "added"
    assert answer["similar_to"] is None or answer["similar_to"]["id"] == first
    assert list_texts(workspace) == {known, told}


def test_a_similar_fact_is_named_and_an_inflection_reinforces(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "memwell")
    monday = remember(workspace, "Deploys go out on Monday")
    tuesday = run("remember", "Deploys go out on Tuesday", cwd=workspace).stdout.splitlines()
    assert tuesday[1:] == [f"similar to {monday}: Deploys go out on Monday"]
    first = remember(workspace, "The staging database listens on port 5433.")
    again = run_json("remember", "the staging database listened on port 5433", cwd=workspace)
    assert (again["outcome"], again["fact"]["id"]) == ("reinforced", first)
