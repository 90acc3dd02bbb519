"""Takes the steps of migrations.py that a database lacks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg

from memwell.errors import NewerIndexError
from memwell.store.postgres.migrations import MIGRATIONS
from memwell.store.postgres.schema import SCHEMA

Connection = psycopg.Connection[Any]

STATEMENT_MS = 60_000
_MIGRATING = 0x6D656D77
"""The key of the lock under which migrations run."""


def migrate(connection: Connection) -> None:
    """Take the steps that a database lacks; other processes wait."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATING,))
    try:
        # Another process may have taken the steps while this one waited.
        for number in range(_version(connection), len(MIGRATIONS)):
            _take_step(connection, number)
    finally:
        with suppress(psycopg.Error):
            connection.execute("SELECT pg_advisory_unlock(%s)", (_MIGRATING,))


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
    with connection.transaction():
        if number == 0:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            connection.execute(f"CREATE TABLE {SCHEMA}.migrations (number int, name text)")
        configure(connection)
        connection.execute(statements)
        connection.execute("INSERT INTO migrations VALUES (%s, %s)", (number + 1, name))


def configure(connection: Connection) -> None:
    """Set where a connection finds the tables, and how long a statement may take."""
    connection.execute(f"SET search_path TO {SCHEMA}, public")
    connection.execute(f"SET statement_timeout TO {STATEMENT_MS}")
