"""A connection inside a transaction, for one tenant and agent: every statement names them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from memwell.store.postgres.migrate import Connection
from memwell.store.postgres.sql import of_agent


@dataclass(frozen=True, slots=True)
class Session:
    """A connection inside a transaction, for one tenant and agent: every statement names them."""

    connection: Connection
    tenant: str
    agent: str
    results: dict[str, list[Any]] | None = None
    """The results so far, in a state that does not change: a round trip may be slow."""
    is_bound: bool = False
    """Whether the role may change its own facts only, by functions (see migrations.sql)."""

    def rows(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        if self.results is None:
            return self._rows(statement, values)
        key = f"{statement} {values}"
        if key not in self.results:
            self.results[key] = self._rows(statement, values)
        return self.results[key]

    def row(self, statement: str, **values: Any) -> Any:
        """Return the first row of a statement, or None."""
        return next(iter(self.rows(statement, **values)), None)

    def _rows(self, statement: str, values: dict[str, Any]) -> list[Any]:
        cursor = self.run(statement, **values)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, **values: Any) -> Any:
        """Return the first column of the first row, or None."""
        row = self.row(statement, **values)
        return row[0] if row else None

    def run(self, statement: str, **values: Any) -> psycopg.Cursor[Any]:
        """Run a statement, which must name the tenant."""
        return self.connection.execute(statement, self._named(statement, values))

    def lock_index(self) -> None:
        """Keep other processes from writing to the agent's index until the transaction ends."""
        self.run(f"SELECT 1 FROM indexes i WHERE {of_agent('i')} FOR NO KEY UPDATE")

    def rows_inlined(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement with its values written into it, and return its rows.

        Only then does the planner see that it can use the index of an agent (see agent_indexes.py).
        """
        cursor = psycopg.ClientCursor(self.connection)
        cursor.execute(statement, self._named(statement, values))
        return cursor.fetchall() if cursor.description else []

    def rows_at_once(self, begin: str, statement: str, **values: Any) -> list[Any]:
        """Run a transaction of one statement in one round trip, and return its rows."""
        cursor = psycopg.ClientCursor(self.connection)
        whole = f"{begin.replace('%', '%%')}; {statement}; COMMIT"
        cursor.execute(whole, self._named(statement, values))
        rows: list[Any] = []
        for result in cursor.results():
            rows += result.fetchall() if result.description else []
        return rows

    def stream(self, statement: str, batch: int) -> Iterator[list[Any]]:
        """Yield the rows of a statement in batches; the server finishes it before the first one."""
        with self.connection.cursor("streamed", withhold=True) as cursor:
            cursor.execute(statement, self._named(statement, {}))
            while rows := cursor.fetchmany(batch):
                yield rows

    def _named(self, statement: str, values: dict[str, Any]) -> dict[str, Any]:
        assert "%(tenant)s" in statement, statement
        known = {"tenant": self.tenant, "agent": self.agent}
        return known | {name: to_storable(value) for name, value in values.items()}


def literal(value: Any) -> str:
    """Return a value as it is written in SQL."""
    return sql.Literal(to_storable(value)).as_string(None)


def to_storable(value: Any) -> Any:
    """Return a value without NUL and invalid Unicode, which PostgreSQL refuses."""
    if isinstance(value, str):
        valid = value if value.isascii() else value.encode("utf-8", "replace").decode()
        return valid.replace("\0", "\ufffd")
    return [to_storable(item) for item in value] if isinstance(value, list) else value
