"""Statements put together from parts, with their values beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_LAST_CHARACTER = "\U0010ffff"


class Values(dict[str, Any]):
    """The values of a statement: calling it with one returns what stands for it."""

    def __call__(self, value: Any) -> str:
        """Take a value; return its placeholder."""
        name = f"v{len(self)}"
        self[name] = value
        return f"%({name})s"


def of_agent(table: str) -> str:
    """Return the condition that a row is of the tenant and agent at hand."""
    return f"{table}.tenant = %(tenant)s AND {table}.agent = %(agent)s"


def array(values: Iterable[object]) -> str:
    """Return an array as the server reads it: written here, many values are sent sooner."""
    escaped = (str(value).replace("\\", r"\\").replace('"', r"\"") for value in values)
    return "{" + ",".join(f'"{value}"' for value in escaped) + "}"


def starts_with(column: str, start: str, values: Values) -> str:
    """Return the condition that a text, compared by its bytes, begins with another."""
    end = values(start + _LAST_CHARACTER)
    return f"{column} >= {values(start)} AND {column} < {end}"
