"""A real PostgreSQL with pgvector, from a wheel: one server per session, one tenant per test."""

from __future__ import annotations

import atexit
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache

import psycopg

from memwell.store.postgres.build_indexes import BuildReport, build
from memwell.store.postgres.migrate import migrate
from memwell.store.postgres.roles import role
from memwell.store.postgres.server import Server
from tests.support.cluster import USER, Cluster, cluster

__all__ = ["USER", "Cluster", "cluster"]


@cache
def shared() -> Cluster:
    """The server of this session: started on first use, stopped at the end."""
    lasting = ExitStack()
    made = lasting.enter_context(cluster())
    atexit.register(lasting.close)
    return made


@cache
def app_url() -> str:
    """The address for a role with the rights that memwell needs, restricted by row-level security."""
    return shared().url(user=new_role())


def new_role(
    tenant: str | None = None, scopes: Sequence[str] = (), on: Cluster | None = None
) -> str:
    """A role as `memwell store roles` makes them."""
    on = on or shared()
    with psycopg.connect(on.url(), autocommit=True) as connection:
        migrate(connection)
    name = f"role-{secrets.token_hex(6)}"
    for statement in role(name, tenant, scopes):
        on.execute(statement)
    return name


def new_tenant() -> str:
    """A tenant that no other test uses."""
    return f"tenant-{secrets.token_hex(6)}"


def new_database() -> str:
    """The address of an empty database on the shared server."""
    name = f"test_{secrets.token_hex(6)}"
    shared().execute(f"CREATE DATABASE {name}")
    return shared().url(name)


def build_agent_indexes(tenant: str, url: str = "") -> BuildReport:
    """Build the indexes of all agents of a tenant, as the owner of the tables."""
    if not url:
        shared().execute("CREATE EXTENSION IF NOT EXISTS pg_textsearch SCHEMA public")
    with server(url or shared().url(), tenant) as owner:
        return build(owner, None, 1, lambda _: None)


@contextmanager
def server(url: str, tenant: str) -> Iterator[Server]:
    """The connections of one tenant."""
    made = Server(url, tenant)
    try:
        yield made
    finally:
        made.close()
