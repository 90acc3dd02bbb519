"""A connection inside a transaction, for one tenant and agent: every statement names them."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import __file__ as contextlib_file
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql

from memwell.store.postgres.migrate import Connection
from memwell.store.postgres.sql import delete_by_function, of_agent

_LOG = logging.getLogger(__name__)


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
    deletes_by_function: bool = False
    """Whether the role is bound to a tenant, and may not delete itself."""
    slow_ms: int = 0
    """Statements that take longer are logged; 0 is none."""

    def rows(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        if self.results is None:
            return self._rows(statement, values)
        key = _result_key(statement, values)
        if key not in self.results:
            self.results[key] = self._rows(statement, values)
        return self.results[key]

    def rows_in_binary(self, statement: str, **values: Any) -> list[Any]:
        """Return the rows of a statement as the server has them: large arrays are half as long."""
        with self._timed(), self.connection.cursor(binary=True) as cursor:
            return cursor.execute(statement, self._named(statement, values)).fetchall()

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
        if self.deletes_by_function:
            statement = delete_by_function(statement)
        with self._timed():
            return self.connection.execute(statement, self._named(statement, values))

    def lock_index(self) -> None:
        """Keep other processes from writing to the agent's index until the transaction ends."""
        self.run(f"SELECT 1 FROM indexes i WHERE {of_agent('i')} FOR NO KEY UPDATE")

    def rows_inlined(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement with its values written into it, and return its rows.

        Only then does the planner see that it can use the index of an agent (see agent_indexes.py).
        """
        cursor = psycopg.ClientCursor(self.connection)
        with self._timed():
            cursor.execute(statement, self._named(statement, values))
        return cursor.fetchall() if cursor.description else []

    def rows_at_once(self, begin: str, statement: str, **values: Any) -> list[Any]:
        """Run a transaction of one statement in one round trip, and return its rows."""
        if self.deletes_by_function:
            statement = delete_by_function(statement)
        found = self._run_at_once(f"{_escape(begin)}; {statement}; COMMIT", values)
        return [row for rows in found for row in rows]

    def begin(self, begin: str, first: Sequence[str]) -> None:
        """Begin a transaction, and read statements without values in the same round trip.

        `rows` finds their results when it is asked for them.
        """
        if not first:
            self.connection.execute(begin)
            return
        found = self._run_at_once("; ".join((_escape(begin), *first)), {})
        assert self.results is not None
        self.results.update(zip(map(_result_key, first), found, strict=True))

    def _run_at_once(self, statements: str, values: dict[str, Any]) -> list[list[Any]]:
        """Run statements in one round trip; return the rows of each that returns any."""
        cursor = psycopg.ClientCursor(self.connection)
        with self._timed():
            cursor.execute(statements, self._named(statements, values))
        return [result.fetchall() for result in cursor.results() if result.description]

    def stream(self, statement: str, batch: int) -> Iterator[list[Any]]:
        """Yield the rows of a statement in batches; the server finishes it before the first one."""
        with self.connection.cursor("streamed", withhold=True) as cursor:
            cursor.execute(statement, self._named(statement, {}))
            while rows := cursor.fetchmany(batch):
                yield rows

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Log a statement that takes too long, with the function that sent it."""
        started = time.perf_counter()
        yield
        taken = (time.perf_counter() - started) * 1000
        if self.slow_ms and taken >= self.slow_ms:
            _LOG.warning("slow statement: %s took %.0f ms", _find_step(), taken)

    def _named(self, statement: str, values: dict[str, Any]) -> dict[str, Any]:
        assert "%(tenant)s" in statement, statement
        known = {"tenant": self.tenant, "agent": self.agent}
        return known | {name: to_storable(value) for name, value in values.items()}


def _result_key(statement: str, values: Mapping[str, Any] = MappingProxyType({})) -> str:
    return f"{statement} {dict(values)}"


def _escape(statement: str) -> str:
    """Return a statement without values as a part of one that has some."""
    return statement.replace("%", "%%")


def _find_step() -> str:
    """Return the module and the function outside of this module that sent a statement."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename in (__file__, contextlib_file):
        frame = frame.f_back
    return f"{frame.f_globals['__name__'].rpartition('.')[2]}.{frame.f_code.co_name}"


def literal(value: Any) -> str:
    """Return a value as it is written in SQL."""
    return sql.Literal(to_storable(value)).as_string(None)


def to_storable(value: Any) -> Any:
    """Return a value without NUL and invalid Unicode, which PostgreSQL refuses.

    Numbers become the text of an array: psycopg would look at each to find the type of all.
    """
    if isinstance(value, str):
        valid = value if value.isascii() else value.encode("utf-8", "replace").decode()
        return valid.replace("\0", "\ufffd")
    if not isinstance(value, list):
        return value
    if value and all(type(item) is int for item in value):
        return f"{{{','.join(map(str, value))}}}"
    return [to_storable(item) for item in value]
