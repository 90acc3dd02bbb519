"""Takes the steps of migrations.py that a database lacks."""

from __future__ import annotations

from typing import Any

import psycopg

from memwell.errors import IndexDatabaseError, NewerIndexError
from memwell.store.postgres.migrations import MIGRATIONS, NEEDS, OLDEST_SCHEMA, steps
from memwell.store.postgres.schema import PARTITIONS, SCHEMA

Connection = psycopg.Connection[Any]

LOCK_MS = 10_000
"""How long a step waits for a lock: every later statement waits behind it."""
_MIGRATING = 0x6D656D77
"""The key of the lock under which migrations run."""


def migrate(connection: Connection, partitions: int | None = None) -> int:
    """Take the steps that a database lacks, and return how many it has.

    Each step is a transaction, and other processes wait. A role that does not own the tables uses a
    database that lacks steps as it is, if this memwell still knows how to. `partitions`: of each
    table, if the database is empty.
    """
    while (number := read_version(connection)) < len(MIGRATIONS):
        if number and not _is_owner(connection):
            _require_known(number)
            return number
        with connection.transaction():
            # Of the transaction: behind a pooler, a lock of the session would be of anybody.
            # A step may rewrite large tables: it ends when it is done, or cannot get a lock.
            connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}; {settings_sql(0)}")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
            # Another process may have taken the step while this one waited.
            if read_version(connection) == number:
                _take_step(connection, number, partitions or PARTITIONS)
    return number


def missing_steps(connection: Connection) -> list[str]:
    """Return the names of the steps that a database lacks."""
    return [name for name, _ in MIGRATIONS[read_version(connection) :]]


def read_version(connection: Connection) -> int:
    """Return how many steps the database has taken; refuse one that needs a newer memwell."""
    table = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.migrations",)).fetchone()
    if not table or table[0] is None:
        return 0
    count = connection.execute(f"SELECT count(*) FROM {SCHEMA}.migrations").fetchone()
    version, known = int(count[0]) if count else 0, len(MIGRATIONS)
    if version > known:
        newest = connection.execute(
            f"SELECT max(coalesce(needs, number)) FROM {SCHEMA}.migrations WHERE number > %s",
            (known,),
        ).fetchone()
        if not newest or newest[0] is None or newest[0] > known:
            raise NewerIndexError(
                f"A newer memwell made the database (its schema is {version}, this memwell knows"
                f" {known})",
                "Upgrade memwell",
            )
    return version


def _is_owner(connection: Connection) -> bool:
    owner = connection.execute(
        "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s::regclass",
        (f"{SCHEMA}.migrations",),
    ).fetchone()
    return bool(owner and owner[0])


def _require_known(version: int) -> None:
    if version < OLDEST_SCHEMA:
        raise IndexDatabaseError(
            f"The schema of the database is {version}, and this memwell needs {OLDEST_SCHEMA} or"
            " newer",
            "Run `memwell store migrate` as the owner of the tables",
        )


def count_partitions(connection: Connection) -> int:
    """Return how many partitions each table of a database has; 0 if there is none yet."""
    row = connection.execute(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass(%s)", (f"{SCHEMA}.indexes",)
    ).fetchone()
    return int(row[0]) if row else 0


def _take_step(connection: Connection, number: int, partitions: int) -> None:
    count = count_partitions(connection) or partitions
    name, statements = (MIGRATIONS if count == PARTITIONS else steps(count))[number]
    if number == 0:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(f"CREATE TABLE {SCHEMA}.migrations (number int, name text)")
    connection.execute(statements)
    connection.execute("INSERT INTO migrations (number, name) VALUES (%s, %s)", (number + 1, name))
    if needs := NEEDS.get(number + 1):
        connection.execute(
            "UPDATE migrations SET needs = %s WHERE number = %s", (needs, number + 1)
        )


def settings_sql(statement_ms: int) -> str:
    """Return the SQL that sets, for a transaction, where the tables are and its time-out.

    A time-out of 0 is none.
    """
    return f"SET LOCAL search_path = {SCHEMA}, public; SET LOCAL statement_timeout = {statement_ms}"
