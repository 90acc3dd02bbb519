"""The connections to one database, which all tenants of a process share.

Nothing is set for a connection: a transaction pooler gives each transaction any connection to the
server. So each transaction sets what it needs, in the same round trip that begins it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from memwell.errors import ConfigError, IndexDatabaseError
from memwell.store.postgres.migrate import Connection, migrate
from memwell.store.postgres.options import AUTO, ON, ServerOptions
from memwell.store.postgres.schema import ALL_SCOPES, SCHEMA
from memwell.store.postgres.session import literal

CONNECT_SECONDS = 5
MOST_CONNECTIONS = 16
_PREPARE_AFTER = 5
"""How often a statement runs before the server prepares it."""
_PROBE = "memwell probe"
_BINDINGS_SINCE = 9
"""The step that made the table of bindings."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The tenant that a role is bound to, and the scopes; None is all of them."""

    role: str
    tenant: str
    scopes: tuple[str, ...] | None

    def limit_scopes(self, scopes: Sequence[str]) -> Sequence[str]:
        """Return those scopes that the role may see."""
        if self.scopes is None:
            return scopes
        if (*scopes,) == ALL_SCOPES:
            return self.scopes
        return [scope for scope in scopes if scope in self.scopes]


# The errors that are raised say what went wrong; the pool must not print it.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class Connections:
    """A pool of connections, opened at the first use."""

    def __init__(self, url: str, options: ServerOptions) -> None:
        try:
            parts: dict[str, Any] = {
                "connect_timeout": CONNECT_SECONDS,
                "application_name": "memwell",
                **conninfo_to_dict(url),
            }
        except psycopg.ProgrammingError:  # its message has the address, with the password
            raise ConfigError(
                "store.url is not an address of PostgreSQL",
                "Write it like postgresql://USER@HOST:5432/DATABASE",
            ) from None
        self._parts = parts
        self.options = options
        self._opening = threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None
        self._is_pooled = False
        self.binding: Binding | None = None
        """The binding of the role, which is known when the connections are open."""
        self.was_there = False
        """Whether the server has answered before."""

    @property
    def address(self) -> str:
        """The address, without the password."""
        host, port = self._parts.get("host", "localhost"), self._parts.get("port", 5432)
        return f"PostgreSQL at {host}:{port}/{self._parts.get('dbname', '')}"

    def connect(self) -> Connection:
        """Return a new connection, outside of the pool."""
        return psycopg.connect(
            make_conninfo(**self._parts), autocommit=True, prepare_threshold=None
        )

    def open(self) -> ConnectionPool[Connection]:
        """Return the pool; before its first use, check the server and migrate the database."""
        with self._opening:
            if self._pool is None:
                with self.connect() as connection:  # its error says more than the pool's
                    self._is_pooled = _has_pooler(connection, self.address)
                    version = migrate(connection)
                    if version >= _BINDINGS_SINCE:
                        self.binding = _read_binding(connection)
                        _delete_old_marks(connection)
                prepare = self.options.prepare
                prepares = prepare == ON or (prepare == AUTO and not self._is_pooled)
                pool = ConnectionPool(
                    make_conninfo(**self._parts),
                    kwargs={
                        "autocommit": True,
                        "prepare_threshold": _PREPARE_AFTER if prepares else None,
                    },
                    min_size=0,
                    max_size=MOST_CONNECTIONS,
                    reconnect_timeout=CONNECT_SECONDS,
                    open=False,
                )
                pool.open()
                self._pool, self.was_there = pool, True
            return self._pool

    @contextmanager
    def direct(self) -> Iterator[Connection]:
        """Yield a connection whose settings last, which a pooler does not give."""
        self.open()
        if self._is_pooled:
            raise IndexDatabaseError(
                f"{self.address} is a pooler, and this needs the server itself",
                "Name the server's own address: memwell --store postgresql://OWNER@HOST/DATABASE …",
            )
        with self.connect() as connection:
            yield connection

    def close(self) -> None:
        """Close every connection; the next use opens new ones."""
        with self._opening:
            if self._pool:
                self._pool.close()
            self._pool = None


def _read_binding(connection: Connection) -> Binding | None:
    """Return the binding of the role that logged in, if it has one."""
    row = connection.execute(
        f"SELECT session_user, tenant, scopes FROM {SCHEMA}.own_binding()"
    ).fetchone()
    return Binding(row[0], row[1], None if row[2] is None else tuple(row[2])) if row else None


def _delete_old_marks(connection: Connection) -> None:
    """Delete the marks of all tenants that are older than an hour (see the policy `old_marks`).

    Most are deleted by the tenant that left them, but a tenant may fall silent.
    """
    with suppress(psycopg.Error), connection.transaction():  # a replica, or a bound role
        connection.execute("SET LOCAL lock_timeout = 100")
        (is_restricted,) = connection.execute(
            "SELECT row_security_active(%s)", (f"{SCHEMA}.commits",)
        ).fetchone() or (False,)
        # With a condition, the policies would ask for rows that the session may also read.
        old = "" if is_restricted else " WHERE at < now() - interval '1 hour'"
        connection.execute(f"DELETE FROM {SCHEMA}.commits{old}")


def _has_pooler(connection: Connection, address: str) -> bool:
    """Whether a pooler stands before the server; refuse one that does not keep transactions."""
    try:
        connection.execute(f"BEGIN; SET LOCAL memwell.tenant = {literal(_PROBE)}")
        row = connection.execute(
            "SELECT pg_backend_pid(), current_setting('memwell.tenant', true)"
        ).fetchone()
        connection.execute("ROLLBACK")
    except errors.OperationalError as error:
        if "statement pooling" not in str(error):
            raise
        row = (0, "")
    if not row or row[1] != _PROBE:
        raise IndexDatabaseError(
            f"{address} does not keep transactions: its pooler is in statement mode",
            "Set pool_mode = transaction (or session) in the pooler",
        )
    # A pooler has process ids of its own, for requests to cancel a statement.
    return bool(row[0] != connection.info.backend_pid)
