"""A real PgBouncer in transaction mode: three tenants share one connection to the server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memwell import Memory
from memwell.errors import IndexDatabaseError, MemwellError, StatementTimeoutError
from memwell.store.contract.values import FactFilter
from tests.conftest import Write
from tests.support.cluster import Bouncer, Cluster, bouncer, cluster
from tests.support.postgres import build_agent_indexes, new_role, server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.server
TENANTS = ("acme", "beta", "gamma")


@pytest.fixture(scope="module")
def behind() -> Iterator[tuple[Cluster, Bouncer, str]]:
    """A server, a pooler with one connection to it, and a role."""
    with cluster() as made:
        role = new_role(on=made)
        with bouncer(made, role, "memwell") as pooler:
            yield made, pooler, role


def open_memory(url: str, tenant: str, home: Path, **more: Any) -> Memory:
    settings = {"store.url": url, "store.tenant": tenant, "embedding.chain": ("test",), **more}
    return Memory(home / tenant, settings=settings)


def write_and_search(memory: Memory, tenant: str, count: int) -> list[str]:
    """Remember facts, search after each; return the texts of hits that other tenants wrote."""
    foreign = []
    for number in range(count):
        memory.remember(f"The {tenant} boat {number} is blue.")
        hits = memory.search("boat", kind="fact", k=50, group="passages").hits
        assert hits, (tenant, number)
        foreign += [hit.text for hit in hits if tenant not in hit.text]
    return foreign


def test_three_tenants_share_one_connection(
    behind: tuple[Cluster, Bouncer, str], tmp_path: Path, workspace: Path, write: Write
) -> None:
    _, pooler, role = behind
    write("cat.md", "# The cat\n\nThe cat is named Miso.\n")
    memories = {name: open_memory(pooler.url(role), name, tmp_path) for name in TENANTS}
    memories["acme"].index(workspace)
    with ThreadPoolExecutor(len(TENANTS)) as threads:
        foreign = threads.map(lambda name: write_and_search(memories[name], name, 8), TENANTS)
        assert [*foreign] == [[], [], []]
    assert [len(memory.facts.find(FactFilter())) for memory in memories.values()] == [8, 8, 8]
    notes = [bool(memory.search("miso", mode="words").hits) for memory in memories.values()]
    assert notes == [True, False, False]
    for memory in memories.values():
        memory.close()


def test_a_restart_of_server_and_pooler_loses_nothing(
    behind: tuple[Cluster, Bouncer, str], tmp_path: Path
) -> None:
    made, pooler, role = behind
    told: dict[str, list[str]] = {name: [] for name in TENANTS}
    enough = threading.Event()

    def tell(name: str) -> None:
        with open_memory(pooler.url(role), f"restarted {name}", tmp_path) as memory:
            while not enough.is_set():
                text = f"The {name} ship {len(told[name])} is green."
                memory.remember(text)
                told[name].append(text)

    def tell_more() -> None:
        before = {name: len(told[name]) for name in TENANTS}
        wait_until(lambda: all(len(told[name]) > before[name] + 2 for name in TENANTS))

    with ThreadPoolExecutor(len(TENANTS)) as threads:
        running = [threads.submit(tell, name) for name in TENANTS]
        try:
            for disturbed, how in ((made, ("fast",)), (made, ("immediate",)), (pooler, ())):
                tell_more()
                disturbed.stop(*how)
                disturbed.start()
            tell_more()
        finally:
            enough.set()
        for done in running:
            done.result()
    for name in TENANTS:
        with open_memory(pooler.url(role), f"restarted {name}", tmp_path) as memory:
            assert sorted(fact.text for fact in memory.facts.find(FactFilter())) == sorted(
                told[name]
            )


def test_nothing_stays_set_for_the_next_client(
    behind: tuple[Cluster, Bouncer, str], tmp_path: Path
) -> None:
    _, pooler, role = behind
    with open_memory(pooler.url(role), "settings", tmp_path) as memory:
        memory.remember("The cat is named Miso.")
        memory.forget(memory.facts.find(FactFilter())[0].id)
    names = ("memwell.tenant", "memwell.scopes", "search_path", "statement_timeout", "lock_timeout")
    asked = ", ".join(f"current_setting('{name}', true)" for name in names)
    with psycopg.connect(pooler.url(role), autocommit=True) as connection:
        (row,) = connection.execute(f"SELECT {asked}").fetchall()
        (count,) = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchall()
    assert row[:2] in ((None, None), ("", ""))
    assert row[2:] == ('"$user", public', "0", "0")
    assert count == (0,)


def test_each_process_has_its_own_time_out_on_a_shared_connection(
    behind: tuple[Cluster, Bouncer, str], tmp_path: Path
) -> None:
    _, pooler, role = behind
    sleep = (
        "SELECT pg_sleep(.3) IS NULL, current_setting('statement_timeout') WHERE %(tenant)s != ''"
    )
    more = {"tenants.statement_seconds": 0.1}
    with (
        open_memory(pooler.url(role), "short", tmp_path, **more) as short,
        open_memory(pooler.url(role), "long", tmp_path) as long,
    ):
        for _ in range(2):
            with pytest.raises(StatementTimeoutError):
                short._index.server.rows("", sleep)  # type: ignore[attr-defined]
            assert long._index.server.rows("", sleep) == [(False, "1min")]  # type: ignore[attr-defined]


def test_prepared_statements_can_be_forced_and_fail_with_a_remedy(
    behind: tuple[Cluster, Bouncer, str], tmp_path: Path
) -> None:
    _, pooler, role = behind

    def search_often() -> None:
        for _ in range(2):
            with open_memory(
                pooler.url(role), "acme", tmp_path, **{"store.prepare": "on"}
            ) as memory:
                for _ in range(8):
                    memory.search("cat")

    with pytest.raises(MemwellError, match=r"does not carry .*Set store\.prepare = off"):
        search_often()


def test_statement_mode_is_refused_at_the_start(
    behind: tuple[Cluster, Bouncer, str], tmp_path: Path
) -> None:
    made, _, role = behind
    with (
        bouncer(made, role, pool_mode="statement") as pooler,
        open_memory(pooler.url(role), "acme", tmp_path) as memory,
        pytest.raises(IndexDatabaseError, match="pool_mode = transaction"),
    ):
        memory.remember("The cat is named Miso.")


def test_indexes_are_not_built_through_a_pooler(behind: tuple[Cluster, Bouncer, str]) -> None:
    made, pooler, _ = behind
    with pytest.raises(IndexDatabaseError, match="server's own address"):
        build_agent_indexes("acme", pooler.url("memwell"))
    with server(made.url(), "acme") as direct, direct.maintenance_connection() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_an_empty_database_is_migrated_through_a_pooler(
    behind: tuple[Cluster, Bouncer, str], tmp_path: Path
) -> None:
    made, pooler, _ = behind
    made.execute("CREATE DATABASE fresh")
    urls = [pooler.url("memwell", "fresh")] * 4

    def remember(item: tuple[int, str]) -> int:
        with open_memory(item[1], "acme", tmp_path / str(item[0])) as memory:
            memory.remember(f"The boat {item[0]} is blue.")
            return len(memory.facts.find(FactFilter()))

    with ThreadPoolExecutor(len(urls)) as threads:
        assert max(threads.map(remember, enumerate(urls))) == len(urls)
