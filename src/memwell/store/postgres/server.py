"""One PostgreSQL server: pooled connections, timeouts and retries.

A transaction that the server ended before it confirmed the commit leaves nothing behind and can run
again (`Server.retrying`). If the connection broke during the commit, memwell asks the server
whether the transaction was committed.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg_pool import ConnectionPool

from memwell.errors import (
    ConfigError,
    IndexDatabaseError,
    ReadOnlyError,
    TransactionEndedError,
)
from memwell.store.contract.index import WAIT_MS
from memwell.store.postgres.connections import AUTO, CONNECT_SECONDS, Connections
from memwell.store.postgres.migrate import (
    Connection,
    configure,
    migrate,
    missing_steps,
    settings_sql,
)
from memwell.store.postgres.schema import ALL_SCOPES
from memwell.store.postgres.server_errors import translated_errors
from memwell.store.postgres.session import Session, literal

T = TypeVar("T")

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
    DELETE FROM commits WHERE tenant = %(tenant)s AND mark IN (
        SELECT mark FROM commits WHERE tenant = %(tenant)s AND at < now() - interval '1 hour'
        LIMIT 10000 FOR UPDATE SKIP LOCKED
    )
"""

_LOG = logging.getLogger(__name__)


class Server:
    """A database on a server, as one tenant uses it."""

    def __init__(
        self, url: str, tenant: str, prepare: str = AUTO, shared: Connections | None = None
    ) -> None:
        """Use the connections that other tenants share, if there are some."""
        self._connections = shared or Connections(url, prepare)
        if not tenant or "\0" in tenant or len(tenant) > _LONGEST_TENANT:
            raise ConfigError(
                f"store.tenant = {tenant!r} is not a valid name for a tenant",
                f"Use 1 to {_LONGEST_TENANT} letters or digits",
            )
        self.tenant = tenant

    @property
    def location(self) -> str:
        """The address, without the password."""
        return f"{self._connections.address}, tenant {self.tenant}"

    def for_tenant(self, tenant: str) -> Server:
        """Return the same database as another tenant uses it; both share the connections."""
        return Server("", tenant, shared=self._connections)

    @contextmanager
    def reading(self, agent: str = "", scopes: Sequence[str] = ALL_SCOPES) -> Iterator[Session]:
        """Yield one unchanging state of the database, with the facts of the given scopes."""
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._open_transaction(begin, scopes) as connection:
            yield Session(connection, self.tenant, agent, {})
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(
        self, agent: str = "", wait_ms: int = WAIT_MS, scopes: Sequence[str] = ALL_SCOPES
    ) -> Iterator[Session]:
        """Yield a transaction, which waits for a lock no longer than `wait_ms`."""
        begin = f"BEGIN; SET LOCAL lock_timeout = {wait_ms:d}"
        with self._open_transaction(begin, scopes) as connection:
            if agent and self.is_bound_to_scopes:
                raise self._not_allowed("may not write to the index, which all users share")
            yield Session(connection, self.tenant, agent, is_bound=self.is_bound_to_scopes)
            self._commit(connection)

    @contextmanager
    def unmigrated(self) -> Iterator[Session]:
        """Yield a connection to the database as it is, without taking the steps that it lacks."""
        with self._translated_errors(), self._connections.connect() as connection:
            yield Session(connection, self.tenant, "")

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation; retry it for a while if the server interrupts it."""
        for is_last in _backoff():
            try:
                return operation()
            except TransactionEndedError as error:
                if is_last or not self._connections.was_there:
                    raise
                _LOG.info("retrying: %s", error.what)
        raise AssertionError("the last attempt either returns or raises")

    def rows(self, agent: str, statement: str, **values: Any) -> list[Any]:
        """Run a statement in a transaction of its own and return its rows; retry if interrupted.

        The statement sees no row that shows a fact. It must be safe to run twice.
        """

        def attempt() -> list[Any]:
            with self._open_transaction() as connection:
                session = Session(connection, self.tenant, agent)
                return session.rows_at_once(self._begin_sql("BEGIN", ()), statement, **values)

        return self.retrying(attempt)

    @contextmanager
    def maintenance_connection(self, lock_ms: int = 0) -> Iterator[Connection]:
        """Yield a connection outside of any transaction, without a timeout for statements.

        It waits for a lock no longer than `lock_ms`; 0 is as long as it takes.
        """
        with self._translated_errors(), self._connections.direct() as connection:
            configure(connection)
            connection.execute(f"SET statement_timeout TO 0; SET lock_timeout TO {lock_ms:d}")
            for name, value in (("tenant", self.tenant), ("scopes", "{*}")):
                connection.execute("SELECT set_config(%s, %s, false)", (f"memwell.{name}", value))
            yield connection

    def close(self) -> None:
        """Close every connection; the next use opens new ones."""
        self._connections.close()

    # -- connections and commits -------------------------------------------------------------------

    @contextmanager
    def _open_transaction(
        self, begin: str = "", scopes: Sequence[str] = ()
    ) -> Iterator[Connection]:
        """Yield a connection, in a transaction if `begin` starts one; retry to connect."""
        with self._translated_errors():
            pool, connection = self.retrying(lambda: self._begin(begin, scopes))
            try:
                yield connection
            except BaseException:
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
            finally:
                _return_connection(pool, connection)

    def _begin(
        self, begin: str, scopes: Sequence[str]
    ) -> tuple[ConnectionPool[Connection], Connection]:
        with self._translated_errors():
            pool = self._connections.open()
            self._check_binding(scopes)
            connection = pool.getconn(CONNECT_SECONDS)
            try:
                if begin:
                    connection.execute(self._begin_sql(begin, scopes))
            except BaseException:
                _return_connection(pool, connection)
                raise
            return pool, connection

    # -- the binding of the role -------------------------------------------------------------------

    @property
    def is_bound_to_scopes(self) -> bool:
        """Whether the role sees some scopes of the tenant only; it must have connected."""
        binding = self._connections.binding
        return binding is not None and binding.scopes is not None

    def _check_binding(self, scopes: Sequence[str]) -> None:
        """Refuse a tenant or a user that the role is not bound to: all would be empty."""
        binding = self._connections.binding
        if binding is None:
            return
        if binding.tenant != self.tenant:
            raise ConfigError(
                f"The role {binding.role} is bound to another tenant than {self.tenant}",
                "Set store.tenant to its tenant, or use another role in store.url",
            )
        foreign = [scope for scope in scopes if scope.startswith("user:")]
        if binding.scopes is not None and {*foreign} - {*binding.scopes}:
            raise self._not_allowed(f"may not use the facts of {foreign[0]}")

    def _not_allowed(self, what: str) -> ReadOnlyError:
        binding = self._connections.binding
        bound = ", ".join(binding.scopes or ()) if binding else ""
        role = binding.role if binding else ""
        return ReadOnlyError(
            f"The role {role} is bound to {bound}, and {what}",
            "Use a process whose role is not bound to a user",
        )

    def _begin_sql(self, begin: str, scopes: Sequence[str]) -> str:
        """Return the SQL that begins a transaction and sets what it needs."""
        if binding := self._connections.binding:
            scopes = binding.limit_scopes(scopes)
        return (
            f"{begin}; {settings_sql()}; SET LOCAL memwell.tenant = {literal(self.tenant)};"
            f" SET LOCAL memwell.scopes = {literal([*scopes])}"
        )

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
        if random.random() < _CLEANUP_SHARE and not self.is_bound_to_scopes:
            connection.execute(_DELETE_OLD_MARKS, {"tenant": self.tenant})
        mark: tuple[str, str] | None = connection.execute(_MARK, (self.tenant,)).fetchone()
        return mark

    def _was_committed(self, mark: str, transaction: str) -> bool:
        """Whether a transaction left its mark; wait until it has ended.

        Its number only tells that it has ended: if a crash undid the transaction, another one may
        get the same number.
        """
        for _ in _backoff():
            with suppress(psycopg.OperationalError), self._connections.connect() as connection:
                connection.execute(self._begin_sql("BEGIN READ ONLY", ()))
                if connection.execute(_IS_OVER, {"number": transaction}).fetchone() == (True,):
                    statement = "SELECT 1 FROM commits WHERE tenant = %s AND mark = %s::uuid"
                    return bool(connection.execute(statement, (self.tenant, mark)).fetchone())
        raise IndexDatabaseError(
            f"The connection to {self.location} broke during a commit, and the server has not"
            " answered since: it may have stored the change or not",
            "When the server is back, check whether the change is there",
        )

    def _translated_errors(self) -> AbstractContextManager[None]:
        return translated_errors(self.location, self._connections.address)


def migrate_online(server: Server, attempts: int, *, dry_run: bool = False) -> list[str]:
    """Take the steps that a database lacks; return their names.

    A step that waits too long for a lock is tried again, after others had their turn.
    """
    with server.unmigrated() as session:
        steps = missing_steps(session.connection)
        for is_last in (n == attempts for n in range(1, attempts + 1)):
            if dry_run or not missing_steps(session.connection):
                break
            try:
                migrate(session.connection)
            except psycopg.errors.LockNotAvailable:
                if is_last:
                    raise
                time.sleep(_LONGEST_PAUSE * random.uniform(0.5, 1.5))
        if not dry_run and missing_steps(session.connection):
            raise IndexDatabaseError(
                f"{server.location}: the role does not own the tables, so it cannot migrate them",
                "Run it as the owner: memwell --store postgresql://OWNER@HOST/DATABASE store …",
            )
    return steps


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
