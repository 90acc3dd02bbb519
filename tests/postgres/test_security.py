"""The rows that a role can see and change on the server with its own SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from memwell import Memory
from memwell.errors import MemwellError
from memwell.model import Viewer
from memwell.store.contract.values import FactFilter
from memwell.store.postgres import migrate as migrating
from memwell.store.postgres.migrations import MIGRATIONS
from memwell.store.postgres.schema import OWNERS, PARTITIONS, POLICY, TABLES
from tests.support.cli import run
from tests.support.postgres import (
    USER,
    app_url,
    build_agent_indexes,
    new_database,
    new_role,
    new_tenant,
    shared,
)

ALL_SCOPES = "{*}"
SCOPES_OF_ANNA = "{global:,user:anna}"


@dataclass(frozen=True)
class Tenants:
    one: str
    two: str


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Tenants:
    """Two tenants with rows in every table, with facts of anna, of ben and of everybody."""
    made = Tenants(new_tenant(), new_tenant())
    for tenant in (made.one, made.two):
        fill(app_url(), tenant, tmp_path_factory.mktemp("filled"))
        leave_rows(app_url(), tenant)
        build_agent_indexes(tenant)
        for agent, table in (("main", "cooldowns"), ("", "pending_erasures")):
            values = "'p', 0, 1, false, ''" if agent else "'0', ''"
            names = f"'{tenant}', '{agent}'" if agent else f"'{tenant}'"
            shared().execute(f"INSERT INTO memwell.{table} VALUES ({names}, {values})")
        shared().execute(
            "INSERT INTO memwell.leases SELECT tenant, agent, space_id, chunk_id, 'x', now()"
            f" FROM memwell.vectors WHERE tenant = '{tenant}' AND window_number = 0"
        )
    return made


def fill(url: str, tenant: str, folder: Path) -> None:
    """Index a note, and have anna, ben and everybody remember and forget something."""
    (folder / "cat.md").write_text("The cat is named Miso.\n", encoding="utf-8")
    settings: dict[str, Any] = {
        "store.url": url,
        "store.tenant": tenant,
        "embedding.chain": ("test",),
    }
    with Memory(folder / "home", settings=settings, user="anna") as anna:
        anna.index(folder)
        anna.remember("The dog is named Rex.", scope="global")
        anna.forget(anna.remember("The door is green.", scope="user").fact.id)
        ben = anna.as_viewer("ben")
        for memory, what in ((anna, "tea"), (ben, "coffee")):
            memory.remember(f"My drink is {what}.", scope="user")
            assert what in memory.search("drink", kind="fact").hits[0].text
        anna.fill()


def leave_rows(url: str, tenant: str) -> None:
    """Write a posting of each token as a row, as agents have that were not written since step 10."""
    with connected(tenant, "{*}", url) as connection:
        connection.execute(
            "INSERT INTO memwell.postings SELECT tenant, agent, token, block, 1, 1, '{1}', owner"
            " FROM memwell.posting_lists ON CONFLICT DO NOTHING"
        )


@contextmanager
def connected(
    tenant: str | None = None, scopes: str = "", url: str = ""
) -> Iterator[psycopg.Connection[Any]]:
    """A connection with these settings only."""
    with psycopg.connect(url or app_url(), autocommit=True) as connection:
        for name, value in (("tenant", tenant), ("scopes", scopes)):
            if value:
                connection.execute("SELECT set_config(%s, %s, false)", (f"memwell.{name}", value))
        yield connection


def count(connection: psycopg.Connection[Any], table: str, where: str = "true") -> int:
    found = connection.execute(f"SELECT count(*) FROM memwell.{table} WHERE {where}").fetchone()
    assert found
    return int(found[0])


def changes(
    connection: psycopg.Connection[Any], table: str, column: str, value: str
) -> Iterator[str]:
    """Statements that give a visible row to somebody else: an update and a copy."""
    yield f"UPDATE memwell.{table} SET {column} = {value}"
    names = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'memwell'"
        " AND table_name = %s",
        (table,),
    ).fetchall()
    own = [name for (name,) in names]
    copied = ", ".join(value if name == column else name for name in own)
    yield (
        f"INSERT INTO memwell.{table} ({', '.join(own)}) SELECT {copied} FROM memwell.{table}"
        f" WHERE {column} != {value} LIMIT 1"
    )


# -- tenants ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_a_connection_without_settings_sees_nothing(tenants: Tenants, table: str) -> None:
    assert shared().execute(f"SELECT 1 FROM memwell.{table} WHERE tenant = '{tenants.one}'")
    with connected() as connection:
        assert count(connection, table) == 0
    with connected(scopes=ALL_SCOPES) as connection:
        assert count(connection, table) == 0


@pytest.mark.parametrize("table", TABLES)
def test_no_row_of_another_tenant_can_be_read_changed_or_written(
    tenants: Tenants, table: str
) -> None:
    theirs = f"tenant = '{tenants.two}'"
    asked = f"SELECT count(*) FROM memwell.{table} WHERE tenant = "
    (before,), (own,) = (
        shared().execute(f"{asked}'{one}'")[0] for one in (tenants.two, tenants.one)
    )
    assert before > 0
    with connected(tenants.one, ALL_SCOPES) as connection:
        assert count(connection, table) == own
        assert count(connection, table, theirs) == 0
        change = f"UPDATE memwell.{table} SET tenant = tenant WHERE {theirs}"
        assert connection.execute(change).rowcount == 0
        assert connection.execute(f"DELETE FROM memwell.{table} WHERE {theirs}").rowcount == 0
        for statement in changes(connection, table, "tenant", f"'{tenants.two}'"):
            with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
                connection.execute(statement)
    assert shared().execute(f"{asked}'{tenants.two}'") == [(before,)]


def test_a_role_that_is_bound_to_a_tenant_sees_no_other_whatever_it_sets(tenants: Tenants) -> None:
    url = shared().url(user=new_role(tenants.one))
    for table in TABLES:
        with connected(tenants.one, ALL_SCOPES, url) as connection:
            assert count(connection, table) > 0
            connection.execute(f"SET memwell.tenant = '{tenants.two}'")
            assert count(connection, table) == 0


# -- scopes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", OWNERS)
def test_no_fact_of_another_user_can_be_read_changed_or_written(
    tenants: Tenants, table: str
) -> None:
    owner = OWNERS[table]
    theirs = f"{owner} = 'user:ben'"
    column, value = ("owner", "'user:ben'") if owner == "owner" else ("target", "'ben'")
    with connected(tenants.one, ALL_SCOPES) as connection:
        assert count(connection, table, theirs) > 0
    with connected(tenants.one, SCOPES_OF_ANNA) as connection:
        assert count(connection, table, f"{owner} = 'user:anna'") > 0
        assert count(connection, table, theirs) == 0
        change = f"UPDATE memwell.{table} SET tenant = tenant WHERE {theirs}"
        assert connection.execute(change).rowcount == 0
        assert connection.execute(f"DELETE FROM memwell.{table} WHERE {theirs}").rowcount == 0
        for statement in changes(connection, table, column, value):
            with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
                connection.execute(statement + ("" if "LIMIT" in statement else _OF_A_USER[owner]))
    with connected(tenants.one) as connection:  # no scopes: the notes alone
        assert count(connection, table, f"{owner} != ''") == 0


_OF_A_USER = {"owner": "", OWNERS["facts"]: " WHERE scope = 'user'"}


def test_a_role_that_is_bound_to_a_user_sees_no_other_whatever_it_sets(tenants: Tenants) -> None:
    url = shared().url(user=new_role(tenants.one, ["user:anna"]))
    with connected(tenants.one, SCOPES_OF_ANNA, url) as connection:
        for table, owner in OWNERS.items():
            assert count(connection, table, f"{owner} = 'user:anna'") > 0
            assert count(connection, table, f"{owner} = 'user:ben'") == 0
    for scopes in (ALL_SCOPES, "{user:ben}", "{user:anna,user:ben}"):
        with connected(tenants.one, scopes, url) as connection:
            assert not [table for table in TABLES if count(connection, table)]


def test_a_memory_works_for_a_role_that_is_bound_to_its_user(
    workspace: Path, tmp_path: Path
) -> None:
    tenant = new_tenant()
    fill(app_url(), tenant, workspace)
    url = shared().url(user=new_role(tenant, ["user:anna", "agent:main"]))
    settings: dict[str, Any] = {"store.url": url, "store.tenant": tenant}
    service: dict[str, Any] = {"store.url": app_url(), "store.tenant": tenant}
    with (
        Memory(tmp_path / "other", settings=settings, user="anna") as memory,
        Memory(tmp_path / "service", settings=service, user="anna") as server,
    ):
        told = memory.remember("My bike is blue.", scope="user").fact
        behind = memory.search("bike")
        assert behind.hits == ()
        assert "may not write to the index" in behind.freshness.note
        server.search("bike")  # a process whose role is not bound to a user keeps the index
        assert [hit.text for hit in memory.search("bike").hits] == ["My bike is blue."]
        assert [hit.text for hit in memory.search("drink").hits] == ["My drink is tea."]
        memory.facts.edit(told.id, text="My bike is red.")
        server.search("bike")
        assert [hit.text for hit in memory.search("bike").hits] == ["My bike is red."]
        assert memory.forget(told.id).pending
        assert server.search("bike").hits == ()
        with Memory(tmp_path / "service", settings=service, user="anna") as later:
            later.search("bike")  # the next process finishes the erasure
            assert later._fact_store.pending_erasures() == {}
        with pytest.raises(MemwellError, match="may not use the facts of user:ben"):
            memory.as_viewer("ben").facts.find(FactFilter(scope="user"))
        with pytest.raises(MemwellError, match="may not write to the index"):
            memory.reset()
        checks = {check.name: check for check in memory.doctor()}
        assert (checks["index"].ok, checks["rights"].ok) == (True, True)


def test_a_promoted_fact_is_visible_with_its_history(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store.url": app_url(), "store.tenant": new_tenant()}
    with Memory(tmp_path, settings=settings, user="anna") as anna:
        fact = anna.remember("The printer is in the hall.", scope="user").fact
        ben = anna.as_viewer("ben")
        assert ben.search("printer").hits == ()
        anna.facts.promote(fact.id, "global")
        assert [event.what for event in ben.facts.history(fact.id)] == ["added", "promoted"]
        assert ben.search("printer").hits[0].path == fact.id


def test_a_role_without_tables_gets_a_remedy(tmp_path: Path) -> None:
    url = new_database().replace(f"//{USER}@", f"//{new_role()}@")
    settings: dict[str, Any] = {"store.url": url}
    with (
        pytest.raises(MemwellError, match="memwell store roles"),
        Memory(tmp_path, settings=settings) as memory,
    ):
        memory.search("x")


def test_a_name_cannot_open_the_scope_of_another(tenants: Tenants, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store.url": app_url(), "store.tenant": tenants.one}
    for user in ("anna,user:ben", 'x","user:ben', "x'; SET memwell.scopes = '{*}", "\\", "*"):
        with Memory(tmp_path, settings=settings, user=user) as memory:
            assert memory.facts.find(FactFilter(scope="user")) == []
            fact = memory.remember("My hat is red.", scope="user").fact
            assert memory.search("hat", kind="fact").hits[0].path == fact.id
            assert memory.search("coffee", mode="words").hits == ()


def test_a_viewer_does_not_see_fact_workspaces_of_others(tenants: Tenants) -> None:
    from memwell.store.factory import open_postgres

    index = open_postgres(app_url(), tenants.one, Path(), "main").index
    try:
        with index.for_viewer(Viewer("anna", "main")).reading() as reader:
            assert "facts:user:ben" not in reader.notes.fact_workspaces()
        with index.reading() as reader:  # what keeps it up to date
            assert "facts:user:ben" in reader.notes.fact_workspaces()
    finally:
        index.close()


# -- ways around -----------------------------------------------------------------------------------


def test_row_level_security_cannot_be_bypassed(tenants: Tenants) -> None:
    with connected(tenants.one, ALL_SCOPES) as connection:
        refused = [f"SELECT * FROM memwell.facts_{number}" for number in range(PARTITIONS)]
        refused += [
            "SET row_security = off; SELECT * FROM memwell.facts",
            "TRUNCATE memwell.facts",
            "DROP POLICY tenant_and_scopes ON memwell.facts",
            "ALTER TABLE memwell.facts DISABLE ROW LEVEL SECURITY",
            "CREATE TABLE memwell.mine (x int)",
            "SET ROLE memwell",
            "COPY memwell.facts FROM STDIN",
        ]
        for statement in refused:
            with pytest.raises((errors.InsufficientPrivilege, errors.FeatureNotSupported)):
                connection.execute(statement)


def test_row_level_security_also_applies_to_the_owner_of_the_tables(tmp_path: Path) -> None:
    url = new_database()
    owner = new_role()
    name = re.findall(r"/(test_\w+)\?", url)[0]
    for extension in ("vector", "pg_textsearch"):
        shared().execute(f"CREATE EXTENSION {extension}", name)
    shared().execute(f'ALTER DATABASE {name} OWNER TO "{owner}"')
    url = shared().url(name, owner)
    fill(url, "mine", tmp_path)
    leave_rows(url, "mine")
    assert len(build_agent_indexes("mine", url).built) == 2
    with connected(url=url) as connection:
        assert not [table for table in TABLES if count(connection, table)]
    with connected("mine", ALL_SCOPES, url) as connection:
        assert all(count(connection, table) for table in OWNERS)
        parts = [f"{table}_{number}" for table in TABLES for number in range(PARTITIONS)]
        assert not [part for part in parts if count(connection, part)]


def test_an_older_database_gets_row_level_security(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "SELECT relforcerowsecurity FROM pg_class WHERE oid = %s::regclass"
    with psycopg.connect(new_database(), autocommit=True) as connection:
        with monkeypatch.context() as before:
            before.setattr(migrating, "MIGRATIONS", MIGRATIONS[:2])
            migrating.migrate(connection)
        connection.execute("INSERT INTO rests VALUES ('mine', 'main', 'p', 0, 1, false, '')")
        assert connection.execute(asked, ("memwell.rests",)).fetchall() == [(False,)]
        migrating.migrate(connection)
        assert connection.execute(asked, ("memwell.cooldowns",)).fetchall() == [(True,)]
        assert count(connection, "cooldowns") == 1


# -- what is printed -------------------------------------------------------------------------------


def test_the_role_script_creates_a_role_with_no_other_rights(
    tenants: Tenants, tmp_path: Path
) -> None:
    script = run("store", "roles", "--role", 'O\'Hara "x"', "--tenant", "it's", cwd=tmp_path).stdout
    with psycopg.connect(shared().url()) as connection:
        connection.execute(script)
        rights = connection.execute(
            "SELECT rolsuper, rolbypassrls, rolcreatedb, rolcreaterole, rolreplication"
            " FROM pg_roles WHERE rolname = %s",
            ('O\'Hara "x"',),
        ).fetchone()
        assert rights == (False,) * 5
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier('O\'Hara "x"')))
        connection.execute("SELECT set_config('memwell.tenant', %s, true)", (tenants.one,))
        assert count(connection, "notes") == 0
        connection.rollback()


@pytest.mark.parametrize(
    "wrong", [("--scope", "user:anna"), ("--tenant", "x", "--scope", "anna"), ("--tenant", "")]
)
def test_a_role_cannot_be_bound_to_an_invalid_scope(wrong: tuple[str, ...], tmp_path: Path) -> None:
    assert run("store", "roles", *wrong, cwd=tmp_path).returncode == 2


def test_tables_are_distributed_after_the_tables_they_reference(
    tenants: Tenants, tmp_path: Path
) -> None:
    printed = run("store", "ddl", "--citus", cwd=tmp_path).stdout
    order = re.findall(r"create_distributed_table\('memwell\.(\w+)', 'tenant'", printed)
    assert sorted(order) == sorted(TABLES)
    keys = shared().execute(
        "SELECT conrelid::regclass::text, confrelid::regclass::text, confupdtype"
        " FROM pg_constraint WHERE contype = 'f' AND conparentid = 0"
    )
    assert keys
    for table, other, updating in keys:
        names = [name.removeprefix("memwell.") for name in (table, other)]
        assert order.index(names[1]) < order.index(names[0])
        assert updating == "a"  # what Citus does not know of a key with the tenant in it: CASCADE
    policies = shared().execute(f"SELECT qual FROM pg_policies WHERE policyname = '{POLICY}'")
    assert len(policies) == len(TABLES)
    assert not [rule for (rule,) in policies if "SELECT" in rule]  # nor queries in a rule
