"""Indexes of their own for large agents: what they are called, and whether they are there.

An index that all tenants share would have to be searched past what is others', and a small agent is
compared exactly sooner. So each space that has grown large, and the words of each agent that has,
get a partial index on the partition that their tenant is in; see building.py. Names say whose an
index is; that it is there and whole is read along with rows that are read anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

from memwell.reports import Check
from memwell.store.contract.values import Space
from memwell.store.postgres.schema import SCHEMA
from memwell.store.postgres.server import Session
from memwell.store.postgres.sql import of_agent

SMALLEST = 20_000
"""Passages from which on an index answers much sooner: measured, see docs/postgres.md."""
MOST_DIMENSIONS = 4_000
"""What pgvector's HNSW takes, of two bytes each."""


def begins_with(kind: str, tenant: str) -> str:
    """Return what the names of a tenant's indexes begin with, in SQL."""
    return f"'{kind}_' || left(md5({tenant}), 12) || '_'"


def vector_index_name(table: str) -> str:
    """Return the name of the index of a row of ``spaces``, in SQL."""
    return f"{begins_with('near', f'{table}.tenant')} || {table}.id"


def text_index_name(table: str) -> str:
    """Return the name of the index of the words of a row of ``indexes``, in SQL."""
    return f"{begins_with('said', f'{table}.tenant')} || left(md5({table}.agent), 12)"


def vector_index(table: str) -> str:
    """Return the index of a row of ``spaces``, in SQL; "" if it is not there or not whole."""
    return f"""
        coalesce((
            SELECT i.relname::text FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
            WHERE x.indexrelid = to_regclass('{SCHEMA}.' || {vector_index_name(table)}) AND x.indisvalid
        ), '')
    """


def text_index(table: str) -> str:
    """Return the index of the words of a row of ``indexes``, in SQL; "" if there is none.

    pg_textsearch is asked by the name of an index of the whole table, of which that of the
    partition is a part.
    """
    return f"""
        CASE WHEN {table}.said AND EXISTS (
            SELECT 1 FROM pg_inherits h JOIN pg_index x ON x.indexrelid = h.inhrelid
            WHERE h.inhparent = to_regclass('{SCHEMA}.' || {text_index_name(table)}) AND x.indisvalid
        ) THEN {text_index_name(table)} ELSE '' END
    """


def as_half_precision(vector: str, dimensions: int) -> str:
    """Return a vector, in SQL, as an index has it: with half as many bytes."""
    return f"({vector}::halfvec({dimensions:d}))"


def missing_checks(session: Session, live: Space | None) -> Iterator[Check]:
    """Yield what to do where an agent is large and has no index of its own."""
    asked = f"""
        SELECT i.chunks, {text_index("i")} = '' AND EXISTS (
            SELECT 1 FROM pg_extension WHERE extname = 'pg_textsearch'
        )
        FROM indexes i WHERE {of_agent("i")}
    """
    passages, words = session.row(asked) or (0, False)
    meaning = live and not live.location and live.dimensions <= MOST_DIMENSIONS
    what = [name for name, missing in (("meaning", meaning), ("words", words)) if missing]
    if what and passages >= SMALLEST:
        detail = f"{passages:,} passages have no index of their own for {' and '.join(what)}"
        yield Check(
            "indexes", False, detail, "Run `memwell store index` as the owner of the tables"
        )
