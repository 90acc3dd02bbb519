"""The fields between two fences at the top of a note: YAML between ---, TOML between +++."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n(.*?)(?:(?<=\n)|\A)(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S
)


def split_front_matter(text: str) -> tuple[dict[str, Any], int, str]:
    """Return the fields, the offset where the body begins, and an error message or ""."""
    match = _FRONT_MATTER.match(text)
    if not match:
        return {}, 0, ""
    fence, block = match.group(1), match.group(2)
    try:
        fields = _parse_toml(block) if fence == "+++" else _parse_yaml(block)
    except ValueError as error:
        fields = _parse_lines(block)
        return fields, match.end(), f"front matter is not valid ({error}), read line by line"
    if not isinstance(fields, dict):
        # A rule, some text and another rule look like front matter, but contain no fields.
        return {}, (match.end() if fields is None else 0), ""
    return {str(key): _to_json_value(value) for key, value in fields.items()}, match.end(), ""


def _parse_yaml(block: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(block, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(getattr(error, "problem", None) or error).split())) from error


def _parse_toml(block: str) -> Any:
    import tomllib

    return tomllib.loads(block)


def _parse_lines(block: str) -> dict[str, Any]:
    """Read each ``key: value`` line by itself, for a block that is not valid as a whole."""
    pairs = (line.partition(":") for line in block.splitlines() if line[:1].strip())
    return {key.strip(): value.strip().strip("\"'") for key, colon, value in pairs if colon}


def _to_json_value(value: Any) -> Any:
    """Convert a value to one that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _to_json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_to_json_value(inner) for inner in value]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    return str(value)
