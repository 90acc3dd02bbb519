"""Each statement concerns one tenant: two servers that divide the tenants answer like one.

The suite of the stores and a use of everything run once more through the router of
tests/support/router.py, which sends each transaction to the server of its tenant.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memwell import Memory
from memwell.errors import MemwellError
from memwell.store import postgres
from memwell.store.postgres import connections, leases, server
from memwell.store.postgres.schema import TABLES
from memwell.store.words.tree import AllOf, Term
from tests.conftest import REPOSITORY, Write
from tests.support.cli import run
from tests.support.cluster import cluster
from tests.support.postgres import (
    app_url,
    build_agent_indexes,
    new_database,
    new_role,
    new_tenant,
    shared,
)
from tests.support.router import router, server_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.server
SUITE = (
    "tests/contract",
    "tests/postgres/test_copy.py",
    "tests/postgres/test_erasing.py",
    "tests/postgres/test_leases.py",
    "tests/postgres/test_large.py",
    "tests/postgres/test_routing.py",
    "tests/postgres/test_same_answers.py",
    "tests/postgres/test_scopes.py",
)
"""The tests that run through the router. Together they send every statement of the stores."""
_OF_SEPARATE_INDEXES = (
    "test_chunks_of_many_windows_count_once",
    "test_edited_and_deleted_words_are_visible_immediately",
)
"""Those of test_large.py; the others look into the server."""
_OF_ITS_OWN = "one_partition"
"""A test that makes a database of its own."""
MAINTENANCE = ("build_indexes.py", "tenants.py")
"""`store index` and `store drop-tenant` need the server's own address, so no router."""
_OLDER_SCHEMA = "posting_rows.py"
"""It sends to databases before `store migrate` only, like what reads their table of postings."""
_PASSES_ON = "server.py"
"""It sends what others hand to it: their places are recorded."""
_SENDERS = {
    "rows",
    "row",
    "value",
    "run",
    "rows_inlined",
    "rows_in_binary",
    "rows_at_once",
    "stream",
}
"""The methods of a session and of a server that send a statement."""

_SENT_WITH_BEGIN = {"WORKSPACES", "SPACES", "COOLDOWNS", "KEYWORD_STATE", "REVISION"}
"""The statements of `reader.FIRST`: they are answered before they are asked for."""


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


def use_what_is_rarely_used(
    url: str, tenant: str, folder: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebuild the words, move a workspace, touch a note, renew leases, use a role of a user."""
    settings: dict[str, Any] = {
        "store.url": url,
        "store.tenant": tenant,
        "embedding.chain": ("test",),
    }
    with Memory(folder / "home", settings=settings) as memory:
        memory.index(workspace)
        os.utime(workspace / "cat.md", ns=(10**18, 10**18))
        memory.index(workspace)
        moved = workspace.rename(workspace.with_name("moved"))
        memory.index(moved)
        with memory._index.writing() as notes, memory._index.reading_beside(notes) as reader:
            number, root, *_ = reader.notes.workspaces()[0]
            notes.move_workspace(number, root)
        memory._index.rebuild_keyword_index()
        opened = memory._index.server  # type: ignore[attr-defined]
        opened.rows("main", "UPDATE indexes SET words_version = 0 WHERE tenant = %(tenant)s")
        memory.index(moved)
        with memory._index.reading() as reader:
            assert reader.keywords.occurs(AllOf((Term(("cat",)), Term(("miso",)))))
            space = reader.spaces.live()
            assert space
        (moved / "cat.md").write_text("The cat is old.")
        memory.index(moved, embed=False)
        until = "SELECT max(until) FROM leases l WHERE l.tenant = %(tenant)s"
        monkeypatch.setattr(leases, "SECONDS", 0.3)
        with memory._index.leasing() as take:
            assert take
            assert len(take(space, 10)) == 1
            first = opened.rows("", until)
            wait_until(lambda: opened.rows("", until) != first)
        memory.remember("The oar is long.", scope="global")
    url = shared().url(user=new_role(tenant, ["user:anna"]))
    settings = {"store.url": url, "store.tenant": tenant}
    with Memory(folder / "home", settings=settings, user="anna") as memory:
        told = memory.remember("The rudder is small.", scope="user").fact
        memory.supersede(told.id, "The rudder is large.", scope="user")
        memory.forget(told.id)


def test_what_is_rarely_used_works(
    tmp_path: Path, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("cat.md", "# The cat\n\nThe cat is named Miso. #x\n")
    use_what_is_rarely_used(app_url(), new_tenant(), tmp_path, workspace, monkeypatch)


def test_everything_can_be_used_and_copied(tmp_path: Path, workspace: Path, write: Write) -> None:
    for name in ("cat", "dog", "bird"):
        write(f"{name}.md", f"# The {name}\n\nThe {name} is named Miso. #x\n")
    tenant = new_tenant()
    use_everything(app_url(), tenant, tmp_path, workspace)
    copy_both_ways(app_url(), tenant, tmp_path)


def test_a_database_may_have_one_partition(tmp_path: Path, workspace: Path, write: Write) -> None:
    """A cluster divides the tables itself."""
    url = new_database()
    asked = ("--store", url, "store", "migrate")
    done = run(*asked, "--partitions", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("cat", "dog", "bird"):
        write(f"{name}.md", f"# The {name}\n\nThe {name} is named Miso. #x\n")
    use_everything(url, "acme", tmp_path, workspace)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_textsearch SCHEMA public")
        found = connection.execute(
            "SELECT inhparent::regclass::text, count(*) FROM pg_inherits JOIN pg_class c"
            " ON c.oid = inhparent WHERE c.relkind = 'p' GROUP BY 1"
        ).fetchall()
    assert {name.rpartition(".")[2] for name, _ in found} >= {*TABLES} - {"migrations"}
    assert {count for _, count in found} == {1}
    build_agent_indexes("acme", url)
    copy_both_ways(url, "acme", tmp_path)
    assert run(*asked, cwd=tmp_path).returncode == 0
    other = run(*asked, "--partitions", "4", cwd=tmp_path)
    assert other.returncode == 3
    assert "has 1 partitions for each table, not 4. The number cannot change" in other.stderr


# -- the router ------------------------------------------------------------------------------------


def find_sending_places() -> Iterator[tuple[str, int, int]]:
    """The calls in the code of the store that send a statement: module, first and last line."""
    for file in Path(str(postgres.__file__)).parent.glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            receiver = ast.unparse(call.func.value).rpartition(".")[2].strip("_")
            statement = ast.unparse(call.args[0]) if call.args else ""
            if statement in _SENT_WITH_BEGIN or "FROM postings p" in statement:
                continue
            if call.func.attr in _SENDERS and receiver in ("session", "server"):
                yield file.name, call.lineno, call.end_lineno or call.lineno


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(1200)
def test_no_statement_of_the_suite_needs_both_servers(tmp_path: Path) -> None:
    """Each place in the code that sends a statement has sent one through the router."""
    report = tmp_path / "report.json"
    separate = " or ".join(_OF_SEPARATE_INDEXES)
    words = f"not sqlite and not needs_both_servers and not {_OF_ITS_OWN}"
    words += f" and (not test_large or {separate})"
    plugins = ("-p", "no:xdist", "-p", "tests.support.routed")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *plugins,
            *SUITE,
            "-k",
            words,
            "-m",
            "not soak and not slow",
        ],
        cwd=REPOSITORY,
        env={**os.environ, "ROUTER_REPORT": str(report)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    found = json.loads(report.read_text())
    assert found["wrong"] == []
    assert len(found["statements"]) > 200
    for number, tables in enumerate(found["tenants"]):
        assert all(server_of(tenant) == number for names in tables.values() for tenant in names)
        assert tables["facts"]  # tenants have random names, so that servers get unequal numbers
    seen: dict[str, set[int]] = {}
    for module, line in found["places"]:
        seen.setdefault(module, set()).add(line)
    never = [
        f"{module}:{first}"
        for module, first, last in find_sending_places()
        if module not in (*MAINTENANCE, _PASSES_ON, _OLDER_SCHEMA)
        and not seen.get(module, set()) & {*range(first, last + 1)}
    ]
    assert not never, "\n".join(never)


def test_the_router_refuses_a_statement_that_names_no_tenant() -> None:
    with (
        cluster() as one,
        cluster() as two,
        tempfile.TemporaryDirectory() as folder,
        router([one, two], Path(folder)) as made,
    ):
        for server_ in (one, two):
            server_.execute("CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA memwell TO app")
            server_.execute("GRANT ALL ON ALL TABLES IN SCHEMA memwell TO app")
        begin = "BEGIN; SET LOCAL search_path = memwell; SET LOCAL memwell.tenant = '{}'"
        insert = "INSERT INTO revisions (tenant, last) VALUES ({}, 0)"
        with psycopg.connect(made.url(user="app"), autocommit=True) as client:
            for tenant in ("acme", "beta", "gamma", "delta"):
                client.execute(begin.format(tenant))
                client.execute(insert.format("%s"), (tenant,))
                client.execute("COMMIT")
            for wrong in ("SELECT count(*) FROM revisions", "DELETE FROM facts WHERE tenant = 'b'"):
                client.execute(begin.format("acme"))
                with pytest.raises(psycopg.Error, match="does not name its tenant acme"):
                    client.execute(wrong)
                client.execute("ROLLBACK")
            client.execute(begin.format("acme"))
            both = "SELECT 1 FROM revisions WHERE tenant = 'acme' OR last = 1"
            with pytest.raises(psycopg.Error, match="it needs 8 partitions"):
                client.execute(both)
            client.execute("ROLLBACK")
        assert len(made.wrong) == 3
        stored = [
            {tenant for (tenant,) in each.execute("SELECT tenant FROM memwell.revisions")}
            for each in (one, two)
        ]
    assert stored[0] | stored[1] == {"acme", "beta", "gamma", "delta"}
    for number, names in enumerate(stored):
        assert names
        assert all(server_of(name) == number for name in names)
