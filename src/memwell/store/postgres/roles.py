"""SQL for the administrator of the server: the roles that memwell uses, and tables on Citus.

Every script can be run again. A role that is bound to a tenant is a member of a group, for which
each table has one policy: it asks the table of bindings whether the role may use the settings of
the session. So the catalogue has as many policies for ten tenants as for a hundred thousand, and
none of them names a tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memwell.store.postgres.schema import SCHEMA, TABLES

RIGHTS = {
    "migrations": ("SELECT",),
    "ids": ("USAGE",),
    **dict.fromkeys(TABLES, ("SELECT", "INSERT", "UPDATE", "DELETE")),
}
"""The rights that memwell needs on each table, and on the sequence."""
TENANT_RIGHTS = {**RIGHTS, **dict.fromkeys(TABLES, ("SELECT", "INSERT"))}
"""The rights of a role that is bound to a tenant: it updates columns, and deletes by a function."""
USER_RIGHTS = {
    "migrations": ("SELECT",),
    "ids": ("USAGE",),
    **dict.fromkeys(TABLES, ("SELECT",)),
    **dict.fromkeys(("facts", "fact_events", "commits"), ("SELECT", "INSERT")),
}
"""The rights of a role that is bound to scopes: it reads, and it writes its own facts."""
_USER_UPDATES = {
    "facts": "text, folded, category, source, origin, importance, confidence, decay_class,"
    " created_at, confirmed_at, expires_at, valid_from, valid_until, superseded_by, scope, target,"
    " tags, revision, id",
    "fact_events": "scope, target",
}
"""Columns, not tables: who may update a whole table may also lock it."""
_USER_FUNCTIONS = (
    "user_binding()",
    "lock_facts()",
    "next_revision()",
    "delete_fact(text)",
    "mark_forgotten(text)",
    "record_erasure(text, bytea)",
)
BOUND, BOUND_USER = "memwell_bound", "memwell_bound_user"
"""The groups of the roles that are bound to a tenant, and of those bound to scopes, too."""
_GLOBAL = "global:"
_POLICY = "bound"
_ALLOWED = (
    f"{SCHEMA}.is_bound_to(current_setting('memwell.tenant', true),"
    " current_setting('memwell.scopes', true))"
)
_OWN = "scope <> 'global'"


def role(name: str, tenant: str | None = None, scopes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the statements that create a role with the rights memwell needs, and no others.

    A role that is bound to a tenant (and scopes, like ``user:anna``) sees nothing else, whatever
    settings it makes.
    """
    who = _identifier(name)
    attributes = "LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION"
    yield _create_role(name, attributes)
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {who};"
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA {SCHEMA} FROM {who};"
    bound_rights = USER_RIGHTS if scopes else TENANT_RIGHTS
    for thing, rights in (RIGHTS if tenant is None else bound_rights).items():
        kind = "SEQUENCE " if thing == "ids" else ""
        yield f"GRANT {', '.join(rights)} ON {kind}{SCHEMA}.{thing} TO {who};"
    yield from _drop_old_policies(name)
    verb, direction = ("GRANT", "TO") if tenant is None else ("REVOKE", "FROM")
    yield f"{verb} EXECUTE ON FUNCTION {SCHEMA}.analyse_grown(text) {direction} {who};"
    if tenant is None:
        yield f"DELETE FROM {SCHEMA}.role_bindings WHERE role = {_literal(name)};"
        for group in (BOUND, BOUND_USER):
            yield _if_group(group, f"REVOKE {group} FROM {who}")
        return
    yield from _group_policies()
    yield from _bind(name, tenant, scopes)


def _bind(name: str, tenant: str, scopes: Sequence[str]) -> Iterator[str]:
    """Yield the statements that bind a role; the group comes before the rights can be used."""
    who = _identifier(name)
    owners = f"ARRAY[{', '.join(map(_literal, (_GLOBAL, *scopes)))}]" if scopes else "NULL"
    yield (
        f"INSERT INTO {SCHEMA}.role_bindings VALUES ({_literal(name)}, {_literal(tenant)},"
        f" {owners}) ON CONFLICT (role) DO UPDATE SET tenant = excluded.tenant,"
        " scopes = excluded.scopes;"
    )
    yield f"GRANT {BOUND} TO {who} WITH INHERIT TRUE, SET FALSE;"
    if not scopes:
        yield f"REVOKE {BOUND_USER} FROM {who};"
        yield f"GRANT EXECUTE ON FUNCTION {SCHEMA}.delete_rows(text, tid[]) TO {who};"
        yield _grant_all_columns(name)
        return
    yield f"GRANT {BOUND_USER} TO {who} WITH INHERIT TRUE, SET FALSE;"
    for table, columns in _USER_UPDATES.items():
        yield f"GRANT UPDATE ({columns}) ON {SCHEMA}.{table} TO {who};"
    for function in _USER_FUNCTIONS:
        yield f"GRANT EXECUTE ON FUNCTION {SCHEMA}.{function} TO {who};"


def _grant_all_columns(name: str) -> str:
    """Return the statement that lets a role update all columns, which is not to update a table."""
    tables = ", ".join(f"'{table}'" for table in TABLES)
    return (
        "DO $$ DECLARE part record; BEGIN FOR part IN SELECT table_name AS name,"
        " string_agg(quote_ident(column_name), ', ') AS columns FROM information_schema.columns"
        f" WHERE table_schema = '{SCHEMA}' AND table_name IN ({tables}) GROUP BY table_name LOOP"
        f" EXECUTE format('GRANT UPDATE (%s) ON {SCHEMA}.%I TO %I', part.columns, part.name,"
        f" {_literal(name)}); END LOOP; END $$;"
    )


def _group_policies() -> Iterator[str]:
    """Yield the statements that create the groups, and one policy for each table."""
    for group in (BOUND, BOUND_USER):
        yield _create_role(group, "NOLOGIN NOSUPERUSER NOBYPASSRLS")
    for table in TABLES:
        yield _create_policy(_POLICY, table, f"TO {BOUND} USING ({_ALLOWED})")
    for table in ("facts", "fact_events"):
        rules = {"insert": f"WITH CHECK ({_OWN})", "update": f"USING ({_OWN})"}
        for verb, rule in rules.items():
            rest = f"FOR {verb.upper()} TO {BOUND_USER} {rule}"
            yield _create_policy(f"{_POLICY}_{verb}", table, rest)


def _create_policy(name: str, table: str, rest: str) -> str:
    """Return the statement that creates a policy; one that exists needs no lock of the table."""
    return (
        "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_policies"
        f" WHERE schemaname = '{SCHEMA}' AND tablename = '{table}' AND policyname = '{name}')"
        f" THEN CREATE POLICY {name} ON {SCHEMA}.{table} AS RESTRICTIVE {rest};"
        " END IF; END $$;"
    )


def _drop_old_policies(name: str) -> Iterator[str]:
    """Yield the statement that drops the policies of this role alone, which old versions made."""
    old = _literal(f"bound {name}")
    yield (
        "DO $$ DECLARE name text; BEGIN FOR name IN SELECT tablename FROM pg_policies"
        f" WHERE schemaname = '{SCHEMA}' AND policyname = {old} LOOP"
        f" EXECUTE format('DROP POLICY %I ON {SCHEMA}.%I', {old}, name); END LOOP; END $$;"
    )


def _create_role(name: str, attributes: str) -> str:
    who = _identifier(name)
    return (
        f"DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = {_literal(name)})"
        f" THEN ALTER ROLE {who} {attributes}; ELSE CREATE ROLE {who} {attributes};"
        " END IF; END $$;"
    )


def _if_group(group: str, statement: str) -> str:
    return (
        f"DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{group}')"
        f" THEN {statement}; END IF; END $$;"
    )


def distributed() -> Iterator[str]:
    """Yield the statements that distribute the tables by tenant on Citus, unless they are.

    A table comes after those that it refers to.
    """
    first = TABLES[0]
    for table in TABLES:
        together = "" if table == first else f", colocate_with => '{SCHEMA}.{first}'"
        yield (
            f"SELECT create_distributed_table('{SCHEMA}.{table}', 'tenant'{together})"
            " WHERE NOT EXISTS (SELECT 1 FROM pg_dist_partition"
            f" WHERE logicalrelid = '{SCHEMA}.{table}'::regclass);"
        )


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
