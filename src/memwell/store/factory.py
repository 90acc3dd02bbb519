"""Which store a memory is kept in: files of the home, or the server that the settings name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.errors import ConfigError
from memwell.store.sqlite import facts, index
from memwell.store.sqlite import workspace_list as registry

if TYPE_CHECKING:
    from memwell.store.contract.facts import FactStore, WorkspaceList
    from memwell.store.contract.index import Index
    from memwell.store.postgres.server import Server
    from memwell.store.vectors.backend import BackendSetting

SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Stores:
    """What a memory is kept in."""

    index: Index
    registry: WorkspaceList
    facts: FactStore


def open_sqlite(home: Path, agent: str, backend: BackendSetting | None = None) -> Stores:
    """Return the stores in the files of a home."""
    folder = home / "agents" / agent
    return Stores(
        index.SqliteIndex(folder / "index.db", backend),
        registry.WorkspaceFile(folder),
        facts.SqliteFactStore(home / "memory.db"),
    )


def open_postgres(url: str, tenant: str, home: Path, agent: str) -> Stores:
    """Return the stores of a tenant on a PostgreSQL server."""
    server = get_server(url, tenant)
    from memwell.store.postgres import facts as server_facts
    from memwell.store.postgres import index as server_index
    from memwell.store.postgres import workspace_list as beside

    return Stores(
        server_index.PostgresIndex(server, agent),
        beside.WorkspaceTable(server, agent),
        server_facts.PostgresFactStore(server, home),
    )


def get_server(url: str, tenant: str) -> Server:
    """Return a PostgreSQL server as a tenant uses it; it is not asked yet."""
    if not url.startswith(SCHEMES):
        raise ConfigError(
            "store.url is not an address of PostgreSQL",
            "Write it like postgresql://USER@HOST:5432/DATABASE, or leave it empty",
        )
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise ConfigError(
            "store.url names PostgreSQL, and its driver is not installed",
            "pip install 'memwell[postgres]'",
        )
    from memwell.store.postgres.server import Server

    return Server(url, tenant)
