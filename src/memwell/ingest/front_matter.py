"""The fields between two fences at the top of a note: YAML between ---, TOML between +++.

A note may come from anybody (a cloned folder, a web clip), and both parsers can be made to use all
memory, all time or the whole stack. So the block is measured before it is parsed: its size, its
depth and its number of values are limited, and YAML's aliases and merge keys are refused, because a
few of them stand for millions of values.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n(.*?)(?:(?<=\n)|\A)(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S
)

MAX_CHARACTERS = 64_000
MAX_DEPTH = 20
MAX_VALUES = 10_000
_MAX_INT_BITS = 10_000
"""Python refuses to write integers of more than 4,300 digits (14,284 bits) in decimal."""

_TOML_TOKEN = re.compile(
    r"""
    \"{3}(?:\\.|[^\\])*?(?:\"{3,5}|\Z) | '{3}.*?(?:'{3,5}|\Z)
    | "(?:\\.|[^"\\\n])*"? | '[^'\n]*'? | \#[^\n]*
    | (?P<open>[\[{]) | (?P<close>[\]}]) | (?P<dot>\.) | (?P<next>[\n,=])
    """,
    re.S | re.X,
)
"""The structure of TOML; strings and comments match without a group."""


def split_front_matter(text: str) -> tuple[dict[str, Any], int, str]:
    """Return the fields, the offset where the body begins, and an error message or ""."""
    match = _FRONT_MATTER.match(text)
    if not match:
        return {}, 0, ""
    is_toml, block = match.group(1) == "+++", match.group(2)
    if len(block) > MAX_CHARACTERS:
        what = f"front matter has {len(block)} characters, over the limit of {MAX_CHARACTERS}"
        return {}, 0, f"{what}; indexed as text"
    try:
        fields = _parse_toml(block) if is_toml else _parse_yaml(block)
    except Exception as error:  # of the parsers, or of a type that a value seems to have
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        fields = _parse_lines(block, "=" if is_toml else ":")
        return fields, match.end(), f"front matter is not valid ({reason}), read line by line"
    if not isinstance(fields, dict):
        # A rule, some text and another rule look like front matter, but contain no fields.
        return {}, (match.end() if fields is None else 0), ""
    return {str(key): _to_json_value(value) for key, value in fields.items()}, match.end(), ""


def _parse_yaml(block: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = values = 0
    # Events are read one by one, without recursion. The loader is recursive: on 200,000 brackets
    # it overflows the stack of the process.
    for event in yaml.parse(block, Loader=loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ValueError("it has anchors or aliases, which memwell does not expand")
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style:
            raise ValueError("it has a merge key <<, which memwell does not expand")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        values += isinstance(event, yaml.NodeEvent)
        _check_limits(depth, values)
    return yaml.load(block, Loader=loader)


def _parse_toml(block: str) -> Any:
    import tomllib

    depth = dots = values = 0
    for token in _TOML_TOKEN.finditer(block):
        depth += token.lastgroup == "open"
        depth -= token.lastgroup == "close"
        dots = 0 if token.lastgroup == "next" else dots + (token.lastgroup == "dot")
        values += token.lastgroup in ("next", "open")
        _check_limits(max(depth, dots), values)
    return tomllib.loads(block)


def _check_limits(depth: int, values: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    if values > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES} values")


def _parse_lines(block: str, separator: str) -> dict[str, Any]:
    """Read each ``key: value`` line by itself, for a block that is not valid as a whole."""
    pairs = (line.partition(separator) for line in block.splitlines() if line[:1].strip())
    return {key.strip(): value.strip().strip("\"'") for key, found, value in pairs if found}


def _to_json_value(value: Any) -> Any:
    """Convert a value to one that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _to_json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_to_json_value(inner) for inner in value]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")  # no store takes NUL
    if isinstance(value, int):
        return hex(value) if value.bit_length() > _MAX_INT_BITS else value
    if value is None:
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    return str(value)
