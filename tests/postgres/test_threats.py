"""What roles that are bound to a tenant, or to a user of it, can do with SQL of their own.

docs/postgres.md states the same, by confidentiality, integrity and availability.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from memwell.store.postgres.schema import SCHEMA, TABLES
from tests.postgres.test_security import fill
from tests.support.postgres import app_url, build_agent_indexes, new_role, new_tenant, shared

pytestmark = pytest.mark.server
REFUSED, NOTHING, OWN, SHARED = "refused", "nothing", "own", "shared"
"""An error; no row; rows of the role itself; rows that all users of the tenant share."""
SCOPES_OF_ANNA = "{global:,user:anna}"


@dataclass(frozen=True)
class Try:
    """A statement, and its outcome for a role bound to a user and for one bound to a tenant."""

    area: str
    statement: str
    user: str
    tenant: str

    @property
    def name(self) -> str:
        return f"{self.area}: {' '.join(self.statement.split())[:60]}"


TRIES = [
    # -- read --
    Try("read", "SELECT 1 FROM facts WHERE scope || ':' || target = 'user:ben'", NOTHING, OWN),
    Try("read", "SELECT 1 FROM facts WHERE target = 'anna'", OWN, OWN),
    Try("read", "SELECT 1 FROM chunks WHERE owner = 'user:ben'", NOTHING, OWN),
    Try("read", "SELECT 1 FROM posting_lists WHERE owner = 'user:ben'", NOTHING, OWN),
    Try("read", "SELECT 1 FROM posting_lists WHERE tenant = '{two}'", NOTHING, NOTHING),
    Try("read", "SELECT * FROM posting_lists_0", REFUSED, REFUSED),
    Try("read", "SELECT 1 FROM vectors WHERE owner = 'user:ben'", NOTHING, OWN),
    Try("read", "SELECT 1 FROM vocabulary WHERE owner = 'user:ben'", NOTHING, OWN),
    Try("read", "SELECT 1 FROM fact_events WHERE target = 'ben'", NOTHING, OWN),
    Try("read", "SELECT 1 FROM notes WHERE owner = ''", SHARED, OWN),
    Try("read", "SELECT 1 FROM facts WHERE tenant = '{two}'", NOTHING, NOTHING),
    Try("read", "SELECT 1 FROM vector_cache WHERE tenant = '{two}'", NOTHING, NOTHING),
    Try("read", "SELECT 1 FROM vector_cache", SHARED, OWN),
    Try("read", "SELECT 1 FROM forgotten", SHARED, OWN),
    Try("read", "SELECT * FROM role_bindings", REFUSED, REFUSED),
    Try("read", "SELECT * FROM facts_0", REFUSED, REFUSED),
    Try("read", "TABLE migrations", SHARED, SHARED),
    Try("read", "COPY (SELECT 1 FROM facts) TO STDOUT", OWN, OWN),
    # -- settings --
    Try(
        "settings",
        "SET memwell.tenant = '{two}'; SELECT 1 FROM facts",
        NOTHING,
        NOTHING,
    ),
    Try("settings", "SET memwell.scopes = '{{*}}'; SELECT 1 FROM facts", NOTHING, OWN),
    Try("settings", "SET memwell.scopes = '{{user:ben}}'; SELECT 1 FROM facts", NOTHING, OWN),
    Try("settings", "RESET memwell.tenant; SELECT 1 FROM facts", NOTHING, NOTHING),
    Try("settings", "SET row_security = off; SELECT 1 FROM facts", REFUSED, REFUSED),
    Try("settings", "SET session_replication_role = replica", REFUSED, REFUSED),
    Try("settings", "SET ROLE memwell", REFUSED, REFUSED),
    Try("settings", "SET ROLE memwell_bound", REFUSED, REFUSED),
    Try("settings", "SET SESSION AUTHORIZATION memwell", REFUSED, REFUSED),
    # -- write --
    Try(
        "write",
        "INSERT INTO facts SELECT '{two}', id || 'x', text, folded, category, source, origin,"
        " importance, confidence, decay_class, created_at, confirmed_at, expires_at, valid_from,"
        " valid_until, superseded_by, scope, target, tags, revision FROM facts WHERE target = 'anna'",
        REFUSED,
        REFUSED,
    ),
    Try("write", "UPDATE facts SET text = 'x' WHERE id = '{ben}'", NOTHING, OWN),
    Try("write", "UPDATE facts SET target = 'ben' WHERE target = 'anna'", REFUSED, OWN),
    Try("write", "UPDATE facts SET text = 'x' WHERE scope = 'global'", NOTHING, OWN),
    Try("write", "DELETE FROM facts WHERE id = '{ben}'", REFUSED, REFUSED),
    Try("write", "UPDATE facts SET importance = 1 WHERE target = 'anna'", OWN, OWN),
    Try("write", "UPDATE notes SET title = 'forged' WHERE owner = ''", REFUSED, OWN),
    Try(
        "write",
        "INSERT INTO notes SELECT tenant, agent, 7, workspace_id, 'forged.md' FROM notes LIMIT 1",
        REFUSED,
        REFUSED,
    ),
    Try("write", "UPDATE vector_cache SET vectors = ''", REFUSED, OWN),
    Try("write", "DELETE FROM vocabulary", REFUSED, REFUSED),
    Try("write", "DELETE FROM posting_lists", REFUSED, REFUSED),
    Try("write", "UPDATE posting_lists SET chunks = '', places = ''", REFUSED, OWN),
    Try("write", "UPDATE indexes SET blocks = '{{}}'", REFUSED, OWN),
    Try("write", "UPDATE vocabulary SET document_frequency = 1", REFUSED, OWN),
    Try("write", "UPDATE indexes SET chunks = 0", REFUSED, OWN),
    Try("write", "UPDATE spaces SET complete_to = 999999999", REFUSED, OWN),
    Try("write", "UPDATE revisions SET last = 0", REFUSED, OWN),
    Try("write", "INSERT INTO forgotten VALUES ('{one}', '{ben}', 1)", REFUSED, OWN),
    Try("write", "DELETE FROM forgotten", REFUSED, REFUSED),
    Try("write", "INSERT INTO pending_erasures VALUES ('{one}', '{ben}', '')", REFUSED, OWN),
    Try("write", "DELETE FROM vector_cache", REFUSED, REFUSED),
    Try("write", "DELETE FROM workspace_list", REFUSED, REFUSED),
    Try("write", "TRUNCATE facts", REFUSED, REFUSED),
    Try("write", "INSERT INTO commits (tenant) VALUES ('{two}')", REFUSED, REFUSED),
    Try("write", "DELETE FROM commits", REFUSED, REFUSED),
    # -- cache --
    Try(
        "cache",
        "SELECT memwell.record_erasure((SELECT id FROM facts WHERE target = 'anna'), '\\x00')",
        SHARED,
        REFUSED,
    ),
    # -- functions --
    Try("functions", "SELECT memwell.delete_fact('{ben}')", SHARED, REFUSED),
    Try(
        "functions",
        "SELECT memwell.delete_rows('facts', ARRAY(SELECT ctid FROM facts WHERE target = 'ben'))",
        REFUSED,
        OWN,
    ),
    Try("functions", "SELECT memwell.delete_rows('role_bindings', NULL)", REFUSED, REFUSED),
    Try("functions", "SELECT memwell.mark_forgotten('{ben}')", REFUSED, REFUSED),
    Try("functions", "SELECT memwell.record_erasure('{ben}', '')", REFUSED, REFUSED),
    Try("functions", "SELECT memwell.next_revision()", SHARED, REFUSED),
    Try("functions", "SELECT 1 FROM memwell.own_binding()", OWN, OWN),
    Try(
        "functions",
        "SELECT 1 WHERE memwell.is_bound_to('{two}', '{{*}}')",
        NOTHING,
        NOTHING,
    ),
    Try("functions", "SELECT pg_read_file('/etc/passwd')", REFUSED, REFUSED),
    Try("functions", "COPY facts TO PROGRAM 'cat'", REFUSED, REFUSED),
    Try("functions", "SELECT nextval('ids')", SHARED, SHARED),
    Try("functions", "SELECT setval('ids', 1)", REFUSED, REFUSED),
    Try(
        "functions",
        "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        REFUSED,
        REFUSED,
    ),
    # -- cascade --
    Try("cascade", "DELETE FROM indexes", REFUSED, REFUSED),
    Try("cascade", "DELETE FROM spaces", REFUSED, REFUSED),
    Try("cascade", "DELETE FROM workspaces", REFUSED, REFUSED),
    Try(
        "cascade",
        "CREATE TABLE memwell.trap (tenant text, id text REFERENCES facts ON DELETE CASCADE)",
        REFUSED,
        REFUSED,
    ),
    # -- lock --
    Try("lock", "LOCK TABLE facts IN ACCESS EXCLUSIVE MODE", REFUSED, REFUSED),
    Try("lock", "LOCK TABLE chunks IN SHARE MODE", REFUSED, REFUSED),
    Try("lock", "SELECT memwell.analyse_grown('{one}')", REFUSED, REFUSED),
    Try("lock", "LOCK TABLE facts IN ROW EXCLUSIVE MODE", SHARED, SHARED),
    Try("lock", "SELECT 1 FROM facts WHERE target = 'anna' FOR UPDATE", OWN, OWN),
    Try("lock", "SELECT 1 FROM facts WHERE target = 'ben' FOR UPDATE", NOTHING, OWN),
    Try("lock", "SELECT pg_advisory_xact_lock(1835363703)", SHARED, SHARED),
    # -- catalogue and statistics --
    Try("catalogue", "SELECT rolname FROM pg_roles", SHARED, SHARED),
    Try("catalogue", "SELECT name, setting FROM pg_settings", SHARED, SHARED),
    Try(
        "catalogue",
        "SELECT 1 FROM pg_policies WHERE qual || coalesce(with_check, '') ~ '{one}|{two}'",
        NOTHING,
        NOTHING,
    ),
    Try("catalogue", "SELECT 1 FROM pg_indexes WHERE indexdef ~ '{one}|{two}'", NOTHING, NOTHING),
    Try("catalogue", "ALTER TABLE facts DISABLE ROW LEVEL SECURITY", REFUSED, REFUSED),
    Try("catalogue", "DROP POLICY bound ON facts", REFUSED, REFUSED),
    Try("catalogue", "SELECT 1 FROM pg_stats WHERE tablename ~ '^facts'", NOTHING, NOTHING),
    Try("catalogue", "SELECT * FROM pg_statistic", REFUSED, REFUSED),
    Try("catalogue", "SELECT rolpassword FROM pg_authid", REFUSED, REFUSED),
    Try(
        "catalogue",
        "SELECT 1 FROM pg_stat_all_tables WHERE relname ~ '^facts' AND n_live_tup > 0",
        SHARED,
        SHARED,
    ),
    Try("catalogue", "EXPLAIN ANALYZE SELECT 1 FROM facts", SHARED, SHARED),
]


@dataclass(frozen=True)
class World:
    one: str
    two: str
    ben: str
    user: str
    tenant: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two tenants with facts of anna and ben, and a role of each kind."""
    one, two = new_tenant(), new_tenant()
    for tenant in (one, two):
        fill(app_url(), tenant, tmp_path_factory.mktemp("filled"))
        build_agent_indexes(tenant)
    ((ben,),) = shared().execute(
        f"SELECT id FROM memwell.facts WHERE tenant = '{one}' AND target = 'ben'"
    )
    return World(one, two, ben, new_role(one, ["user:anna"]), new_role(one))


def find_outcome(connection: psycopg.Connection[Any], statement: str) -> tuple[str, int]:
    """Run statements in a transaction that is rolled back; return the error or the rows."""
    try:
        with connection.transaction(force_rollback=True):
            if "COPY" in statement and "STDOUT" in statement:
                with connection.cursor().copy(statement) as copied:
                    return "", sum(bytes(part).count(b"\n") for part in copied)
            *settings, last = statement.split("; ")
            for setting in settings:
                connection.execute(setting)
            return "", connection.execute(last).rowcount
    except psycopg.Error as error:
        return type(error).__name__, 0


def read_others(world: World) -> dict[str, list[Any]]:
    """The rows of ben, of the other tenant, and of what all users share."""
    return {
        table: sorted(
            shared().execute(
                f"SELECT t::text FROM memwell.{table} t WHERE tenant IN ('{world.one}', '{world.two}')"
            )
        )
        for table in TABLES
    }


@pytest.fixture(params=["user", "tenant"])
def bound(
    request: pytest.FixtureRequest, world: World
) -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    kind = str(request.param)
    scopes = SCOPES_OF_ANNA if kind == "user" else "{*}"
    with psycopg.connect(shared().url(user=getattr(world, kind)), autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}, public")
        for name, value in (("tenant", world.one), ("scopes", scopes)):
            connection.execute("SELECT set_config(%s, %s, false)", (f"memwell.{name}", value))
        yield kind, connection


def test_a_bound_role_can_do_what_the_threat_model_says(
    bound: tuple[str, psycopg.Connection[Any]], world: World
) -> None:
    kind, connection = bound
    before = read_others(world)
    wrong = []
    for attempt in TRIES:
        names = {"one": world.one, "two": world.two, "ben": world.ben}
        expected = getattr(attempt, kind)
        error, count = find_outcome(connection, attempt.statement.format(**names))
        found = REFUSED if error else (NOTHING if count == 0 else expected)
        if found != expected or (expected in (OWN, SHARED) and (error or not count)):
            wrong.append(f"{attempt.name}: {expected} was expected, not {error or count}")
    assert wrong == []
    assert len(TRIES) >= 60
    assert read_others(world) == before


def test_a_bound_user_destroys_nothing_when_all_of_it_is_committed(world: World) -> None:
    """The same statements without a rollback: of the others, nothing changed."""
    before = read_others(world)
    with psycopg.connect(shared().url(user=world.user), autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}, public; SET lock_timeout = '2s'")
        for attempt in TRIES:
            if attempt.area in ("write", "functions", "cascade") and "PROGRAM" not in (
                attempt.statement
            ):
                for name, value in (("tenant", world.one), ("scopes", SCOPES_OF_ANNA)):
                    connection.execute(
                        "SELECT set_config(%s, %s, false)", (f"memwell.{name}", value)
                    )
                names = {"one": world.one, "two": world.two, "ben": world.ben}
                try:
                    connection.execute(attempt.statement.format(**names))
                except psycopg.Error:
                    continue
    after = read_others(world)
    own = ("facts", "revisions")  # anna's fact is more important now, and a revision was taken
    assert {name: after[name] for name in TABLES if name not in own} == {
        name: before[name] for name in TABLES if name not in own
    }
    strip = [row for (row,) in after["facts"] if "anna" not in row]
    assert strip == [row for (row,) in before["facts"] if "anna" not in row]


def test_a_duplicate_key_tells_that_an_id_exists(world: World) -> None:
    copied = (
        "INSERT INTO facts (tenant, id, text, folded, category, source, origin, importance,"
        " confidence, decay_class, created_at, confirmed_at, scope, target, tags, revision)"
        " SELECT tenant, {id}, text, folded || 'x', category, source, origin, importance, confidence,"
        " decay_class, created_at, confirmed_at, scope, target, tags, revision FROM facts"
        " WHERE target = 'anna'"
    )
    with psycopg.connect(shared().url(user=world.user), autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}, public")
        for name, value in (("tenant", world.one), ("scopes", SCOPES_OF_ANNA)):
            connection.execute("SELECT set_config(%s, %s, false)", (f"memwell.{name}", value))
        assert find_outcome(connection, copied.format(id="id || 'x'")) == ("", 1)
        assert find_outcome(connection, copied.format(id=f"'{world.ben}'"))[0] == "UniqueViolation"


def test_the_catalogue_does_not_grow_with_roles(world: World) -> None:
    counted = "SELECT count(*) FROM pg_policies WHERE schemaname = 'memwell'"
    before = shared().execute(counted)
    for _ in range(3):
        new_role(new_tenant(), ["user:anna"])
    assert shared().execute(counted) == before


def test_the_script_of_a_role_can_be_run_again_and_changes_the_binding(world: World) -> None:
    from memwell.store.postgres.roles import role

    name = new_role(world.one, ["user:anna"])
    bindings = f"SELECT tenant, scopes FROM memwell.role_bindings WHERE role = '{name}'"
    for arguments, expected in (
        ((world.one, ["user:anna"]), [(world.one, ["global:", "user:anna"])]),
        ((world.two, []), [(world.two, None)]),
        ((None, []), []),
        ((world.one, []), [(world.one, None)]),
    ):
        for statement in role(name, *arguments):
            shared().execute(statement)
        assert shared().execute(bindings) == expected
