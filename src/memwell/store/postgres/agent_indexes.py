"""The indexes of large agents: their names, and whether they exist.

A search in an index that all tenants share would have to skip the rows of all other tenants, and in
a small agent comparing all vectors is faster. So each large vector space and the texts of each
large agent get a partial index on the partition of their tenant; build_indexes.py builds them. The
name of an index says whose it is. Statements that read the row of a space or an agent also read
whether its index exists and is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5

from memwell.reports import Check
from memwell.store.contract.values import Space
from memwell.store.postgres.schema import SCHEMA
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import of_agent

SMALLEST = 20_000
"""From this many passages on an index is much faster: measured, see docs/postgres.md."""
MOST_DIMENSIONS = 4_000
"""The most dimensions, of two bytes each, that pgvector's HNSW supports."""
VECTOR_INDEX, TEXT_INDEX = "vector_index", "text_index"
"""The two kinds of index; a name begins with its kind."""


def name_prefix(kind: str, tenant: str) -> str:
    """Return the prefix that the names of a tenant's indexes share, in SQL."""
    return f"'{kind}_' || left(md5({tenant}), 12) || '_'"


def vector_index_name(table: str) -> str:
    """Return the name of the vector index of a row of ``spaces``, in SQL."""
    return f"{name_prefix(VECTOR_INDEX, f'{table}.tenant')} || {table}.id"


def text_index_name(table: str) -> str:
    """Return the name of the text index of a row of ``indexes``, in SQL."""
    return f"{name_prefix(TEXT_INDEX, f'{table}.tenant')} || left(md5({table}.agent), 12)"


def agent_key(table: str = "") -> str:
    """Return the hash of tenant and agent of a row, in SQL, by which a text index selects rows.

    Everybody can read the predicate of an index, so it must not name the tenant.
    """
    prefix = f"{table}." if table else ""
    return f"md5({prefix}tenant || '/' || {prefix}agent)"


def hash_agent(tenant: str, agent: str) -> str:
    """Return the value of `agent_key`."""
    return md5(f"{tenant}/{agent}".encode(), usedforsecurity=False).hexdigest()


def vector_index(table: str) -> str:
    """Return the vector index of a row of ``spaces``, in SQL; "" without a valid one."""
    return f"""
        coalesce((
            SELECT i.relname::text FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
            WHERE x.indexrelid = to_regclass('{SCHEMA}.' || {vector_index_name(table)})
                AND x.indisvalid
        ), '')
    """


def text_index(table: str) -> str:
    """Return the text index of a row of ``indexes``, in SQL; "" without a valid one.

    A query names an index of the whole table to pg_textsearch; the index of the partition, which
    does the work, is attached to it.
    """
    return f"""
        CASE WHEN {table}.has_texts AND EXISTS (
            SELECT 1 FROM pg_inherits h JOIN pg_index x ON x.indexrelid = h.inhrelid
            WHERE h.inhparent = to_regclass('{SCHEMA}.' || {text_index_name(table)})
                AND x.indisvalid
        ) THEN {text_index_name(table)} ELSE '' END
    """


def as_half_precision(vector: str, dimensions: int) -> str:
    """Return a vector, in SQL, as an index stores it: with half as many bytes."""
    return f"({vector}::halfvec({dimensions:d}))"


def missing_checks(session: Session, live: Space | None) -> Iterator[Check]:
    """Yield a failed check if an agent is large and lacks an index."""
    statement = f"""
        SELECT i.chunks, {text_index("i")} = '' AND EXISTS (
            SELECT 1 FROM pg_extension WHERE extname = 'pg_textsearch'
        )
        FROM indexes i WHERE {of_agent("i")}
    """
    passages, lacks_text_index = session.row(statement) or (0, False)
    lacks_vector_index = live and not live.location and live.dimensions <= MOST_DIMENSIONS
    lacking = (("meaning", lacks_vector_index), ("words", lacks_text_index))
    kinds = [kind for kind, is_lacking in lacking if is_lacking]
    if kinds and passages >= SMALLEST:
        # Not how many there are: the passages of all viewers count.
        detail = f"{SMALLEST:,} passages or more have no index for {' and '.join(kinds)}"
        yield Check(
            "indexes", False, detail, "Run `memwell store index` as the owner of the tables"
        )
