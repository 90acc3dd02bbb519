"""The steps that lead from an empty schema to the present one; migrate.py takes them.

migrations.sql has the statements of each step. This module adds those that repeat for many tables
or for all partitions of a table.
"""

from __future__ import annotations

from pathlib import Path

from memwell.files import read_migrations
from memwell.store.postgres.schema import OWNERS, PARTITIONS, POLICY, partitions

_FIRST_INDEX_TABLES = (
    "indexes",
    "registered",
    "workspaces",
    "notes",
    "chunks",
    "words",
    "postings",
    "spaces",
    "vectors",
    "rests",
    "cached",
)
_FIRST_FACT_TABLES = ("revisions", "facts", "fact_events", "forgotten", "unfinished")
_LATER_TABLES = ("leases", "commits", "spoken")
_RENAMED_TABLES = {
    "registered": "workspace_list",
    "rests": "cooldowns",
    "cached": "vector_cache",
    "words": "vocabulary",
    "spoken": "chunk_texts",
    "unfinished": "pending_erasures",
}
_OLD_POLICY = "seen"
_SCOPES = "current_setting('memwell.scopes', true)"


def _create_partitions(count: int, *tables: str) -> str:
    """Return the SQL that divides tables by tenant."""
    return "".join(
        f"CREATE TABLE {partition} PARTITION OF {table}"
        f" FOR VALUES WITH (MODULUS {count}, REMAINDER {number});\n"
        for table in tables
        for number, partition in enumerate(partitions(table, count))
    )


def _create_policies(count: int, *tables: str) -> str:
    """Return the SQL that lets a session see the rows of its tenant and scopes only.

    Citus allows no query in a policy.
    """
    return "".join(_create_policy(table, count) for table in tables)


def _create_policy(table: str, count: int) -> str:
    # The words got their owner in a later step.
    owner = None if table == "words" else OWNERS.get(_RENAMED_TABLES.get(table, table))
    return f"CREATE POLICY {_OLD_POLICY} ON {table} USING ({_is_visible(owner)});\n" + "".join(
        f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;\n"
        for name in (table, *partitions(table, count))
    )


def _is_visible(owner: str | None) -> str:
    visible = "tenant = current_setting('memwell.tenant', true)"
    if owner:
        visible += f" AND ({owner} = '' OR {_SCOPES} = '{{*}}'"
        visible += f" OR {owner} = ANY (nullif({_SCOPES}, '')::text[]))"
    return visible


def _rename_policies() -> str:
    return "".join(
        f"ALTER POLICY {_OLD_POLICY} ON {table} RENAME TO {POLICY};\n"
        for table in (*_FIRST_INDEX_TABLES, *_FIRST_FACT_TABLES, *_LATER_TABLES)
    )


def _rename_tables(count: int) -> str:
    """Return the SQL that renames tables, their partitions and the indexes of their keys."""
    return "".join(
        f"ALTER TABLE {old} RENAME TO {new};\nALTER INDEX {old}_pkey RENAME TO {new}_pkey;\n"
        for old_table, new_table in _RENAMED_TABLES.items()
        for old, new in zip(
            (old_table, *partitions(old_table, count)),
            (new_table, *partitions(new_table, count)),
            strict=True,
        )
    )


def _repeated(count: int) -> tuple[str, ...]:
    """Return the SQL that each step adds to its statements."""
    return (
        _create_partitions(count, *_FIRST_INDEX_TABLES),
        _create_partitions(count, *_FIRST_FACT_TABLES),
        _create_policies(count, *_FIRST_INDEX_TABLES, *_FIRST_FACT_TABLES),
        *(
            _create_partitions(count, table) + _create_policies(count, table)
            for table in _LATER_TABLES
        ),
        _rename_policies() + _rename_tables(count),
        f"ALTER POLICY {POLICY} ON vocabulary USING ({_is_visible('owner')});\n",
        "",
        _create_partitions(count, "posting_lists")
        + _create_policies(count, "posting_lists")
        + f"ALTER POLICY {_OLD_POLICY} ON posting_lists RENAME TO {POLICY};\n",
        "",
    )


def steps(count: int) -> tuple[tuple[str, str], ...]:
    """Return the name and the SQL of each step, for tables with a number of partitions."""
    return tuple(
        (name, statements + repeated)
        for (name, statements), repeated in zip(
            read_migrations(Path(__file__).with_suffix(".sql")), _repeated(count), strict=True
        )
    )


OLDEST_SCHEMA = 8
"""The oldest schema that this memwell works with, before somebody who may migrates it."""
NEEDS = {9: 8}
"""How many steps a memwell must know to work with the schema after a step; default all of them."""
MIGRATIONS = steps(PARTITIONS)
