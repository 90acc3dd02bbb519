"""Errors of PostgreSQL as errors that name the server and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from memwell.errors import (
    DiskFullError,
    IndexDatabaseError,
    MemwellError,
    ReadOnlyError,
    StatementTimeoutError,
    TransactionEndedError,
)

_KNOWN: tuple[tuple[tuple[type[psycopg.Error], ...], type[MemwellError], str, str], ...] = (
    (
        (errors.LockNotAvailable,),
        IndexDatabaseError,
        "Another process is writing to {location}",
        "Try again",
    ),
    (
        (errors.QueryCanceled,),
        StatementTimeoutError,
        "The server took longer for a statement than tenants.statement_seconds",
        "Search for fewer words or in one folder, or try again later. The operator can check the"
        " load of the server, and set more seconds",
    ),
    (
        (errors.DiskFull,),
        DiskFullError,
        "The disk of {location} is full",
        "Free some disk space",
    ),
    (
        (errors.ReadOnlySqlTransaction,),
        ReadOnlyError,
        "{location} can only be read",
        "To write, set store.url to the server that it replicates",
    ),
    (
        (errors.InsufficientPrivilege,),
        IndexDatabaseError,
        "{location} does not allow that ({message})",
        "Run it as the owner of its tables. `memwell doctor` shows which rights are"
        " missing, and `memwell store roles` prints the SQL that grants them",
    ),
    (
        (errors.FeatureNotSupported, errors.UndefinedFile),
        IndexDatabaseError,
        "{location} lacks an extension ({message})",
        "Install pgvector on the server; `memwell doctor` shows what is missing",
    ),
    (
        (errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName),
        IndexDatabaseError,
        "{location} is a pooler that does not carry prepared statements",
        "Set store.prepare = off",
    ),
)
"""The error of PostgreSQL, the error that memwell raises, its sentence and its remedy."""
_REFUSED_LOGINS = (
    (
        ("password authentication failed", "no password supplied", "fe_sendauth"),
        "{address} refused the password of the role",
        "Set PGPASSWORD, or write the password into ~/.pgpass",
    ),
    (
        ("does not exist",),
        "{address} refused the connection ({message})",
        "Correct the name in store.url, or create the database or the role",
    ),
    (
        ("no pg_hba.conf entry", "is not permitted to log in", "permission denied for database"),
        "{address} refused the connection ({message})",
        "Ask the administrator of the server to allow it",
    ),
)
"""Parts of the message of a connection that failed: the driver has no code for them."""


@contextmanager
def translated_errors(location: str, address: str) -> Iterator[None]:
    """Turn errors of PostgreSQL into errors that name the server and the remedy."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        translated = _translate(error, location, address)
        if translated is None:
            raise
        raise translated from error


def _translate(error: Exception, location: str, address: str) -> MemwellError | None:
    message = " ".join(str(error).split())
    if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
        return TransactionEndedError(f"{location} ended a transaction ({message})")
    for kinds, kind, what, remedy in _KNOWN:
        if isinstance(error, kinds):
            return kind(what.format(location=location, message=message), remedy)
    if isinstance(error, errors.ProgramLimitExceeded):
        return None  # a value is too large; a later attempt or another server would not help
    if not isinstance(error, psycopg.OperationalError | PoolTimeout):
        return None
    for parts, what, remedy in _REFUSED_LOGINS:
        was_refused = "FATAL" in message or "fe_sendauth" in message
        if was_refused and any(part in message for part in parts):
            told = what.format(address=address, message=_without_address(message))
            return IndexDatabaseError(told, remedy)
    return TransactionEndedError(
        f"{location} cannot be reached ({message})",
        "Check that the server is running, and check store.url",
    )


def _without_address(message: str) -> str:
    """Return what the server said, without the driver's words about the connection."""
    return message.rpartition("FATAL: ")[2].strip()
