"""Parts of SQL statements, and the values that go with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from memwell.store.postgres.schema import FACT_TABLES

REVISION = "SELECT last FROM revisions WHERE tenant = %(tenant)s"
"""The revision of the tenant's facts."""
LAST_CHARACTER = "\U0010ffff"


class Values(dict[str, Any]):
    """The values of a statement: call it with a value to get its placeholder."""

    def __call__(self, value: Any) -> str:
        """Add a value; return its placeholder."""
        name = f"v{len(self)}"
        self[name] = value
        return f"%({name})s"


def of_agent(table: str) -> str:
    """Return the condition that a row belongs to the session's tenant and agent."""
    return f"{table}.tenant = %(tenant)s AND {table}.agent = %(agent)s"


def insert_sql(table: str, columns: Iterable[str], key: Sequence[str] = ()) -> str:
    """Return the statement that inserts a row; with `key` it replaces the row of the same key."""
    owner = ("tenant",) if table in FACT_TABLES else ("tenant", "agent")
    names = (*owner, *columns)
    values = ", ".join(f"%({name})s" for name in names)
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"
    if not key:
        return statement
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key)
    return f"{statement} ON CONFLICT ({', '.join((*owner, *key))}) DO UPDATE SET {changes}"


def update_sql(table: str, columns: Iterable[str]) -> str:
    """Return the statement that changes columns of the row with the id ``%(id)s``."""
    changes = ", ".join(f"{name} = %({name})s" for name in columns)
    return f"UPDATE {table} t SET {changes} WHERE {_owned(table)} AND t.id = %(id)s"


def delete_sql(table: str, condition: str = "true") -> str:
    """Return the statement that deletes the rows that meet a condition."""
    return f"DELETE FROM {table} t WHERE {_owned(table)} AND {condition}"


_DELETE = re.compile(
    r"\s*DELETE FROM (?P<table>\w+)(?:\s+(?!WHERE\b|USING\b)(?P<alias>\w+))?"
    r"(?:\s+USING (?P<others>.*?))?\s+WHERE (?P<condition>.*)",
    re.DOTALL,
)


def delete_by_function(statement: str) -> str:
    """Return a deletion as a role runs it that may not delete itself (see migrations.sql)."""
    if not (parts := _DELETE.fullmatch(statement)):
        return statement
    table, alias = parts["table"], parts["alias"] or parts["table"]
    others = f", {parts['others']}" if parts["others"] else ""
    return (
        f"SELECT delete_rows('{table}', ARRAY(SELECT {alias}.ctid FROM {table} {alias}{others}"
        f" WHERE {parts['condition']} FOR UPDATE OF {alias}))"
    )


def _owned(table: str) -> str:
    return "t.tenant = %(tenant)s" if table in FACT_TABLES else of_agent("t")


def array(values: Iterable[object]) -> str:
    """Return an array as PostgreSQL text, which sends many values faster than parameters do."""
    return "{" + ",".join("NULL" if value is None else _quote(str(value)) for value in values) + "}"


def _quote(text: str) -> str:
    if text.isalnum() and text.lower() != "null":
        return text
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def starts_with(column: str, start: str, values: Values) -> str:
    """Return the condition that a text, compared by its bytes, begins with another."""
    end = values(start + LAST_CHARACTER)
    return f"{column} >= {values(start)} AND {column} < {end}"
