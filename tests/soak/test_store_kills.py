"""kill -9 with the memory on PostgreSQL, or with the vectors in LanceDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memwell import Memory
from tests.soak.conftest import print_figures, sizes_of
from tests.soak.test_kills import (
    FACTS,
    Attack,
    attack_embed,
    attack_forget,
    attack_remember,
    attack_sync,
    run,
)
from tests.support.kills import Killer, Operations
from tests.support.postgres import app_url, new_database, new_tenant, shared

pytestmark = pytest.mark.process

# -- LanceDB ---------------------------------------------------------------------------------------


LANCE_ATTACKS: dict[str, Callable[[Attack], None]] = {
    "sync": attack_sync,
    "remember": attack_remember,
    "forget": attack_forget,
    "embed": attack_embed,
}


@pytest.fixture(scope="module")
def lance_operations() -> Iterator[Operations]:
    pytest.importorskip("lancedb")
    with Operations("lancedb") as running:
        yield running


@sizes_of(LANCE_ATTACKS, ["forget"], sample=1, whole=1000)
def test_kill_9_with_vectors_in_lancedb(
    tmp_path: Path, lance_operations: Operations, operation: str, size: int
) -> None:
    attack = Attack(tmp_path, Killer(lance_operations, size), {"vectors.backend": "lancedb"})
    run(attack, LANCE_ATTACKS[operation], size)
    print_figures(f"kills with LanceDB, {operation}", **attack.figures)


# -- PostgreSQL ------------------------------------------------------------------------------------


class ServerAttack(Attack):
    """An attack on a memory whose facts and index are on a server."""

    def check_whole(self) -> None:
        with self.open() as memory:
            memory.index(self.workspace)
            assert memory.fill().left == 0
            status = memory.status(deep=True)
            assert status.deep == {"integrity": "ok"}
            (space,) = [space for space in memory.spaces() if space.state == "live"]
            assert space.embedded == space.chunks
            notes = [*self.workspace.glob("*.md")]
            assert sum(row.notes for row in status.workspaces) == len(notes)
            assert space.chunks == len(notes) + len(self.stored(memory))
            checks = [check for check in memory.doctor() if check.name != "role"]
            assert [check for check in checks if not check.ok] == []

    def find_traces(self, words: list[str]) -> list[str]:
        tables = ("facts", "chunks")
        like = " OR ".join(f"text LIKE '%{word} %'" for word in words) or "false"
        like = f"tenant = '{self.tenant}' AND ({like})"
        found = [
            shared().execute(f"SELECT text FROM memwell.{table} WHERE {like}") for table in tables
        ]
        return [row[0] for rows in found for row in rows]


def attack_server_copy(attack: Attack) -> None:
    """Copy a home to the server; a killed copy is finished by the next one."""
    source = Attack(attack.folder / f"source-{attack.turn}", attack.killer)
    attack.turn += 1
    source.remember(FACTS)
    tenant, url = new_tenant(), attack.settings["store.url"]
    source.tenant = tenant
    with source.open() as memory:
        memory.index(source.workspace)
    for _ in range(3):
        attack.operations += len(source.kill("copy", url))
    assert source.check() == source.facts
    assert source.kill("copy", url, let_end=True)
    settings = {"store.url": url, "store.tenant": tenant, "embedding.chain": ("test",)}
    with Memory(attack.home, settings=settings) as memory:
        assert source.stored(memory) == source.facts
        assert memory.status(deep=True).deep == {"integrity": "ok"}


def attack_server_migration(attack: Attack) -> None:
    """Create the tables of an empty database; the next process finishes it."""
    attack.settings = {**attack.settings, "store.url": new_database()}
    attack.kill("migrate")
    assert attack.check() == {}
    attack.facts = {}
    attack.remember(1)
    assert attack.check() == attack.facts


SERVER_ATTACKS: dict[str, Callable[[Attack], None]] = {
    "sync": attack_sync,
    "remember": attack_remember,
    "forget": attack_forget,
    "embed": attack_embed,
    "copy": attack_server_copy,
    "migrate": attack_server_migration,
}


@pytest.fixture(scope="module")
def server_operations() -> Iterator[Operations]:
    with Operations("psycopg", "psycopg_pool", "memwell.store.postgres.index") as running:
        yield running


@pytest.mark.server
@sizes_of(SERVER_ATTACKS, ["remember", "forget"], sample=1, whole=1000)
def test_kill_9_on_postgresql(
    tmp_path: Path, server_operations: Operations, operation: str, size: int
) -> None:
    tenant = new_tenant()
    settings = {"store.url": app_url(), "store.tenant": tenant}
    attack = ServerAttack(tmp_path, Killer(server_operations, size), settings, tenant=tenant)
    run(attack, SERVER_ATTACKS[operation], size)
    print_figures(f"kills on PostgreSQL, {operation}", **attack.figures)
