"""Remove deleted texts from the files of the server, as far as the role may.

PostgreSQL keeps deleted rows until it vacuums a table, and even then their bytes stay in the free
space of its pages. A table that is written anew has none of them. Only the owner of the tables may
do this; large tables are only vacuumed, since nobody can use a table while it is written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection

from memwell.errors import MemwellError
from memwell.store.postgres.schema import SCHEMA
from memwell.store.postgres.server import Server
from memwell.store.postgres.session import Session

_TABLES = [
    *("facts", "fact_events", "notes", "chunks", "chunk_texts", "vocabulary", "postings"),
    "posting_lists",
]
"""The tables that contain texts or their words."""
_MOST_BYTES = 64_000_000
"""Bytes of a table that is written anew within about a second."""
_LOCK_MS = 1_000
_RELATIONS = r"""
    SELECT format('%%I.%%I', n.nspname, c.relname), pg_total_relation_size(c.oid),
           pg_has_role(c.relowner, 'USAGE')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
    CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) b
    WHERE n.nspname = %(schema)s AND c.relkind = 'r'
      AND coalesce(p.relname, c.relname) = ANY(%(tables)s)
      AND (p.oid IS NULL OR satisfies_hash_partition(
          p.oid, substring(b.bound FROM 'modulus (\d+)')::int,
          substring(b.bound FROM 'remainder (\d+)')::int, %(tenant)s::text))
    ORDER BY 1
"""
"""The tables and the partitions that contain the rows of a tenant."""
REMAINS = "The server's log (WAL) and its backups may still contain it until they are deleted"
_IN_FILES = (
    ", and the free space of its tables until it is used again: the owner of the tables can run"
    " VACUUM FULL on "
)


def vacuum_texts(server: Server) -> str:
    """Vacuum the tables that contain texts of a tenant; return what may remain, as a sentence."""
    return vacuum_tables(server, _TABLES)


def vacuum_tables(server: Server, tables: Sequence[str]) -> str:
    """Vacuum the parts of tables that belong to a tenant; return what may remain."""
    try:
        with server.maintenance_connection(_LOCK_MS) as connection:
            session = Session(connection, server.tenant, "")
            relations = session.rows(_RELATIONS, schema=SCHEMA, tables=[*tables])
            unclean = [name for name, *state in relations if not _vacuum(connection, name, *state)]
    except MemwellError:  # the facts are deleted already, so the command succeeds
        unclean = [f"{SCHEMA}.{name}" for name in tables]
    return REMAINS + (_IN_FILES + ", ".join(unclean) if unclean else "")


def _vacuum(connection: Connection[Any], name: str, size: int, is_owner: bool) -> bool:
    """Vacuum a table; return whether it was written anew.

    The planner's statistics contain some of its values, so they are taken anew, too.
    """
    if not is_owner:
        return False
    if size <= _MOST_BYTES:
        with suppress(psycopg.Error):  # another session uses the table for long
            connection.execute(f"VACUUM (FULL, ANALYZE) {name}")
            return True
    with suppress(psycopg.Error):
        connection.execute(f"VACUUM (ANALYZE) {name}")
    return False
