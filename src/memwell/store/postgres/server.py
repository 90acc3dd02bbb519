"""One PostgreSQL server: pooled connections, time-outs, and trying again.

A transaction that the server ended before it was acknowledged leaves nothing, and may be run
again: `Server.again` does. Where the connection broke while it was being committed, the server
is asked what became of it. Errors of PostgreSQL become errors with a remedy here and nowhere else.
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

T = TypeVar("T")

CONNECT_SECONDS = 5
MOST_CONNECTIONS = 16
PATIENCE_SECONDS = 60.0
"""How long a server that was there is waited for: a restart takes some seconds."""
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
_TIDYING = 0.01
"""In how many transactions marks are deleted that nobody looks for any more."""
_TIDY = """
    DELETE FROM commits WHERE (tenant, mark) IN (
        SELECT tenant, mark FROM commits WHERE tenant = %s AND at < now() - interval '1 hour'
        LIMIT 10000 FOR UPDATE SKIP LOCKED
    )
"""

_LOG = logging.getLogger(__name__)
# What went wrong is in the errors that are raised; nothing is printed.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class Server:
    """A database on a server, as one tenant uses it."""

    def __init__(self, url: str, tenant: str) -> None:
        try:
            parts: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **conninfo_to_dict(url)}
        except psycopg.ProgrammingError:  # which repeats the address, with the password
            raise ConfigError(
                "store.url is no address of PostgreSQL",
                "Write it like postgresql://USER@HOST:5432/DATABASE",
            ) from None
        self._parts = parts
        if not tenant or "\0" in tenant or len(tenant) > _LONGEST_TENANT:
            raise ConfigError(
                f"store.tenant = {tenant!r} cannot be the name of a tenant", "Use letters or digits"
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
    def reading(self, agent: str = "", seeing: Sequence[str] = ALL_SCOPES) -> Iterator[Session]:
        """Lend one unchanging state of the database, with the facts of some scopes."""
        begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_scope_setting(seeing)}"
        with self._open_transaction(begin) as connection:
            yield Session(connection, self.tenant, agent, {})
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(
        self, agent: str = "", wait_ms: int = WAIT_MS, seeing: Sequence[str] = ALL_SCOPES
    ) -> Iterator[Session]:
        """Lend a transaction; what it locked it waits for no longer than `wait_ms`."""
        begin = f"BEGIN; SET LOCAL lock_timeout = {wait_ms:d}; {_scope_setting(seeing)}"
        with self._open_transaction(begin) as connection:
            yield Session(connection, self.tenant, agent)
            self._commit(connection)

    @contextmanager
    def unmigrated(self) -> Iterator[Session]:
        """Lend a connection to the database, whatever that lacks: no step is taken."""
        with self._translated_errors(), self._connect() as connection:
            yield Session(connection, self.tenant, "")

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation, and again where the server interrupted it, for a while."""
        for is_last in _backoff():
            try:
                return operation()
            except TransactionEndedError as error:
                if is_last or not self._was_there:
                    raise
                _LOG.info("trying again: %s", error.what)
        raise AssertionError("the last try either returns or raises")

    def rows(self, agent: str, statement: str, **values: Any) -> list[Any]:
        """Run a statement by itself and return its rows; again where that was interrupted.

        It sees nothing that shows a fact. Whatever became of it the first time, the second must
        not change more.
        """

        def once() -> list[Any]:
            with self._open_transaction() as connection:
                return Session(connection, self.tenant, agent).rows(statement, **values)

        return self.retrying(once)

    @contextmanager
    def maintenance_connection(self) -> Iterator[Connection]:
        """Lend a connection outside of any transaction, on which a statement may take its time."""
        self._open_pool()
        with self._translated_errors(), self._connect() as connection:
            self._configure(connection)
            connection.execute("SET statement_timeout TO 0")
            connection.execute("SELECT set_config('memwell.scopes', '{*}', false)")
            yield connection

    def close(self) -> None:
        """Close every connection; the next use opens new ones."""
        with self._opening:
            if self._pool:
                self._pool.close()
            self._pool = None

    # -- how it is done ----------------------------------------------------------------------------

    @contextmanager
    def _open_transaction(self, begin: str = "") -> Iterator[Connection]:
        """Lend a connection, in a transaction if told: a server that was there is waited for."""
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
                with self._connect() as connection:  # for what it says if that fails
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
        """Commit; where the answer is lost, learn what became of it."""
        mark = self._mark(connection)
        try:
            connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            if mark is None or not connection.broken:
                raise
            if not self._was_committed(*mark):
                raise TransactionEndedError(f"{self.location} ended a transaction") from error

    def _mark(self, connection: Connection) -> tuple[str, str] | None:
        """Leave a mark in a transaction that wrote; return it, and the transaction's number."""
        if random.random() < _TIDYING:
            connection.execute(_TIDY, (self.tenant,))
        found: tuple[str, str] | None = connection.execute(_MARK, (self.tenant,)).fetchone()
        return found

    def _was_committed(self, mark: str, transaction: str) -> bool:
        """Whether a transaction that is over left its mark.

        Its number says when it is over, no more: what a crash undid may have left no trace, and
        then another one gets the number.
        """
        for _ in _backoff():
            with suppress(psycopg.OperationalError), self._connect() as connection:
                self._configure(connection)
                if connection.execute(_IS_OVER, {"number": transaction}).fetchone() == (True,):
                    kept = "SELECT 1 FROM commits WHERE tenant = %s AND mark = %s::uuid"
                    return bool(connection.execute(kept, (self.tenant, mark)).fetchone())
        raise IndexDatabaseError(
            f"{self.location} was lost while it wrote: whether that is kept is not known",
            "Look whether it is there when the server is back",
        )

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Turn what PostgreSQL says into an error that names the server and the remedy."""
        try:
            yield
        except (errors.SerializationFailure, errors.DeadlockDetected) as error:
            raise TransactionEndedError(
                f"{self.location} ended a transaction ({_server_message(error)})"
            ) from error
        except errors.LockNotAvailable as error:
            raise IndexDatabaseError(
                f"{self.location} is being written by another process", "Try again"
            ) from error
        except errors.QueryCanceled as error:
            raise IndexDatabaseError(
                f"{self.location} took longer than {STATEMENT_MS / 1000:g} seconds",
                "See what else the server is doing",
            ) from error
        except errors.DiskFull as error:
            raise DiskFullError(
                f"{self.location} has no room left", "Free some disk space"
            ) from error
        except errors.ReadOnlySqlTransaction as error:
            raise ReadOnlyError(
                f"{self.location} can only be read",
                "For what writes, name the server that it follows in store.url",
            ) from error
        except errors.InsufficientPrivilege as error:
            raise IndexDatabaseError(
                f"{self.location} does not allow that ({_server_message(error)})",
                "Run it as the owner of its tables; `memwell doctor` says what is missing, and"
                " `memwell store roles` prints what a role needs",
            ) from error
        except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
            raise IndexDatabaseError(
                f"{self.location} lacks what is needed ({_server_message(error)})",
                "Install pgvector on the server; `memwell doctor` says what is missing",
            ) from error
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise TransactionEndedError(
                f"{self.location} cannot be reached ({_server_message(error)})",
                "See whether the server runs, and check store.url",
            ) from error


def _backoff() -> Iterator[bool]:
    """Yield for each try whether it is the last, with a longer pause after each."""
    last, pause = time.monotonic() + PATIENCE_SECONDS, _FIRST_PAUSE
    while time.monotonic() < last:
        yield False
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, _LONGEST_PAUSE)
    yield True


def _return_connection(pool: ConnectionPool[Connection], connection: Connection) -> None:
    broken = connection.broken
    pool.putconn(connection)
    if broken:  # then the server was restarted, and the others are, too
        pool.check()


@dataclass(frozen=True, slots=True)
class Session:
    """A connection inside a transaction, of one tenant and agent: every statement names them."""

    connection: Connection
    tenant: str
    agent: str
    answers: dict[str, list[Any]] | None = None
    """In a state that does not change, what was asked before: a server may be far away."""

    def rows(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        if self.answers is None:
            return self._rows(statement, values)
        asked = f"{statement} {values}"
        if asked not in self.answers:
            self.answers[asked] = self._rows(statement, values)
        return self.answers[asked]

    def row(self, statement: str, **values: Any) -> Any:
        """Return the first row of a statement, or None."""
        return next(iter(self.rows(statement, **values)), None)

    def _rows(self, statement: str, values: dict[str, Any]) -> list[Any]:
        cursor = self.run(statement, **values)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, **values: Any) -> Any:
        """Return the first column of the first row, or None."""
        found = self.row(statement, **values)
        return found[0] if found else None

    def run(self, statement: str, **values: Any) -> psycopg.Cursor[Any]:
        """Run a statement; it can name the tenant, and must."""
        return self.connection.execute(statement, self._named(statement, values))

    def rows_inlined(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement with its values written into it, and return its rows.

        Only so can the server see that an index of an agent's own (see own.py) holds the answer.
        """
        cursor = psycopg.ClientCursor(self.connection)
        cursor.execute(statement, self._named(statement, values))
        return cursor.fetchall() if cursor.description else []

    def stream(self, statement: str, at_once: int) -> Iterator[list[Any]]:
        """Yield the rows of a statement, some at once; it is over before the first are yielded."""
        with self.connection.cursor("streamed", withhold=True) as cursor:
            cursor.execute(statement, self._named(statement, {}))
            while rows := cursor.fetchmany(at_once):
                yield rows

    def _named(self, statement: str, values: dict[str, Any]) -> dict[str, Any]:
        assert "%(tenant)s" in statement, statement
        known = {"tenant": self.tenant, "agent": self.agent}
        return known | {name: _check_storable(value) for name, value in values.items()}


def _scope_setting(scopes: Sequence[str]) -> str:
    """Return the statement that tells the database whose facts a transaction may see."""
    literal = sql.Literal(_check_storable([*scopes])).as_string(None)
    return f"SET LOCAL memwell.scopes = {literal}"


def _check_storable(value: Any) -> Any:
    """PostgreSQL keeps no NUL, and only what is valid Unicode."""
    if isinstance(value, str):
        valid = value if value.isascii() else value.encode("utf-8", "replace").decode()
        return valid.replace("\0", "\ufffd")
    return [_check_storable(item) for item in value] if isinstance(value, list) else value


def _server_message(error: Exception) -> str:
    return " ".join(str(error).split())
