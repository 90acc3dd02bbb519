"""`memwell doctor` and `memwell status` report the state of a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from memwell.store.postgres import migrate as migrating
from memwell.store.postgres.migrations import MIGRATIONS
from tests.support.cli import run
from tests.support.postgres import USER, app_url, new_database, new_role, new_tenant, shared


@pytest.fixture(autouse=True)
def tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_STORE_TENANT", new_tenant())


def doctor(url: str, cwd: Path) -> dict[str, dict[str, Any]]:
    """The checks by name."""
    done = run("--store", url, "doctor", "--json", cwd=cwd)
    checks = json.loads(done.stdout)["checks"]
    assert done.returncode == int(not all(check["ok"] for check in checks))
    assert len(checks) == len({check["name"] for check in checks})
    return {check["name"]: check for check in checks}


def failed(checks: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name, check in checks.items() if not check["ok"]]


def as_role(url: str, role: str) -> str:
    return url.replace(f"//{USER}@", f"//{role}@")


def database_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def test_every_check_passes_for_a_role_with_the_rights_it_needs(workspace: Path) -> None:
    checks = doctor(app_url(), workspace)
    assert failed(checks) == []
    assert [*checks][2:8] == [
        "PostgreSQL",
        "pgvector",
        "pg_textsearch",
        "schema",
        "rights",
        "role",
    ]
    assert checks["PostgreSQL"]["detail"].startswith("18")
    assert checks["schema"]["detail"] == f"{len(MIGRATIONS)} of {len(MIGRATIONS)} steps"
    assert "of 200" in checks["connections"]["detail"]
    status = run("--store", app_url(), "status", cwd=workspace)
    assert status.returncode == 0
    assert "store   PostgreSQL 18" in status.stdout
    assert "warning" not in status.stderr
    told = json.loads(run("--store", app_url(), "status", "--json", cwd=workspace).stdout)
    assert [check["name"] for check in told["store"]][:2] == ["PostgreSQL", "pgvector"]


def test_a_superuser_is_warned_that_row_level_security_does_not_restrict_it(
    workspace: Path,
) -> None:
    checks = doctor(shared().url(), workspace)
    assert failed(checks) == ["role"]
    assert "memwell store roles --role NAME | psql" in checks["role"]["remedy"]
    status = run("--store", shared().url(), "status", cwd=workspace)
    assert (status.returncode, "does not restrict it" in status.stderr) == (0, True)


def test_a_missing_extension_is_reported_with_the_command_that_creates_it(
    workspace: Path,
) -> None:
    url = as_role(new_database(), new_role())
    checks = doctor(url, workspace)
    assert failed(checks) == ["pgvector", "schema", "index"]
    assert "CREATE EXTENSION vector" in checks["pgvector"]["remedy"]
    assert database_of(url) in checks["pgvector"]["remedy"]
    assert "memwell store migrate" in checks["schema"]["remedy"]
    assert {"home", "configuration", "PostgreSQL", "role", "connections"} <= {*checks}
    status = run("--store", url, "status", cwd=workspace)
    assert status.returncode != 0
    assert "does not allow that" in status.stderr
    assert "memwell doctor" in status.stderr


def test_an_old_extension_is_reported_with_the_command_that_updates_it(
    workspace: Path,
) -> None:
    url = new_database()
    run("--store", url, "status", cwd=workspace)
    shared().execute(
        "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'", database_of(url)
    )
    checks = doctor(url, workspace)
    assert failed(checks) == ["pgvector", "role"]
    assert checks["pgvector"]["detail"] == "0.7.4, older than 0.8"
    assert "ALTER EXTENSION vector UPDATE" in checks["pgvector"]["remedy"]


def test_a_missing_optional_extension_is_not_a_failure(workspace: Path) -> None:
    url = new_database()
    before = doctor(url, workspace)["pg_textsearch"]
    assert before["ok"]
    assert "could be created (optional)" in before["detail"]
    shared().execute("CREATE EXTENSION pg_textsearch", database_of(url))
    created = doctor(url, workspace)["pg_textsearch"]
    assert (created["ok"], created["detail"][0].isdigit()) == (True, True)


def test_a_missing_right_is_reported_with_the_role_that_can_grant_it(workspace: Path) -> None:
    role = new_role()
    url = as_role(shared().url(), role)
    shared().execute(f'REVOKE DELETE ON memwell.postings FROM "{role}"')
    checks = doctor(url, workspace)
    assert failed(checks) == ["rights"]
    assert checks["rights"]["detail"] == f'"{role}" lacks DELETE on memwell.postings'
    assert f"memwell store roles --role {role}" in checks["rights"]["remedy"]
    assert f'as "{USER}"' in checks["rights"]["remedy"]
    status = run("--store", url, "status", cwd=workspace)
    assert "lacks DELETE on memwell.postings" in status.stderr
    shared().execute(f'REVOKE SELECT ON memwell.migrations FROM "{role}"')
    shared().execute(f'REVOKE USAGE ON SEQUENCE memwell.ids FROM "{role}"')
    assert "SELECT on memwell.migrations, " in doctor(url, workspace)["rights"]["detail"]
    shared().execute(f'REVOKE USAGE ON SCHEMA memwell FROM "{role}"')
    assert "USAGE on memwell," in doctor(url, workspace)["rights"]["detail"]


def test_pending_migrations_are_reported_to_a_role_that_cannot_run_them(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, role = new_database(), new_role()
    with psycopg.connect(url, autocommit=True) as connection:
        with monkeypatch.context() as before:
            before.setattr(migrating, "MIGRATIONS", MIGRATIONS[:-1])
            migrating.migrate(connection)
        for what in ("USAGE ON SCHEMA memwell", "SELECT ON memwell.migrations"):
            connection.execute(f'GRANT {what} TO "{role}"')
    checks = doctor(as_role(url, role), workspace)
    assert {"schema", "rights"} <= {*failed(checks)}
    assert checks["schema"]["detail"].startswith(f"{len(MIGRATIONS) - 1} of")
    assert f'as "{USER}", who owns the tables' in checks["schema"]["remedy"]
    assert failed(doctor(url, workspace)) == ["role"]  # the owner's command takes them


def test_an_unreachable_server_is_reported_once_and_the_other_checks_run(
    workspace: Path,
) -> None:
    url = "postgresql://memwell:hunter2@127.0.0.1:1/none"
    checks = doctor(url, workspace)
    assert failed(checks) == ["store"]
    assert "127.0.0.1:1/none" in checks["store"]["detail"]
    assert "store.url" in checks["store"]["remedy"]
    assert {"configuration", "home"} <= {*checks}
    assert "hunter2" not in json.dumps(checks)
    status = run("--store", url, "status", cwd=workspace)
    assert status.returncode != 0
    assert "cannot be reached" in status.stderr
