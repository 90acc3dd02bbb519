"""Forgotten facts leave the files of a server's tables, and memwell says what remains."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from memwell import Memory
from tests.support.cli import run, run_json
from tests.support.postgres import Cluster, app_url, cluster, new_tenant


@pytest.fixture(scope="module")
def owned() -> Iterator[Cluster]:
    """A server of which memwell is the owner, and whose files no other test writes."""
    with cluster() as made:
        yield made


_STATISTICS = ("2619", "2840")
"""The files of pg_statistic: autovacuum may have put words there that were forgotten since."""


def _read_statistics(server: Cluster) -> str:
    values = ", ".join(f"stavalues{number}::text" for number in range(1, 6))
    return str(server.execute(f"SELECT {values} FROM pg_statistic"))


def _table_files_with(server: Cluster, texts: list[str]) -> list[tuple[str, str]]:
    server.execute("CHECKPOINT")
    found = []
    for file in (server.folder / "data" / "base").rglob("*"):
        if file.name in _STATISTICS:
            continue
        content = file.read_bytes().lower() if file.is_file() else b""
        found += [(file.name, text) for text in texts if text.encode() in content]
    return found


def test_forgotten_facts_leave_the_tables_of_a_server(
    owned: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_STORE_URL", owned.url())
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    chosen = random.Random(4)
    marks = [f"zq{chosen.getrandbits(60):015x}" for _ in range(60)]
    with Memory() as memory:
        ids = {mark: memory.remember(f"{mark} is the lamp {mark}z.").fact.id for mark in marks}
        memory.fill()
        memory.search("lamp")
        owned.execute("ANALYZE memwell.facts_" + ", memwell.facts_".join("01234567"))
        assert marks[0] in _read_statistics(owned)
        gone = chosen.sample(marks, 30)
        report = memory.forget(*(ids[mark] for mark in gone[:28]))
        edited = memory.facts.edit(ids[gone[28]], text="The door is open.")
        assert (report.count, report.pending) == (28, False)
        assert "log (WAL) and its backups" in report.remains
        assert "VACUUM FULL" not in report.remains
        assert memory.search("door", kind="fact").hits[0].path == edited.id
    done = run("forget", ids[gone[29]], cwd=workspace)
    assert (done.returncode, done.stdout) == (0, "1 forgotten\n")
    assert "log (WAL) and its backups" in done.stderr
    assert _table_files_with(owned, gone) == []
    statistics = _read_statistics(owned)
    assert [mark for mark in gone if mark in statistics] == []
    kept = [mark for mark in marks if mark not in gone]
    assert {text for _, text in _table_files_with(owned, kept)} == {*kept}
    with Memory() as memory:
        assert memory.search(kept[0], mode="words").hits[0].path == ids[kept[0]]


def test_a_role_without_rights_says_who_can_vacuum(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_STORE_URL", app_url())
    monkeypatch.setenv("MEMWELL_STORE_TENANT", new_tenant())
    run("remember", f"The lamp {secrets.token_hex(4)} is green.", cwd=workspace)
    fact = run_json("facts", "list", cwd=workspace)["facts"][0]["id"]
    done = run("forget", fact, cwd=workspace)
    assert (done.returncode, done.stdout) == (0, "1 forgotten\n")
    assert "the owner of the tables can run VACUUM FULL on memwell." in done.stderr


def test_a_server_has_no_automatic_backups(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_STORE_URL", app_url())
    monkeypatch.setenv("MEMWELL_STORE_TENANT", new_tenant())
    run("remember", "The lamp is green.", cwd=workspace)
    assert not (home / "backups").exists()
    listed = run("backup", "list", cwd=workspace)
    assert listed.returncode != 0
    assert "pg_dump" in listed.stderr
