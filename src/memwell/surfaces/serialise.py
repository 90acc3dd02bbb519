"""Results as JSON values, the same for every surface that prints or sends them."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any


def to_jsonable(value: Any) -> Any:
    """Return a result as dicts, lists, strings and numbers, ready for JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return to_jsonable(asdict(value))
    if isinstance(value, float):
        return round(value, 4)  # more digits differ from machine to machine
    if isinstance(value, dict):
        return {key: to_jsonable(inner) for key, inner in value.items()}
    return [to_jsonable(inner) for inner in value] if isinstance(value, list | tuple) else value
