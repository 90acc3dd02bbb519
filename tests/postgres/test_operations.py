"""What operators do: drop a tenant, find slow statements, end those that take too long."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.errors import IndexDatabaseError, StatementTimeoutError
from memwell.memory.tenants import as_tenant, home_of
from memwell.store.postgres import tenants
from memwell.store.postgres.schema import TABLES
from memwell.store.postgres.tenants import drop_tenant
from memwell.surfaces.http.tokens import Tokens
from tests.postgres.test_security import fill
from tests.support.cli import run
from tests.support.postgres import (
    app_url,
    build_agent_indexes,
    new_role,
    new_tenant,
    server,
    shared,
)

pytestmark = pytest.mark.server


def count_rows(tenant: str) -> dict[str, int]:
    asked = "SELECT count(*) FROM memwell.{} WHERE tenant = '{}'"
    return {table: shared().execute(asked.format(table, tenant))[0][0] for table in TABLES}


def test_a_dropped_tenant_leaves_nothing_and_others_keep_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, kept = new_tenant(), new_tenant()
    for tenant in (gone, kept):
        (tmp_path / tenant).mkdir()
        fill(app_url(), tenant, tmp_path / tenant)
        build_agent_indexes(tenant)
    role = new_role(gone)
    before = count_rows(kept)
    monkeypatch.setattr(tenants, "_BATCH", 3)  # so that it takes several batches
    with server(shared().url(), gone) as owner:
        report = drop_tenant(owner)
        again = drop_tenant(owner)
    assert sum(count_rows(gone).values()) == sum(again.rows.values()) == 0
    assert report.rows["facts"] == 3
    assert report.roles == [role]
    assert len(report.indexes) == 2
    assert "log (WAL) and its backups" in report.remains
    assert count_rows(kept) == before
    assert sum(before.values()) > 20


def test_the_command_revokes_tokens_and_deletes_files_of_the_tenant(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, kept = new_tenant(), new_tenant()
    monkeypatch.setenv("MEMWELL_STORE_URL", shared().url())
    tokens = Tokens(home)
    for tenant in (gone, kept):
        tokens.add(f"of {tenant}", tenant=tenant)
        home_of(home, tenant).mkdir(parents=True)
    done = run("store", "drop-tenant", gone, "--yes", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert f"revoked: of {gone}" in done.stdout
    assert [token.tenant for token in tokens.list_stored()] == [kept]
    assert [home_of(home, tenant).exists() for tenant in (gone, kept)] == [False, True]
    asked = run("store", "drop-tenant", kept, cwd=workspace, stdin="n\n")
    assert (asked.returncode != 0, home_of(home, kept).exists()) == (True, True)


def test_only_the_owner_drops_a_tenant() -> None:
    with (
        server(app_url(), new_tenant()) as other,
        pytest.raises(IndexDatabaseError, match="who owns the tables, can drop a tenant"),
    ):
        drop_tenant(other)


def test_slow_statements_are_logged_with_their_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {
        "store.url": app_url(),
        "store.tenant": new_tenant(),
        "embedding.chain": (),
        "store.slow_ms": 50,
    }
    with Memory(tmp_path, settings=settings) as memory, caplog.at_level(logging.WARNING):
        memory.remember("The boat is blue.")
        server = memory._fact_store._server  # type: ignore[attr-defined]
        with server.reading() as session:
            session.rows("SELECT pg_sleep(.06) WHERE %(tenant)s != ''")
    slow = [record.getMessage() for record in caplog.records if "slow" in record.getMessage()]
    name = "test_operations.test_slow_statements_are_logged_with_their_step took "
    assert [message for message in slow if name in message]
    assert "boat" not in " ".join(slow)


# -- time-outs of statements -----------------------------------------------------------------------


def test_a_statement_of_a_tenant_ends_after_the_seconds_of_the_operator(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "store.url": app_url(),
        "store.tenant": new_tenant(),
        "tenants.statement_seconds": 0.05,
    }
    with Memory(tmp_path, settings=settings) as memory:
        server = as_tenant(memory, new_tenant())._index.server  # type: ignore[attr-defined]
        with pytest.raises(StatementTimeoutError, match="set more seconds"), server.reading() as s:
            s.rows("SELECT pg_sleep(60) WHERE %(tenant)s != ''")
        with server.writing() as session:  # the connection can be used again
            assert session.value("SELECT %(tenant)s") == server.tenant
            assert (
                session.value("SELECT current_setting('statement_timeout'), %(tenant)s") == "50ms"
            )
        assert server.rows("", "SELECT current_setting('statement_timeout'), %(tenant)s")[0][0] == (
            "50ms"
        )


def test_a_statement_has_a_minute_by_default(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store.url": app_url(), "store.tenant": new_tenant()}
    with Memory(tmp_path, settings=settings) as memory:
        server = memory._index.server  # type: ignore[attr-defined]
        asked = server.rows("", "SELECT current_setting('statement_timeout'), %(tenant)s")
    assert asked[0][0] == "1min"
