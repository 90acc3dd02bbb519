"""SQL for the administrator of the server: the role that memwell uses, and tables on Citus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memwell.store.postgres.schema import OWNERS, SCHEMA, TABLES

RIGHTS = {
    "migrations": ("SELECT",),
    "ids": ("USAGE",),
    **dict.fromkeys(TABLES, ("SELECT", "INSERT", "UPDATE", "DELETE")),
}
"""The rights that memwell needs on each table, and on the sequence."""
_GLOBAL = "global:"


def role(name: str, tenant: str | None = None, scopes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the statements that create a role with the rights memwell needs, and no others.

    A role that is bound to a tenant (and scopes, like ``user:anna``) sees nothing else, whatever
    settings it makes.
    """
    who = _identifier(name)
    yield f"CREATE ROLE {who} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;"
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {who};"
    for thing, rights in RIGHTS.items():
        kind = "SEQUENCE " if thing == "ids" else ""
        yield f"GRANT {', '.join(rights)} ON {kind}{SCHEMA}.{thing} TO {who};"
    if tenant is not None:
        for table in TABLES:
            bound = f"tenant = {_literal(tenant)}"
            if scopes and table in OWNERS:
                owners = ", ".join(map(_literal, ("", _GLOBAL, *scopes)))
                bound += f" AND {OWNERS[table]} IN ({owners})"
            yield (
                f"CREATE POLICY {_identifier(f'bound {name}')} ON {SCHEMA}.{table}"
                f" AS RESTRICTIVE TO {who} USING ({bound});"
            )


def distributed() -> Iterator[str]:
    """Yield the statements that distribute the tables by tenant on Citus.

    A table comes after those that it refers to.
    """
    first, *others = TABLES
    yield f"SELECT create_distributed_table('{SCHEMA}.{first}', 'tenant');"
    for table in others:
        yield (
            f"SELECT create_distributed_table('{SCHEMA}.{table}', 'tenant',"
            f" colocate_with => '{SCHEMA}.{first}');"
        )


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
