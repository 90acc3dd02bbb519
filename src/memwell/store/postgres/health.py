"""What memwell needs of a server, looked at without changing it: each with its remedy.

It reads nothing but the catalogue, which every role may, so that it also tells what a role lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memwell.reports import Check
from memwell.store.postgres.migrations import MIGRATIONS
from memwell.store.postgres.roles import RIGHTS
from memwell.store.postgres.schema import SCHEMA
from memwell.store.postgres.server import Session

_OLDEST_SERVER = 16
OLDEST_PGVECTOR = (0, 8)
"""The first that goes on searching an index until enough is found."""
_MOST_CONNECTIONS = 0.9
"""Of those that the server allows."""


def run_checks(session: Session) -> Iterator[Check]:
    """Look at a server, and at what the role that asks it may do there."""
    yield _server(session)
    yield _pgvector(session)
    yield _pg_textsearch(session)
    yield from _tables(session)
    yield _role(session)
    yield _connections(session)


def _server(session: Session) -> Check:
    version = _query(session, "current_setting('server_version')")
    recent = int(version.split(".")[0]) >= _OLDEST_SERVER
    wanted = f"Use PostgreSQL {_OLDEST_SERVER} or newer"
    follows = _query(session, "pg_is_in_recovery()")
    said = f"{version}, which follows another server and can only be read" if follows else version
    return Check("PostgreSQL", recent, said, "" if recent else wanted)


def _pgvector(session: Session) -> Check:
    available, created = _extension(session, "vector")
    if created and parse_version(created) >= OLDEST_PGVECTOR:
        return Check("pgvector", True, created)
    wanted = ".".join(map(str, OLDEST_PGVECTOR))
    todo = "ALTER EXTENSION vector UPDATE" if created else "CREATE EXTENSION vector SCHEMA public"
    remedy = f'Run `{todo}` in "{_query(session, "current_database()")}", as a superuser'
    if not available or parse_version(available) < OLDEST_PGVECTOR:
        remedy = f"Install pgvector {wanted} or newer on the server. {remedy}"
    is_not = f"{created}, older than {wanted}" if created else "not created in this database"
    return Check("pgvector", False, is_not, remedy)


def _pg_textsearch(session: Session) -> Check:
    """Look at what memwell can do without."""
    name = "pg_textsearch"
    available, created = _extension(session, name)
    loaded = _query(
        session,
        "(SELECT setting FROM pg_settings WHERE name = 'shared_preload_libraries')",
    )  # None where the role may not know
    if created and loaded is not None and name not in loaded:
        remedy = f"Set shared_preload_libraries = '{name}' in postgresql.conf, and restart it"
        return Check(name, False, f"{created}, which the server has not loaded", remedy)
    offered = f"{available} could be created" if available else "not available"
    return Check(name, True, created or f"{offered} (optional)")


def _tables(session: Session) -> Iterator[Check]:
    """Look whether the tables are there, of which version, and what the role may do with them."""
    owner = _query(
        session,
        "(SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.relname = 'migrations'"
        " AND c.relnamespace = to_regnamespace(%(schema)s))",
        schema=SCHEMA,
    )
    if owner is None:
        remedy = "Run `memwell status` once as the owner of the database: it makes them"
        yield Check("schema", False, "the tables are not there", remedy)
        return
    missing = [*_missing_rights(session)]
    if not {f"SELECT on {SCHEMA}.migrations", f"USAGE on {SCHEMA}"} & {*missing}:
        taken = _query(session, f"(SELECT count(*) FROM {SCHEMA}.migrations)")
        detail = f"{taken} of {len(MIGRATIONS)} steps"
        remedy = "" if taken == len(MIGRATIONS) else "Upgrade memwell"
        if taken < len(MIGRATIONS):
            remedy = f'Run `memwell status` once as "{owner}", who owns the tables'
        yield Check("schema", not remedy, detail, remedy)
    role = _query(session, "current_user")
    remedy = f'Run the GRANTs that `memwell store roles --role {role}` prints, as "{owner}"'
    lacking = f'"{role}" lacks {", ".join(missing)}'
    yield Check("rights", not missing, lacking if missing else "all", remedy if missing else "")


def _missing_rights(session: Session) -> Iterator[str]:
    if not _query(session, "has_schema_privilege(%(schema)s, 'USAGE')", schema=SCHEMA):
        yield f"USAGE on {SCHEMA}"
    wanted = [(thing, right) for thing, rights in RIGHTS.items() for right in rights]
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
        return Check("role", True, f"{name}, bound by the rules on rows")
    detail = f"{name} is a superuser or has BYPASSRLS: the rules on rows do not bind it"
    remedy = "`memwell store roles --role NAME | psql …` makes one that they bind"
    return Check("role", False, detail, f"{remedy}; name that in store.url")


def _connections(session: Session) -> Check:
    used, most = session.row(
        "SELECT (SELECT sum(numbackends) FROM pg_stat_database),"
        " current_setting('max_connections')::int WHERE %(tenant)s != ''"
    )
    enough = used <= _MOST_CONNECTIONS * most
    remedy = "" if enough else "Raise max_connections, or put a pooler before the server"
    return Check("connections", enough, f"{used} of {most}", remedy)


def _extension(session: Session, name: str) -> tuple[str | None, str | None]:
    """Return which version of an extension the server offers, and which the database has."""
    found = session.row(
        "SELECT default_version, installed_version FROM pg_available_extensions"
        " WHERE name = %(name)s AND %(tenant)s != ''",
        name=name,
    )
    return found or (None, None)


def _query(session: Session, what: str, **values: str) -> Any:
    return session.value(f"SELECT {what} WHERE %(tenant)s != ''", **values)


def parse_version(version: str) -> tuple[int, ...]:
    """Return a version as it is compared."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
