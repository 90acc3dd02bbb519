"""Parts of SQL statements, and the values that go with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_LAST_CHARACTER = "\U0010ffff"


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


def array(values: Iterable[object]) -> str:
    """Return an array as PostgreSQL text, which sends many values faster than parameters do."""
    escaped = (str(value).replace("\\", r"\\").replace('"', r"\"") for value in values)
    return "{" + ",".join(f'"{value}"' for value in escaped) + "}"


def starts_with(column: str, start: str, values: Values) -> str:
    """Return the condition that a text, compared by its bytes, begins with another."""
    end = values(start + _LAST_CHARACTER)
    return f"{column} >= {values(start)} AND {column} < {end}"
