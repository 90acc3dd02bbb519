"""Filters as SQL conditions on the tables ``chunks c`` and ``notes n``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memwell.store.contract.query import Filters, path_globs
from memwell.store.contract.values import FACT_RECIPE
from memwell.store.postgres.sql import Values


def filter_sql(filters: Filters, values: Values) -> str:
    """Return conditions to append to a WHERE clause; each begins with AND."""
    return "".join(f" AND {condition}" for condition in _conditions(filters, values))


def _conditions(filters: Filters, values: Values) -> Iterator[str]:
    if filters.workspaces is not None:
        yield f"n.workspace_id = ANY({values([*filters.workspaces])})"
    if filters.valid_at is not None:
        at = values(filters.valid_at)
        is_valid = f"n.held_from <= {at} AND coalesce(n.held_until, '9999') > {at}"
        yield f"(n.recipe != '{FACT_RECIPE}' OR {is_valid})"
    if filters.exact_paths is not None:
        yield f"n.path = ANY({values(sorted(filters.exact_paths))})"
    if filters.paths:
        fitting = [glob for path in filters.paths for glob in path_globs(path)]
        yield _fits("n.path", fitting, values)
    for path in filters.not_paths:
        yield f"NOT {_fits('n.path', path_globs(path), values)}"
    for tag in filters.tags:
        yield f"EXISTS {_tagged(tag.casefold(), values)}"
    for tag in filters.not_tags:
        yield f"NOT EXISTS {_tagged(tag.casefold(), values)}"
    yield from _dates(filters, values)


def _dates(filters: Filters, values: Values) -> Iterator[str]:
    bounds = [(">=", filters.after), ("<", filters.before)]
    inside = " AND ".join(f"n.date {sign} {values(bound)}" for sign, bound in bounds if bound)
    if not inside:
        return
    if filters.undated:
        inside = f"(n.date IS NULL OR ({inside}))"
    if filters.at_any_time:
        inside = f"({inside} OR n.path = ANY({values(sorted(filters.at_any_time))}))"
    yield inside


def _fits(column: str, globs: list[str], values: Values) -> str:
    """Return whether a path fits a glob; only ASCII letters lose their case, as in SQLite."""
    patterns: Any = values([pattern(glob) for glob in globs])
    return f'(lower({column} COLLATE "C") ~ ANY({patterns}))'


def _tagged(tag: str, values: Values) -> str:
    same, beneath = values(tag), values(pattern(f"{tag}/*"))
    return f"(SELECT 1 FROM unnest(n.tags) AS t WHERE t = {same} OR t ~ {beneath})"


def pattern(glob: str) -> str:
    """Return the regular expression that matches the same texts as SQLite's GLOB."""
    expression, rest = "^", glob
    while rest:
        sign, rest = rest[0], rest[1:]
        bracket = re.match(r"\^?\]?[^\]]*\]", rest) if sign == "[" else None
        if bracket:
            inside = bracket.group()[:-1].replace("\\", "\\\\").replace("[", "\\[")
            expression, rest = f"{expression}[{inside}]", rest[bracket.end() :]
        elif sign in "*?":
            expression += ".*" if sign == "*" else "."
        else:
            expression += sign if sign.isalnum() else f"\\{sign}"
    return f"{expression}$"
