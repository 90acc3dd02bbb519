"""One PostgreSQL server: pooled connections, timeouts and retries.

A transaction that the server ended before it confirmed the commit leaves nothing behind and can run
again (`Server.retrying`). If the connection broke during the commit, memwell asks the server
whether the transaction was committed. Only this module turns errors of PostgreSQL into errors with
a remedy.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from memwell.errors import (
    ConfigError,
    DiskFullError,
    IndexDatabaseError,
    ReadOnlyError,
    TransactionEndedError,
)
from memwell.store.contract.index import WAIT_MS
from memwell.store.postgres.migrate import STATEMENT_MS, Connection, configure, migrate
from memwell.store.postgres.schema import ALL_SCOPES
from memwell.store.postgres.sql import of_agent

T = TypeVar("T")

CONNECT_SECONDS = 5
MOST_CONNECTIONS = 16
PATIENCE_SECONDS = 60.0
"""How long to retry a server that answered before: a restart takes some seconds."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_LONGEST_TENANT = 200
_MARK = """
    INSERT INTO commits (tenant) SELECT %s WHERE pg_current_xact_id_if_assigned() IS NOT NULL
    RETURNING mark::text, pg_current_xact_id()::text
"""
_IS_OVER = """
    SELECT CASE WHEN %(number)s::xid8 < pg_snapshot_xmax(pg_current_snapshot())
        THEN pg_xact_status(%(number)s::xid8) IS DISTINCT FROM 'in progress' ELSE true END
"""
_CLEANUP_SHARE = 0.01
"""The share of transactions that also delete old marks."""
_DELETE_OLD_MARKS = """
    DELETE FROM commits WHERE (tenant, mark) IN (
        SELECT tenant, mark FROM commits WHERE tenant = %s AND at < now() - interval '1 hour'
        LIMIT 10000 FOR UPDATE SKIP LOCKED
    )
"""

_LOG = logging.getLogger(__name__)
# The errors that are raised say what went wrong; the pool must not print it.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class Server:
    """A database on a server, as one tenant uses it."""

    def __init__(self, url: str, tenant: str) -> None:
        try:
            parts: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **conninfo_to_dict(url)}
        except psycopg.ProgrammingError:  # its message has the address, with the password
            raise ConfigError(
                "store.url is not an address of PostgreSQL",
                "Write it like postgresql://USER@HOST:5432/DATABASE",
            ) from None
        self._parts = parts
        if not tenant or "\0" in tenant or len(tenant) > _LONGEST_TENANT:
            raise ConfigError(
                f"store.tenant = {tenant!r} is not a valid name for a tenant",
                f"Use 1 to {_LONGEST_TENANT} letters or digits",
            )
        self.tenant = tenant
        self._opening = threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None
        self._was_there = False

    @property
    def location(self) -> str:
        """The address, without the password."""
        host, port = self._parts.get("host", "localhost"), self._parts.get("port", 5432)
        return f"PostgreSQL at {host}:{port}/{self._parts.get('dbname', '')}, tenant {self.tenant}"

    @contextmanager
    def reading(self, agent: str = "", scopes: Sequence[str] = ALL_SCOPES) -> Iterator[Session]:
        """Yield one unchanging state of the database, with the facts of the given scopes."""
        begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_scope_setting(scopes)}"
        with self._open_transaction(begin) as connection:
            yield Session(connection, self.tenant, agent, {})
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(
        self, agent: str = "", wait_ms: int = WAIT_MS, scopes: Sequence[str] = ALL_SCOPES
    ) -> Iterator[Session]:
        """Yield a transaction, which waits for a lock no longer than `wait_ms`."""
        begin = f"BEGIN; SET LOCAL lock_timeout = {wait_ms:d}; {_scope_setting(scopes)}"
        with self._open_transaction(begin) as connection:
            yield Session(connection, self.tenant, agent)
            self._commit(connection)

    @contextmanager
    def unmigrated(self) -> Iterator[Session]:
        """Yield a connection to the database as it is, without taking the steps that it lacks."""
        with self._translated_errors(), self._connect() as connection:
            yield Session(connection, self.tenant, "")

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation; retry it for a while if the server interrupts it."""
        for is_last in _backoff():
            try:
                return operation()
            except TransactionEndedError as error:
                if is_last or not self._was_there:
                    raise
                _LOG.info("retrying: %s", error.what)
        raise AssertionError("the last attempt either returns or raises")

    def rows(self, agent: str, statement: str, **values: Any) -> list[Any]:
        """Run a statement outside of a transaction and return its rows; retry if interrupted.

        The statement sees no row that shows a fact. It must be safe to run twice.
        """

        def attempt() -> list[Any]:
            with self._open_transaction() as connection:
                return Session(connection, self.tenant, agent).rows(statement, **values)

        return self.retrying(attempt)

    @contextmanager
    def maintenance_connection(self, lock_ms: int = 0) -> Iterator[Connection]:
        """Yield a connection outside of any transaction, without a timeout for statements.

        It waits for a lock no longer than `lock_ms`; 0 is as long as it takes.
        """
        self._open_pool()
        with self._translated_errors(), self._connect() as connection:
            self._configure(connection)
            connection.execute(f"SET statement_timeout TO 0; SET lock_timeout TO {lock_ms:d}")
            connection.execute("SELECT set_config('memwell.scopes', '{*}', false)")
            yield connection

    def close(self) -> None:
        """Close every connection; the next use opens new ones."""
        with self._opening:
            if self._pool:
                self._pool.close()
            self._pool = None

    # -- connections and commits -------------------------------------------------------------------

    @contextmanager
    def _open_transaction(self, begin: str = "") -> Iterator[Connection]:
        """Yield a connection, in a transaction if `begin` starts one; retry to connect."""
        with self._translated_errors():
            pool, connection = self.retrying(lambda: self._begin(begin))
            try:
                yield connection
            except BaseException:
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
            finally:
                _return_connection(pool, connection)

    def _begin(self, begin: str) -> tuple[ConnectionPool[Connection], Connection]:
        with self._translated_errors():
            pool = self._open_pool()
            connection = pool.getconn(CONNECT_SECONDS)
            try:
                if begin:
                    connection.execute(begin)
            except BaseException:
                _return_connection(pool, connection)
                raise
            return pool, connection

    def _open_pool(self) -> ConnectionPool[Connection]:
        with self._opening:
            if self._pool is None:
                with self._connect() as connection:  # its error says more than the pool's
                    migrate(connection)
                pool = ConnectionPool(
                    make_conninfo(**self._parts),
                    kwargs={"autocommit": True},
                    min_size=0,
                    max_size=MOST_CONNECTIONS,
                    configure=self._configure,
                    reconnect_timeout=CONNECT_SECONDS,
                    open=False,
                )
                pool.open()
                self._pool, self._was_there = pool, True
            return self._pool

    def _configure(self, connection: Connection) -> None:
        configure(connection)
        connection.execute("SELECT set_config('memwell.tenant', %s, false)", (self.tenant,))

    def _connect(self) -> Connection:
        return psycopg.connect(make_conninfo(**self._parts), autocommit=True)

    def _commit(self, connection: Connection) -> None:
        """Commit; if the answer is lost, find out whether the transaction was committed."""
        mark = self._mark(connection)
        try:
            connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            if mark is None or not connection.broken:
                raise
            if not self._was_committed(*mark):
                raise TransactionEndedError(f"{self.location} ended a transaction") from error

    def _mark(self, connection: Connection) -> tuple[str, str] | None:
        """Leave a mark in a transaction that wrote; return it and the transaction's number."""
        if random.random() < _CLEANUP_SHARE:
            connection.execute(_DELETE_OLD_MARKS, (self.tenant,))
        mark: tuple[str, str] | None = connection.execute(_MARK, (self.tenant,)).fetchone()
        return mark

    def _was_committed(self, mark: str, transaction: str) -> bool:
        """Whether a transaction left its mark; wait until it has ended.

        Its number only tells that it has ended: if a crash undid the transaction, another one may
        get the same number.
        """
        for _ in _backoff():
            with suppress(psycopg.OperationalError), self._connect() as connection:
                self._configure(connection)
                if connection.execute(_IS_OVER, {"number": transaction}).fetchone() == (True,):
                    statement = "SELECT 1 FROM commits WHERE tenant = %s AND mark = %s::uuid"
                    return bool(connection.execute(statement, (self.tenant, mark)).fetchone())
        raise IndexDatabaseError(
            f"The connection to {self.location} broke during a commit, and the server has not"
            " answered since: it may have stored the change or not",
            "When the server is back, check whether the change is there",
        )

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Turn errors of PostgreSQL into errors that name the server and the remedy."""
        try:
            yield
        except (errors.SerializationFailure, errors.DeadlockDetected) as error:
            raise TransactionEndedError(
                f"{self.location} ended a transaction ({_server_message(error)})"
            ) from error
        except errors.LockNotAvailable as error:
            raise IndexDatabaseError(
                f"Another process is writing to {self.location}", "Try again"
            ) from error
        except errors.QueryCanceled as error:
            raise IndexDatabaseError(
                f"{self.location} took longer than {STATEMENT_MS / 1000:g} seconds",
                "Check the load of the server, and try again",
            ) from error
        except errors.DiskFull as error:
            raise DiskFullError(
                f"The disk of {self.location} is full", "Free some disk space"
            ) from error
        except errors.ReadOnlySqlTransaction as error:
            raise ReadOnlyError(
                f"{self.location} can only be read",
                "To write, set store.url to the server that it replicates",
            ) from error
        except errors.InsufficientPrivilege as error:
            raise IndexDatabaseError(
                f"{self.location} does not allow that ({_server_message(error)})",
                "Run it as the owner of its tables. `memwell doctor` shows which rights are"
                " missing, and `memwell store roles` prints the SQL that grants them",
            ) from error
        except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
            raise IndexDatabaseError(
                f"{self.location} lacks an extension ({_server_message(error)})",
                "Install pgvector on the server; `memwell doctor` shows what is missing",
            ) from error
        except errors.ProgramLimitExceeded:
            raise  # a value is too large; a later attempt or another server would not help
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise TransactionEndedError(
                f"{self.location} cannot be reached ({_server_message(error)})",
                "Check that the server is running, and check store.url",
            ) from error


def _backoff() -> Iterator[bool]:
    """Yield for each attempt whether it is the last, with a longer pause after each."""
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, _FIRST_PAUSE
    while time.monotonic() < deadline:
        yield False
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, _LONGEST_PAUSE)
    yield True


def _return_connection(pool: ConnectionPool[Connection], connection: Connection) -> None:
    broken = connection.broken
    pool.putconn(connection)
    if broken:  # the server was probably restarted, which broke all other connections, too
        pool.check()


@dataclass(frozen=True, slots=True)
class Session:
    """A connection inside a transaction, for one tenant and agent: every statement names them."""

    connection: Connection
    tenant: str
    agent: str
    results: dict[str, list[Any]] | None = None
    """The results so far, in a state that does not change: a round trip may be slow."""

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

    def stream(self, statement: str, batch: int) -> Iterator[list[Any]]:
        """Yield the rows of a statement in batches; the server finishes it before the first one."""
        with self.connection.cursor("streamed", withhold=True) as cursor:
            cursor.execute(statement, self._named(statement, {}))
            while rows := cursor.fetchmany(batch):
                yield rows

    def _named(self, statement: str, values: dict[str, Any]) -> dict[str, Any]:
        assert "%(tenant)s" in statement, statement
        known = {"tenant": self.tenant, "agent": self.agent}
        return known | {name: _to_storable(value) for name, value in values.items()}


def _scope_setting(scopes: Sequence[str]) -> str:
    """Return the statement that sets whose facts a transaction may see."""
    literal = sql.Literal(_to_storable([*scopes])).as_string(None)
    return f"SET LOCAL memwell.scopes = {literal}"


def _to_storable(value: Any) -> Any:
    """Return a value without NUL and invalid Unicode, which PostgreSQL refuses."""
    if isinstance(value, str):
        valid = value if value.isascii() else value.encode("utf-8", "replace").decode()
        return valid.replace("\0", "\ufffd")
    return [_to_storable(item) for item in value] if isinstance(value, list) else value


def _server_message(error: Exception) -> str:
    return " ".join(str(error).split())
