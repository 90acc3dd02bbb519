"""Where a whole memory is stored: the files of a home folder, or the rows of a tenant.

Only for the owner, who can read everything anyway: nothing else lists the scopes of all users,
agents and sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memwell.errors import ConfigError, HomeError, NotFoundError
from memwell.model import Viewer
from memwell.store.factory import SCHEMES, Stores, get_server, open_postgres, open_sqlite
from memwell.store.sqlite.facts import SqliteFactStore

if TYPE_CHECKING:
    from memwell.store.contract.facts import FactStore
    from memwell.store.vectors.backend import BackendSetting

Scopes = frozenset[tuple[str, str]]
_ANY_AGENT = "main"


@dataclass(frozen=True, slots=True)
class AllScopes(Viewer):
    """A viewer who sees the given scopes, of any user, agent or session."""

    every: tuple[tuple[str, str], ...] = ()

    @property
    def scopes(self) -> tuple[tuple[str, str], ...]:
        """The visible scopes, each with its target."""
        return self.every


class Location(Protocol):
    """Where a whole memory is stored."""

    name: str
    """The folder or server, as messages name it; never with a password."""
    facts: FactStore

    def scopes(self) -> Scopes:
        """Return every scope that has a fact, with its target."""

    def agents(self) -> list[str]:
        """Return the agents that have an index or a list of workspaces."""

    def stores(self, agent: str) -> Stores:
        """Return the stores of an agent."""


class SqliteLocation(Location):
    """The files of a home folder."""

    def __init__(self, folder: Path, backend: BackendSetting) -> None:
        self.name = str(folder)
        self._folder = folder
        self._backend = backend
        self.facts = SqliteFactStore(folder / "memory.db")

    def scopes(self) -> Scopes:
        """Return every scope that has a fact, with its target."""
        if not self.facts.exists:
            return frozenset()
        with self.facts.file.reading() as connection:
            rows = connection.execute("SELECT DISTINCT scope, target FROM fact_rows")
            return frozenset((str(scope), str(target)) for scope, target in rows)

    def agents(self) -> list[str]:
        """Return the agents that have a folder."""
        return sorted(folder.name for folder in self._folder.glob("agents/*/"))

    def stores(self, agent: str) -> Stores:
        """Return the stores of an agent."""
        return open_sqlite(self._folder, agent, self._backend)


class PostgresLocation(Location):
    """The rows of a tenant on a PostgreSQL server."""

    def __init__(self, url: str, tenant: str, home: Path) -> None:
        """The home has the files of agents that are not on the server."""
        self._url, self._tenant, self._home = url, tenant, home
        self._server = get_server(url, tenant)
        self.facts = self.stores(_ANY_AGENT).facts
        self.name = self._server.location

    def scopes(self) -> Scopes:
        """Return every scope that has a fact, with its target."""
        statement = "SELECT DISTINCT scope, target FROM facts WHERE tenant = %(tenant)s"
        return frozenset(self._rows(statement))

    def agents(self) -> list[str]:
        """Return the agents that have an index or a list of workspaces."""
        return sorted(
            agent
            for (agent,) in self._rows(
                "SELECT agent FROM indexes WHERE tenant = %(tenant)s"
                " UNION SELECT agent FROM workspace_list WHERE tenant = %(tenant)s"
            )
        )

    def stores(self, agent: str) -> Stores:
        """Return the stores of an agent."""
        return open_postgres(self._url, self._tenant, self._home, agent)

    def _rows(self, statement: str) -> list[Any]:
        def once() -> list[Any]:
            with self._server.reading() as session:
                return session.rows(statement)

        try:
            return self._server.retrying(once)
        finally:
            self._server.close()


def open_location(
    address: str, tenant: str, home: Path, backend: BackendSetting, *, is_there: bool
) -> Location:
    """Return the memory in a folder or at an address; with `is_there` it must exist already."""
    if address.startswith(SCHEMES):
        return PostgresLocation(address, tenant, home)
    if "://" in address:
        scheme = address.split("://")[0]
        raise ConfigError(
            f"{scheme}:// is not the address of a memory",
            "Name a folder, or an address like postgresql://USER@HOST:5432/DATABASE",
        )
    folder = Path(address).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise HomeError(f"{folder} is a file", "Name a home folder")
    if is_there and not any((folder / name).exists() for name in ("memory.db", "agents")):
        raise NotFoundError(
            f"There is no memory in {folder}", "Name the home folder: it contains memory.db"
        )
    return SqliteLocation(folder, backend)
