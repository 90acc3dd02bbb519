"""What PostgreSQL is given to carry as tenants become many: 10,000, 100,000, a million passages.

Ten tenants of 1,000 passages each are written as memwell writes them; the others are copies of
them under other names, made by SQL, since the sizes are what counts and the rows are the same.
Measured at each step: bytes a passage, and what a hybrid search for one tenant costs the server:
processor time of its backends, and pages looked at. docs/scale.md goes on from there.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from tests.support.postgres import Cluster, cluster

from bench import corpus, data
from bench.measure import seconds, temporary_home
from bench.results import Row
from bench.server import OPTIONS, Tenant, on_server, write
from memwell.store.postgres.schema import TABLES

Connection = psycopg.Connection[Any]

_PASSAGES = 1_000
_FIRST, _STEPS = 10, (10, 100, 1_000)
"""Tenants that memwell writes, and how many there are at each step."""
_EACH = 10
"""Questions to each of the first tenants."""
_SEED = 10
_SHOWN = ("posting_lists", "vectors", "vector_cache", "chunks", "vocabulary")
_SIZES = """
    SELECT regexp_replace(c.relname, '_[0-9]+$', ''), sum(pg_table_size(c.oid))::bigint,
           sum(pg_indexes_size(c.oid))::bigint
    FROM pg_class c WHERE c.relnamespace = 'memwell'::regnamespace AND c.relkind = 'r' GROUP BY 1
"""
_PAGES = """
    SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()
"""


def run() -> list[Row]:
    """Write the first tenants, then copy and measure, step by step."""
    tenants = [
        Tenant(f"tenant-{number}", _PASSAGES, number % len(corpus.SETS)) for number in range(_FIRST)
    ]
    rows: list[Row] = []
    with temporary_home() as folder, cluster(**OPTIONS) as server:
        elapsed = seconds(lambda: write(folder, server.url(), tenants, in_files=False))
        rows.append(Row("writing passages", _FIRST * _PASSAGES / elapsed, "a second"))
        with psycopg.connect(server.url(), autocommit=True) as admin:
            rows.append(Row("  log", _log(admin) / _FIRST / _PASSAGES / 1000, "kB each"))
            for before, step in pairwise((_FIRST, *_STEPS)):
                for number in range(before // _FIRST, step // _FIRST):
                    _copy(admin, tenants, number)
                admin.execute("VACUUM ANALYZE")
                print(f"{step} tenants are there", file=sys.stderr, flush=True)
                rows += _measured(folder, server, admin, tenants, step)
    return rows


def _copy(admin: Connection, tenants: Sequence[Tenant], number: int) -> None:
    """Make other tenants out of the first ones; references need not be looked at again."""
    admin.execute("SET session_replication_role = replica")
    for table in TABLES:
        columns = ", ".join(
            name
            for (name,) in admin.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
                " AND NOT attisdropped AND attname != 'tenant' ORDER BY attnum",
                (f"memwell.{table}",),
            )
        )
        admin.execute(
            f"INSERT INTO memwell.{table} (tenant, {columns})"
            f" SELECT tenant || '-{number}', {columns} FROM memwell.{table} WHERE tenant = ANY(%s)",
            ([tenant.name for tenant in tenants],),
        )


def _measured(
    folder: Path, server: Cluster, admin: Connection, tenants: Sequence[Tenant], step: int
) -> list[Row]:
    passages = step * _PASSAGES
    sizes = {name: (own, keys) for name, own, keys in admin.execute(_SIZES)}
    total = sum(own + keys for own, keys in sizes.values())
    rows = [Row(f"{passages:,} passages, {step} tenants", total / passages / 1000, "kB each")]
    rows += [
        Row(f"  {name} ({part})", size / passages / 1000, "kB each")
        for name in _SHOWN
        for part, size in zip(("rows", "keys"), sizes[name], strict=True)
    ]
    busy, pages, taken = _searched(folder, server, admin, tenants)
    return [
        *rows,
        Row("  a search, p50", 1000 * median(taken), "ms"),
        Row("  a search, processor of the server", 1000 * busy / len(taken), "ms"),
        Row("  a search, pages looked at", pages / len(taken), "pages"),
    ]


def _searched(
    folder: Path, server: Cluster, admin: Connection, tenants: Sequence[Tenant]
) -> tuple[float, int, list[float]]:
    """Return the server's processor time, the pages and the times of some searches, warm."""
    chance = random.Random(_SEED)
    questions = [[one.text for one in data.labelled_set(name).questions] for name in corpus.SETS]
    asked = [(tenant, chance.choice(questions[tenant.source])) for tenant in [*tenants] * _EACH]
    with ExitStack() as open_ones:
        memories = {
            tenant.name: open_ones.enter_context(on_server(folder, server.url(), tenant))
            for tenant in tenants
        }
        for tenant, question in asked:
            memories[tenant.name].search(question)
        busy, pages = server.busy_seconds(), _pages(admin)
        taken = [
            seconds(partial(memories[tenant.name].search, question)) for tenant, question in asked
        ]
        busy = server.busy_seconds() - busy
    return busy, _pages(admin) - pages, taken  # which are told when a connection ends


def _pages(admin: Connection) -> int:
    """Return how many pages were looked at so far."""
    admin.execute("SELECT pg_stat_clear_snapshot()")
    return int(_one(admin, _PAGES))


def _log(admin: Connection) -> int:
    return int(_one(admin, "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))


def _one(admin: Connection, statement: str) -> Any:
    found = admin.execute(statement).fetchone()
    assert found
    return found[0]
