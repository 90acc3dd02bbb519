"""The service has the server collect statistics of what it loaded; a bound role does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.store.postgres.session import Session
from memwell.store.postgres.statistics import analyse_grown
from tests.conftest import EXAMPLES
from tests.support.cluster import Cluster, cluster
from tests.support.postgres import new_role, server

pytestmark = pytest.mark.server


def estimate(made: Cluster, table: str) -> int:
    """How many rows the planner believes a table has; less than 0 if it has no statistics."""
    ((rows,),) = made.execute(
        "SELECT max(reltuples)::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        rf" WHERE n.nspname = 'memwell' AND c.relname ~ '^{table}_\d$' AND c.relkind = 'r'"
    )
    return int(rows)


def count(made: Cluster, table: str) -> int:
    ((rows,),) = made.execute(f"SELECT count(*) FROM memwell.{table}")
    return int(rows)


@pytest.mark.parametrize("tenant", [None, "acme"], ids=["service", "tenant"])
def test_a_load_ends_with_statistics_if_the_role_may(tmp_path: Path, tenant: str | None) -> None:
    with cluster(autovacuum="off") as made:
        url = made.url(user=new_role(tenant, on=made))
        settings: dict[str, Any] = {
            "store.url": url,
            "store.tenant": "acme",
            "embedding.chain": ("test",),
        }
        with Memory(tmp_path, settings=settings) as memory:
            memory.index(EXAMPLES)
            for table in ("posting_lists", "chunks", "vectors"):
                assert estimate(made, table) == (-1 if tenant else count(made, table)), table
            if not tenant:
                with server(url, "acme") as opened, opened.writing() as session:
                    assert analysed(session) == 0  # nothing has doubled since


def analysed(session: Session) -> int:
    """How many tables this analyses."""
    locks = (
        "SELECT count(*) FROM pg_locks WHERE mode = 'ShareUpdateExclusiveLock' AND %(tenant)s != ''"
    )
    analyse_grown(session)
    return int(session.value(locks))
