"""Results as JSON values, the same for every surface that prints or sends them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

_PLAIN = frozenset({str, int, bool, type(None)})


def to_jsonable(value: Any) -> Any:
    """Return a result as dicts, lists, strings and numbers, ready for JSON."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, float):
        return round(value, 4)  # more digits differ from machine to machine
    if isinstance(value, dict):
        return {key: to_jsonable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_jsonable(inner) for inner in value]
    names = _field_names(kind) if is_dataclass(kind) else None
    return value if names is None else {name: to_jsonable(getattr(value, name)) for name in names}


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in fields(kind))
