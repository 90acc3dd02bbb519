"""Checks of what memwell needs from a server, each with its remedy; nothing is changed.

They read only the catalogue, which every role may read, so they can tell which rights a role lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memwell.reports import Check
from memwell.store.postgres.migrations import MIGRATIONS
from memwell.store.postgres.roles import BOUND_USER, RIGHTS, USER_RIGHTS
from memwell.store.postgres.schema import SCHEMA
from memwell.store.postgres.session import Session

_OLDEST_SERVER = 16
OLDEST_PGVECTOR = (0, 8)
"""The first version that searches an index until enough rows pass the filters."""
_MOST_NAMES = 3
"""Rights that a check names."""
_MOST_CONNECTIONS = 0.9
"""The share of the server's connections that may be in use."""


def run_checks(session: Session) -> Iterator[Check]:
    """Yield the checks of a server and of the rights of the role that connects."""
    yield _server(session)
    yield _pgvector(session)
    yield _pg_textsearch(session)
    yield from _tables(session)
    yield _role(session)
    yield _connections(session)


def _server(session: Session) -> Check:
    version = _query(session, "current_setting('server_version')")
    recent = int(version.split(".")[0]) >= _OLDEST_SERVER
    remedy = "" if recent else f"Use PostgreSQL {_OLDEST_SERVER} or newer"
    is_replica = _query(session, "pg_is_in_recovery()")
    detail = f"{version}, a read-only replica of another server" if is_replica else version
    return Check("PostgreSQL", recent, detail, remedy)


def _pgvector(session: Session) -> Check:
    available, created = _extension(session, "vector")
    if created and parse_version(created) >= OLDEST_PGVECTOR:
        return Check("pgvector", True, created)
    wanted = ".".join(map(str, OLDEST_PGVECTOR))
    command = (
        "ALTER EXTENSION vector UPDATE" if created else "CREATE EXTENSION vector SCHEMA public"
    )
    remedy = f'Run `{command}` in "{_query(session, "current_database()")}", as a superuser'
    if not available or parse_version(available) < OLDEST_PGVECTOR:
        remedy = f"Install pgvector {wanted} or newer on the server. {remedy}"
    detail = f"{created}, older than {wanted}" if created else "not created in this database"
    return Check("pgvector", False, detail, remedy)


def _pg_textsearch(session: Session) -> Check:
    """Check the extension for text indexes, which is optional."""
    name = "pg_textsearch"
    available, created = _extension(session, name)
    loaded = _query(
        session, "(SELECT setting FROM pg_settings WHERE name = 'shared_preload_libraries')"
    )  # None if the role may not read it
    if created and loaded is not None and name not in loaded:
        remedy = (
            f"Set shared_preload_libraries = '{name}' in postgresql.conf, and restart the server"
        )
        return Check(name, False, f"{created}, but the server has not loaded it", remedy)
    offered = f"{available} could be created" if available else "not available"
    return Check(name, True, created or f"{offered} (optional)")


def _tables(session: Session) -> Iterator[Check]:
    """Check that the tables exist, their version, and the rights of the role on them."""
    owner = _query(
        session,
        "(SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.relname = 'migrations'"
        " AND c.relnamespace = to_regnamespace(%(schema)s))",
        schema=SCHEMA,
    )
    if owner is None:
        remedy = "Run `memwell store migrate` as the owner of the database: it creates the tables"
        yield Check("schema", False, "the tables do not exist", remedy)
        return
    missing = [*_missing_rights(session)]
    if not {f"SELECT on {SCHEMA}.migrations", f"USAGE on {SCHEMA}"} & {*missing}:
        taken = _query(session, f"(SELECT count(*) FROM {SCHEMA}.migrations)")
        detail = f"{taken} of {len(MIGRATIONS)} steps"
        remedy = (
            ""
            if taken >= len(MIGRATIONS)
            else (f'Run `memwell store migrate` as "{owner}", who owns the tables')
        )
        yield Check("schema", not remedy, detail, remedy)
    role = _query(session, "current_user")
    remedy = f'Run the SQL that `memwell store roles --role {role}` prints, as "{owner}"'
    more = f" and {len(missing) - _MOST_NAMES} others" if len(missing) > _MOST_NAMES else ""
    lacking = f'"{role}" lacks {", ".join(missing[:_MOST_NAMES])}{more}'
    yield Check("rights", not missing, lacking if missing else "all", remedy if missing else "")


def _missing_rights(session: Session) -> Iterator[str]:
    if not _query(session, "has_schema_privilege(%(schema)s, 'USAGE')", schema=SCHEMA):
        yield f"USAGE on {SCHEMA}"
    is_bound_to_scopes = _query(
        session,
        "EXISTS (SELECT 1 FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid"
        " WHERE g.rolname = %(group)s AND m.member = session_user::regrole)",
        group=BOUND_USER,
    )
    needed = USER_RIGHTS if is_bound_to_scopes else RIGHTS
    wanted = [(thing, right) for thing, rights in needed.items() for right in rights]
    things, rights = zip(*wanted, strict=True)
    rows = session.rows(
        """
        SELECT wanted.right, wanted.thing
        FROM unnest(%(things)s::text[], %(rights)s::text[]) AS wanted (thing, "right")
        JOIN pg_class c ON c.relname = wanted.thing
            AND c.relnamespace = to_regnamespace(%(schema)s) AND %(tenant)s != ''
        WHERE NOT CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, wanted.right)
            ELSE has_table_privilege(c.oid, wanted.right) END
        """,
        schema=SCHEMA,
        things=[*things],
        rights=[*rights],
    )
    for right, thing in rows:
        yield f"{right} on {SCHEMA}.{thing}"


def _role(session: Session) -> Check:
    name, exempt = session.row(
        "SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles"
        " WHERE rolname = current_user AND %(tenant)s != ''"
    )
    if not exempt:
        return Check("role", True, f"{name}, restricted by row-level security")
    detail = f"{name} is a superuser or has BYPASSRLS, so row-level security does not restrict it"
    remedy = "Create a restricted role with `memwell store roles --role NAME | psql …`"
    return Check("role", False, detail, f"{remedy}, and use it in store.url")


def _connections(session: Session) -> Check:
    used, allowed = session.row(
        "SELECT (SELECT sum(numbackends) FROM pg_stat_database),"
        " current_setting('max_connections')::int WHERE %(tenant)s != ''"
    )
    is_enough = used <= _MOST_CONNECTIONS * allowed
    remedy = "" if is_enough else "Raise max_connections, or use a connection pooler"
    return Check("connections", is_enough, f"{used} of {allowed}", remedy)


def _extension(session: Session, name: str) -> tuple[str | None, str | None]:
    """Return the version of an extension that the server offers, and the one it has created."""
    versions = session.row(
        "SELECT default_version, installed_version FROM pg_available_extensions"
        " WHERE name = %(name)s AND %(tenant)s != ''",
        name=name,
    )
    return versions or (None, None)


def _query(session: Session, expression: str, **values: str) -> Any:
    return session.value(f"SELECT {expression} WHERE %(tenant)s != ''", **values)


def parse_version(version: str) -> tuple[int, ...]:
    """Return a version as numbers, which can be compared."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
