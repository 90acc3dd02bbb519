"""Filters as SQL conditions on ``chunks c`` and ``notes n``."""

from __future__ import annotations

import json
from collections.abc import Iterator

from memwell.store.contract.query import Filters, path_globs
from memwell.store.contract.values import FACT_RECIPE


def filter_sql(filters: Filters) -> tuple[str, list[str | int]]:
    """Return conditions to append after WHERE ... (each begins with AND), and their values."""
    conditions: list[str] = []
    values: list[str | int] = []
    for condition, *parameters in _conditions(filters):
        conditions.append(f" AND {condition}")
        values += parameters
    return "".join(conditions), values


def _conditions(filters: Filters) -> Iterator[tuple[str, *tuple[str | int, ...]]]:
    if filters.workspaces is not None:
        marks = ", ".join("?" * len(filters.workspaces))
        yield f"n.workspace_id IN ({marks})", *filters.workspaces
    if filters.valid_at is not None:
        yield f"(n.recipe != '{FACT_RECIPE}' OR {_VALID})", filters.valid_at, filters.valid_at
    yield from _paths(filters)
    for tag in filters.tags:
        yield f"EXISTS {_TAGGED}", tag.casefold(), f"{tag.casefold()}/*"
    for tag in filters.not_tags:
        yield f"NOT EXISTS {_TAGGED}", tag.casefold(), f"{tag.casefold()}/*"
    yield from _dates(filters)


def _dates(filters: Filters) -> Iterator[tuple[str, *tuple[str, ...]]]:
    bounds = [("n.date >= ?", filters.after), ("n.date < ?", filters.before)]
    conditions = [condition for condition, bound in bounds if bound]
    values = [bound for _, bound in bounds if bound]
    inside = " AND ".join(conditions)
    if not inside:
        return
    if filters.undated:
        inside = f"(n.date IS NULL OR ({inside}))"
    if filters.at_any_time:
        inside = f"({inside} OR n.path IN (SELECT value FROM json_each(?)))"
        values.append(json.dumps(sorted(filters.at_any_time)))
    yield inside, *values


def _paths(filters: Filters) -> Iterator[tuple[str, *tuple[str, ...]]]:
    if filters.exact_paths is not None:
        yield "n.path IN (SELECT value FROM json_each(?))", json.dumps(sorted(filters.exact_paths))
    if filters.paths:
        wanted = [glob for path in filters.paths for glob in path_globs(path)]
        yield f"({' OR '.join(['lower(n.path) GLOB ?'] * len(wanted))})", *wanted
    for path in filters.not_paths:
        for glob in path_globs(path):
            yield "lower(n.path) NOT GLOB ?", glob


_VALID = "(n.meta ->> 'from' <= ? AND coalesce(n.meta ->> 'until', '9999') > ?)"
_TAGGED = "(SELECT 1 FROM tags t WHERE t.note_id = n.id AND (t.tag = ? OR t.tag GLOB ?))"
