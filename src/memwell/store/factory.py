"""Opens the stores of a memory: files in the home folder, or the server in the settings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.errors import ConfigError
from memwell.store.contract.values import CONVENTIONAL, Workspace
from memwell.store.postgres.options import DEFAULTS, ServerOptions
from memwell.store.sqlite import facts, index, workspace_list

if TYPE_CHECKING:
    from memwell.store.contract.facts import FactStore, WorkspaceList
    from memwell.store.contract.index import Index
    from memwell.store.postgres.server import Server
    from memwell.store.sqlite.auto_backup import AutoBackups
    from memwell.store.vectors.backend import BackendSetting

SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one agent's memory."""

    index: Index
    registry: WorkspaceList
    facts: FactStore


def open_sqlite(
    home: Path,
    agent: str,
    backend: BackendSetting | None = None,
    backups: AutoBackups | None = None,
) -> Stores:
    """Return the stores in the files of a home folder."""
    folder = home / "agents" / agent
    notes = index.SqliteIndex(folder / "index.db", backend)
    return Stores(
        notes,
        workspace_list.WorkspaceFile(folder, lambda: _indexed_workspaces(notes)),
        facts.SqliteFactStore(home / "memory.db", backups),
    )


def _indexed_workspaces(index: Index) -> list[Workspace]:
    """Return the workspaces that an index knows, for a list of workspaces that is damaged.

    The index does not know which notes were asked for. A folder in which only conventional notes
    are indexed stays one; of any other all notes are.
    """
    with index.reading() as reader:
        found = []
        for workspace_id, root, _, _ in reader.notes.workspaces():
            paths = reader.notes.indexed_files(workspace_id)
            conventional = all(path.split("/")[0] in CONVENTIONAL for path in paths)
            found.append(Workspace(root, conventional, () if conventional else (".",)))
        return found


def open_postgres(
    url: str, tenant: str, home: Path, agent: str, options: ServerOptions = DEFAULTS
) -> Stores:
    """Return the stores of a tenant on a PostgreSQL server."""
    return open_tenant(get_server(url, tenant, options), home, agent)


def open_tenant(server: Server, home: Path, agent: str) -> Stores:
    """Return the stores of the tenant of a server."""
    from memwell.store.postgres import facts as server_facts
    from memwell.store.postgres import index as server_index
    from memwell.store.postgres import workspace_list as server_workspace_list

    return Stores(
        server_index.PostgresIndex(server, agent),
        server_workspace_list.WorkspaceTable(server, agent),
        server_facts.PostgresFactStore(server, home),
    )


def open_other_tenant(index: Index, tenant: str, home: Path, agent: str) -> Stores:
    """Return the stores of another tenant on the server of an index; they share connections."""
    if index.shared:
        from memwell.store.postgres.index import PostgresIndex

        if isinstance(index, PostgresIndex):
            return open_tenant(index.server.for_tenant(tenant), home, agent)
    raise ConfigError(
        f"The memory is in files, which have no tenants such as {tenant}",
        "Set store.url to a PostgreSQL server",
    )


def get_server(url: str, tenant: str, options: ServerOptions = DEFAULTS) -> Server:
    """Return a PostgreSQL server for one tenant; nothing connects to it yet."""
    if not url.startswith(SCHEMES):
        raise ConfigError(
            "store.url is not the address of a PostgreSQL server",
            "Write it like postgresql://USER@HOST:5432/DATABASE, or leave it empty",
        )
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise ConfigError(
            "store.url names a PostgreSQL server, but the driver is not installed",
            "pip install 'memwell[postgres]'",
        )
    from memwell.store.postgres.server import Server

    return Server(url, tenant, options)
