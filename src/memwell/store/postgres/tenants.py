"""Delete a tenant: its rows, its separate indexes and the roles' bindings to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from memwell.errors import IndexDatabaseError
from memwell.store.postgres.agent_indexes import TEXT_INDEX, VECTOR_INDEX, name_prefix
from memwell.store.postgres.schema import SCHEMA, TABLES
from memwell.store.postgres.server import Server
from memwell.store.postgres.session import Session
from memwell.store.postgres.vacuum import REMAINS, vacuum_tables

_BATCH = 10_000
"""Rows that one transaction deletes, so that others do not wait long for it."""


@dataclass(frozen=True, slots=True)
class DropReport:
    """The rows of each table that were deleted, what else was, and where the data may remain."""

    tenant: str
    rows: dict[str, int] = field(default_factory=dict)
    indexes: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    """Roles that were bound to the tenant: they see nothing now. `DROP ROLE` removes them."""
    remains: str = REMAINS


def drop_tenant(server: Server) -> DropReport:
    """Delete everything of a tenant; it can be run again after an interruption."""
    report = DropReport(server.tenant)
    with server.maintenance_connection() as connection:
        session = Session(connection, server.tenant, "")
        _require_owner(session, server.location)
        # Those that refer to others first: a cascade would delete all rows in one transaction.
        for table in reversed(TABLES):
            report.rows[table] = _delete_rows(session, table)
        for (name,) in session.rows(
            f"""
            SELECT i.relname FROM pg_class i WHERE i.relnamespace = '{SCHEMA}'::regnamespace
                AND i.relkind IN ('i', 'I') AND NOT i.relispartition AND (
                    starts_with(i.relname, {name_prefix(VECTOR_INDEX, "%(tenant)s")})
                    OR starts_with(i.relname, {name_prefix(TEXT_INDEX, "%(tenant)s")})
                )
            """
        ):
            connection.execute(f"DROP INDEX IF EXISTS {SCHEMA}.{name}")
            report.indexes.append(name)
        bindings = f"DELETE FROM {SCHEMA}.role_bindings WHERE tenant = %(tenant)s RETURNING role"
        report.roles.extend(role for (role,) in session.rows(bindings))
    remains = vacuum_tables(server, TABLES)
    return DropReport(report.tenant, report.rows, report.indexes, report.roles, remains)


def _require_owner(session: Session, location: str) -> None:
    role, owner, is_owner = session.row(
        """
        SELECT current_user, pg_get_userbyid(t.relowner), pg_has_role(t.relowner, 'USAGE')
        FROM pg_class t WHERE t.oid = 'indexes'::regclass AND %(tenant)s != ''
        """
    )
    if not is_owner:
        raise IndexDatabaseError(
            f"{location}: only {owner}, who owns the tables, can drop a tenant, not {role}",
            f"Run it as {owner}: memwell --store postgresql://{owner}@HOST/DATABASE store …",
        )


def _delete_rows(session: Session, table: str) -> int:
    """Delete the rows of a table in batches; return how many there were."""
    deleted = 0
    while True:
        count = session.run(
            f"""
            DELETE FROM {table} WHERE tenant = %(tenant)s AND (tableoid, ctid) IN (
                SELECT tableoid, ctid FROM {table} WHERE tenant = %(tenant)s LIMIT {_BATCH}
            )
            """
        ).rowcount
        deleted += count
        if count < _BATCH:
            return deleted
