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
from uuid import uuid4

import psycopg
from psycopg_pool import ConnectionPool

from memwell.errors import (
    ConfigError,
    IndexDatabaseError,
    ReadOnlyError,
    TransactionEndedError,
)
from memwell.store.contract.index import WAIT_MS
from memwell.store.postgres.connections import CONNECT_SECONDS, Connections
from memwell.store.postgres.migrate import (
    Connection,
    count_partitions,
    migrate,
    missing_steps,
    settings_sql,
)
from memwell.store.postgres.options import DEFAULTS, ServerOptions
from memwell.store.postgres.schema import ALL_SCOPES
from memwell.store.postgres.server_errors import translated_errors
from memwell.store.postgres.session import Session, literal

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long to retry a server that answered before: a restart takes some seconds."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_LONGEST_TENANT = 200
_CLEANUP_SHARE = 0.01
"""The share of transactions that also delete old marks."""
_DELETE_OLD_MARKS = """
    DELETE FROM commits WHERE tenant = %(tenant)s AND mark IN (
        SELECT mark FROM commits WHERE tenant = %(tenant)s AND at < now() - interval '1 hour'
        LIMIT 10000
    )
"""
_CLEANUP_LOCK_MS = 100

_LOG = logging.getLogger(__name__)


class Server:
    """A database on a server, as one tenant uses it."""

    def __init__(
        self,
        url: str,
        tenant: str,
        options: ServerOptions = DEFAULTS,
        shared: Connections | None = None,
    ) -> None:
        """Use the connections that other tenants share, if there are some."""
        self._connections = shared or Connections(url, options)
        self._is_sharing = shared is not None
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
    def reading(
        self, agent: str = "", scopes: Sequence[str] = ALL_SCOPES, first: Sequence[str] = ()
    ) -> Iterator[Session]:
        """Yield one unchanging state of the database, with the facts of the given scopes.

        The `first` statements, which every reader needs, are sent with the one that begins.
        """
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._open_session(agent, begin, scopes, {}, first) as session:
            yield session
            session.connection.execute("ROLLBACK")

    @contextmanager
    def writing(
        self, agent: str = "", wait_ms: int = WAIT_MS, scopes: Sequence[str] = ALL_SCOPES
    ) -> Iterator[Session]:
        """Yield a transaction, which waits for a lock no longer than `wait_ms`."""
        begin = f"BEGIN; SET LOCAL lock_timeout = {wait_ms:d}"
        with self._open_session(agent, begin, scopes) as session:
            if agent and self.is_bound_to_scopes:
                raise self._not_allowed("may not write to the index, which all users share")
            yield session
            self._commit(session.connection)

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
            with self._open_session(agent) as session:
                return session.rows_at_once(self._begin_sql("BEGIN", ()), statement, **values)

        return self.retrying(attempt)

    @contextmanager
    def maintenance_connection(self, lock_ms: int = 0) -> Iterator[Connection]:
        """Yield a connection outside of any transaction, without a timeout for statements.

        It waits for a lock no longer than `lock_ms`; 0 is as long as it takes.
        """
        with self._translated_errors(), self._connections.direct() as connection:
            settings = f"{settings_sql(0)}; SET LOCAL lock_timeout = {lock_ms:d}"
            connection.execute(settings.replace("SET LOCAL", "SET"))
            for name, value in (("tenant", self.tenant), ("scopes", "{*}")):
                connection.execute("SELECT set_config(%s, %s, false)", (f"memwell.{name}", value))
            yield connection

    def close(self) -> None:
        """Close every connection, unless they are another tenant's; the next use opens new ones."""
        if not self._is_sharing:
            self._connections.close()

    # -- connections and commits -------------------------------------------------------------------

    @contextmanager
    def _open_session(
        self,
        agent: str,
        begin: str = "",
        scopes: Sequence[str] = (),
        results: dict[str, list[Any]] | None = None,
        first: Sequence[str] = (),
    ) -> Iterator[Session]:
        """Yield a session, in a transaction if `begin` starts one; retry to connect."""
        with self._translated_errors():
            pool, session = self.retrying(lambda: self._begin(agent, begin, scopes, results, first))
            connection = session.connection
            try:
                yield session
            except BaseException:
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
            finally:
                _return_connection(pool, connection)

    def _begin(
        self,
        agent: str,
        begin: str,
        scopes: Sequence[str],
        results: dict[str, list[Any]] | None,
        first: Sequence[str],
    ) -> tuple[ConnectionPool[Connection], Session]:
        with self._translated_errors():
            pool = self._connections.open()
            self._check_binding(scopes)
            connection = pool.getconn(CONNECT_SECONDS)
            session = self._session(connection, agent, results)
            try:
                if begin:
                    session.begin(self._begin_sql(begin, scopes), first)
            except BaseException:
                _return_connection(pool, connection)
                raise
            return pool, session

    def _session(
        self, connection: Connection, agent: str, results: dict[str, list[Any]] | None = None
    ) -> Session:
        is_bound, to_scopes = self._connections.binding is not None, self.is_bound_to_scopes
        return Session(
            connection,
            self.tenant,
            agent,
            results,
            is_bound=to_scopes,
            deletes_by_function=is_bound and not to_scopes,
            slow_ms=self._connections.options.slow_ms,
        )

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
            f"{begin}; {settings_sql(self._connections.options.statement_ms)};"
            f" SET LOCAL memwell.tenant = {literal(self.tenant)};"
            f" SET LOCAL memwell.scopes = {literal([*scopes])}"
        )

    def _commit(self, connection: Connection) -> None:
        """Commit; if the answer is lost, find out whether the transaction was committed."""
        mark = str(uuid4())
        try:
            connection.execute(f"{self._mark_sql(mark)}; COMMIT")
        except psycopg.OperationalError as error:
            if not connection.broken:
                raise
            if not self._was_committed(mark):
                raise TransactionEndedError(f"{self.location} ended a transaction") from error
        else:
            if random.random() < _CLEANUP_SHARE and self._connections.binding is None:
                self._delete_old_marks(connection)

    def _mark_sql(self, mark: str) -> str:
        return (
            f"INSERT INTO commits (tenant, mark) VALUES ({literal(self.tenant)}, {literal(mark)})"
        )

    def _delete_old_marks(self, connection: Connection) -> None:
        begin = self._begin_sql(f"BEGIN; SET LOCAL lock_timeout = {_CLEANUP_LOCK_MS}", ())
        try:
            self._session(connection, "").rows_at_once(begin, _DELETE_OLD_MARKS)
        except psycopg.Error:  # another process is deleting them
            with suppress(psycopg.Error):
                connection.rollback()

    def _was_committed(self, mark: str) -> bool:
        """Whether a transaction left its mark; wait until it has ended.

        While it runs, the server lets nobody else insert its mark; afterwards, only if it failed.
        The number of the transaction would not be enough: if a crash undid it, another one may get
        the same number.
        """
        begin = self._begin_sql(f"BEGIN; SET LOCAL lock_timeout = {WAIT_MS:d}", ())
        for _ in _backoff():
            with suppress(psycopg.OperationalError), self._connections.connect() as connection:
                connection.execute(begin)
                inserted = connection.execute(f"{self._mark_sql(mark)} ON CONFLICT DO NOTHING")
                connection.execute("ROLLBACK")
                return inserted.rowcount == 0
        raise IndexDatabaseError(
            f"The connection to {self.location} broke during a commit, and the server has not"
            " answered since: it may have stored the change or not",
            "When the server is back, check whether the change is there",
        )

    def _translated_errors(self) -> AbstractContextManager[None]:
        return translated_errors(self.location, self._connections.address)


def migrate_online(
    server: Server, attempts: int, *, dry_run: bool = False, partitions: int | None = None
) -> list[str]:
    """Take the steps that a database lacks; return their names.

    A step that waits too long for a lock is tried again, after others had their turn.
    `partitions`: of each table, if the database is empty.
    """
    with server.unmigrated() as session:
        if partitions and (present := count_partitions(session.connection)) not in (0, partitions):
            raise IndexDatabaseError(
                f"{server.location} has {present} partitions for each table, not {partitions}",
                "The number cannot change: copy the tenants to a new database with `store copy`",
            )
        steps = missing_steps(session.connection)
        for is_last in (n == attempts for n in range(1, attempts + 1)):
            if dry_run or not missing_steps(session.connection):
                break
            try:
                migrate(session.connection, partitions)
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
