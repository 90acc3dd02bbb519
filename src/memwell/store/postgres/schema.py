"""The tables in PostgreSQL, by name; the steps in migrations.py create them.

The tenant is the first column of every key; in the tables of an index, the agent is the second.
The column `owner` says who may see a row of an index: '' for notes, else the scope of the fact that
the row shows. Texts are compared by their bytes, as in SQLite.

Row-level security decides which rows a session sees (`POLICY`): those of the tenant in the setting
`memwell.tenant`, and of the facts those of the scopes in `memwell.scopes`. A session without these
settings sees nothing. A partition has no policy, so it can only be read through its table.
"""

from __future__ import annotations

SCHEMA = "memwell"
PARTITIONS = 8
"""The partitions of each table of a new database, unless `store migrate` is told otherwise."""
POLICY = "tenant_and_scopes"
ALL_SCOPES: tuple[str, ...] = ("*",)
"""All scopes of a tenant: a process that keeps an index up to date must see them."""

INDEX_TABLES = (
    "indexes",
    "workspace_list",
    "workspaces",
    "notes",
    "chunks",
    "vocabulary",
    "postings",
    "posting_lists",
    "spaces",
    "vectors",
    "cooldowns",
    "vector_cache",
    "leases",
    "chunk_texts",
)
FACT_TABLES = ("revisions", "facts", "fact_events", "forgotten", "pending_erasures")
TABLES = (*INDEX_TABLES, *FACT_TABLES, "commits")
"""Every table, after those that it refers to."""

_FACT_OWNER = "scope || ':' || target"
OWNERS = {
    **dict.fromkeys(
        (
            *("workspaces", "notes", "chunks", "vocabulary", "postings", "posting_lists"),
            *("vectors", "chunk_texts"),
        ),
        "owner",
    ),
    **dict.fromkeys(("facts", "fact_events"), _FACT_OWNER),
}
"""The tables that show facts, each with the SQL for the owner of a row."""


def partitions(table: str, count: int) -> list[str]:
    """Return the names of the partitions of a table that has so many."""
    return [f"{table}_{number}" for number in range(count)]
