"""Each statement concerns one tenant, as the planner of PostgreSQL sees it.

The tables are partitioned by tenant, as a cluster distributes them. A statement that names the tenant
as a constant is planned for one partition of each table; a cluster can send it to one node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memwell import Memory
from memwell.errors import MemwellError
from memwell.store.postgres import connections, server
from memwell.store.postgres.schema import TABLES
from tests.conftest import Write
from tests.support.cli import run
from tests.support.postgres import app_url, new_role, new_tenant, shared

pytestmark = pytest.mark.server
_PART = re.compile(rf'"Relation Name": "({"|".join(TABLES)})_(\d)"')
_PLANNED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.I)
MAINTENANCE = (
    "DELETE FROM memwell.commits",
    "own_binding",
    "memwell.migrations",
    "pg_",
    "to_regclass",
)
"""Statements at the start of a process, and those that read only the catalogue."""


@dataclass
class Router:
    """Has the server plan each statement before it runs, and records the partitions it would use.

    A superuser plans, whom no policy restricts: the statement itself must name the tenant.
    """

    connection: psycopg.Connection[Any]
    statements: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def plan(self, query: str, values: Any) -> None:
        for statement in query.split("; "):
            if not _PLANNED.match(statement) or statement in self.statements:
                continue
            if not any(re.search(rf"\b{table}\b", statement) for table in TABLES):
                continue
            if statement.startswith(MAINTENANCE):
                continue
            explaining = psycopg.ClientCursor(self.connection)
            explaining.execute(f"EXPLAIN (FORMAT JSON) {statement}", values)
            ((plan,),) = explaining.fetchall()
            parts = {part for _, part in _PART.findall(json.dumps(plan))}
            if len(parts) > 1:
                self.wrong.append(f"{len(parts)} partitions: {' '.join(statement.split())[:200]}")
            self.statements.add(statement)


@contextmanager
def routed() -> Iterator[Router]:
    execute, is_planning = psycopg.Cursor.execute, False

    def planned(self: Any, query: Any, values: Any = None, **options: Any) -> Any:
        nonlocal is_planning
        if not is_planning and isinstance(query, str):
            is_planning = True
            try:
                router.plan(query, values)
            finally:
                is_planning = False
        return execute(self, query, values, **options)

    with (
        psycopg.connect(shared().url(), autocommit=True) as connection,
        pytest.MonkeyPatch.context() as patch,
    ):
        connection.execute("SET search_path = memwell, public")
        router = Router(connection)
        patch.setattr(psycopg.Cursor, "execute", planned)
        yield router


def use_everything(url: str, tenant: str, folder: Path, workspace: Path) -> None:
    """Index, embed, tell, search, change and erase."""
    settings: dict[str, Any] = {
        "store.url": url,
        "store.tenant": tenant,
        "embedding.chain": ("test",),
    }
    with Memory(folder / "home", settings=settings, user="anna", session="s") as memory:
        memory.index(workspace)
        told = memory.remember("The boat is blue.", scope="user").fact
        memory.remember("The harbour is small.", scope="global")
        memory.supersede(told.id, "The boat is green.", scope="user")
        for mode in ("words", "meaning", "hybrid"):
            for query in ("boat", '"the cat"', "bo*", "cat -dog", "tag:x cat", "after:2020-01-01"):
                memory.search(query, mode=mode, explain=True, context="section")
        memory.search("boat", include_superseded=True)
        memory.why("cat", "cat.md")
        memory.recall("where is the boat?")
        (workspace / "cat.md").write_text("# The cat\n\nThe cat is named Rex now.\n")
        (workspace / "dog.md").unlink()
        memory.index(workspace)
        memory.facts.edit(
            memory.remember("The mast is tall.", scope="user").fact.id, text="The mast is short."
        )
        memory.forget(told.id)
        memory.export()
        memory.status(deep=True)
        memory.spaces()
        memory.reset()
        memory.fill()


def copy_both_ways(url: str, tenant: str, folder: Path) -> None:
    done = run("store", "copy", url, str(folder / "copy"), "--tenant", tenant, cwd=folder)
    assert done.returncode == 0, done.stderr
    done = run("store", "copy", str(folder / "copy"), url, "--tenant", f"{tenant}2", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_a_role_that_is_bound_to_its_tenant_can_do_everything(
    tmp_path: Path, workspace: Path, write: Write
) -> None:
    for name in ("cat", "dog", "bird"):
        write(f"{name}.md", f"# The {name}\n\nThe {name} is named Miso. #x\n")
    tenant = new_tenant()
    url = shared().url(user=new_role(tenant))
    use_everything(url, tenant, tmp_path, workspace)
    settings: dict[str, Any] = {"store.url": url, "store.tenant": tenant, "embedding.cache_mb": 0.0}
    with Memory(tmp_path / "home", settings={**settings, "embedding.chain": ("test",)}) as memory:
        memory.index(workspace)
        memory.fill()
        assert memory.search("miso", mode="words").hits
        checks = {check.name: check for check in memory.doctor()}
        assert (checks["rights"].ok, checks["index"].ok) == (True, True)
    counted = "SELECT count(*) FROM memwell.{} WHERE tenant = '{}'"
    assert shared().execute(counted.format("leases", tenant)) == [(0,)]
    assert shared().execute(counted.format("vector_cache", tenant)) == [(0,)]
    settings["store.tenant"] = "another"
    with (
        Memory(tmp_path / "home", settings=settings) as memory,
        pytest.raises(MemwellError, match="is bound to another tenant than another"),
    ):
        memory.search("miso")


def test_one_connection_is_enough_for_everything(
    tmp_path: Path, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that needed a second connection would wait for itself."""
    for name in ("cat", "dog", "bird"):
        write(f"{name}.md", f"# The {name}\n\nThe {name} is named Miso. #x\n")
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr(server, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.0)
    use_everything(app_url(), new_tenant(), tmp_path, workspace)


@pytest.mark.slow
def test_each_statement_needs_the_partitions_of_one_tenant(
    tmp_path: Path, workspace: Path, write: Write
) -> None:
    for name in ("cat", "dog", "bird"):
        write(f"{name}.md", f"# The {name}\n\nThe {name} is named Miso. #x\n")
    app_url()
    with routed() as router:
        tenant = new_tenant()
        use_everything(app_url(), tenant, tmp_path, workspace)
        copy_both_ways(app_url(), tenant, tmp_path)
    assert not router.wrong, "\n".join(router.wrong)
    assert len(router.statements) > 100


def test_the_router_notices_a_statement_without_a_tenant() -> None:
    app_url()
    with routed() as router, psycopg.connect(shared().url(), autocommit=True) as connection:
        connection.execute("SELECT count(*) FROM memwell.facts")
        assert len(router.wrong) == 1
        connection.execute("SELECT count(*) FROM memwell.facts WHERE tenant = %s", ("acme",))
        assert len(router.wrong) == 1
