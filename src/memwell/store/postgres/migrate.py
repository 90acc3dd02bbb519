"""Takes the steps of migrations.py that a database lacks."""

from __future__ import annotations

from typing import Any

import psycopg

from memwell.errors import NewerIndexError
from memwell.store.postgres.migrations import MIGRATIONS
from memwell.store.postgres.schema import SCHEMA

Connection = psycopg.Connection[Any]

STATEMENT_MS = 60_000
LOCK_MS = 10_000
"""How long a step waits for a lock: every later statement waits behind it."""
_MIGRATING = 0x6D656D77
"""The key of the lock under which migrations run."""


def migrate(connection: Connection) -> None:
    """Take the steps that a database lacks, each in a transaction; other processes wait."""
    while (number := _version(connection)) < len(MIGRATIONS):
        with connection.transaction():
            # Of the transaction: behind a pooler, a lock of the session would be of anybody.
            connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}; {settings_sql()}")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
            # Another process may have taken the step while this one waited.
            if _version(connection) == number:
                _take_step(connection, number)


def _version(connection: Connection) -> int:
    """Return how many steps the database has taken."""
    table = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.migrations",)).fetchone()
    if not table or table[0] is None:
        return 0
    count = connection.execute(f"SELECT count(*) FROM {SCHEMA}.migrations").fetchone()
    version = int(count[0]) if count else 0
    if version > len(MIGRATIONS):
        raise NewerIndexError(
            f"A newer memwell made the database (its schema is {version}, this memwell knows"
            f" {len(MIGRATIONS)})",
            "Upgrade memwell",
        )
    return version


def _take_step(connection: Connection, number: int) -> None:
    name, statements = MIGRATIONS[number]
    if number == 0:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(f"CREATE TABLE {SCHEMA}.migrations (number int, name text)")
    connection.execute(statements)
    connection.execute("INSERT INTO migrations VALUES (%s, %s)", (number + 1, name))


def settings_sql() -> str:
    """Return the SQL that sets, for a transaction, where the tables are and its time-out."""
    return f"SET LOCAL search_path = {SCHEMA}, public; SET LOCAL statement_timeout = {STATEMENT_MS}"


def configure(connection: Connection) -> None:
    """Set the same for a connection that no pooler shares."""
    connection.execute(settings_sql().replace("SET LOCAL", "SET"))
