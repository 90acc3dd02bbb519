"""Builds the indexes of large agents while other processes go on reading and writing.

Vectors get an HNSW index for each space. Words get a BM25 index if the database has pg_textsearch:
the build writes the tokens of all chunks as texts, every writer does so from then on, and the index
is built over these texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from memwell.errors import IndexDatabaseError
from memwell.store.contract.values import RETIRED
from memwell.store.postgres import texts
from memwell.store.postgres.agent_indexes import (
    MOST_DIMENSIONS,
    TEXT_INDEX,
    VECTOR_INDEX,
    agent_key,
    as_half_precision,
    hash_agent,
    name_prefix,
    text_index,
    text_index_name,
    vector_index,
    vector_index_name,
)
from memwell.store.postgres.health import OLDEST_PGVECTOR, parse_version
from memwell.store.postgres.schema import SCHEMA
from memwell.store.postgres.server import Server
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import of_agent
from memwell.store.postgres.tokenizer import tokens_of
from memwell.store.words.normalise import WordRow

_BATCH = 1_000
"""Chunks whose texts are written in one transaction, which keeps other writers waiting."""


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index that was built."""

    agent: str
    passages: int
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The indexes that were built, and the names of unused or incomplete ones that were dropped."""

    built: list[BuiltIndex] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    wordless: list[str] = field(default_factory=list)
    """Large agents without a text index, since the database lacks pg_textsearch."""


@dataclass(frozen=True, slots=True)
class _MissingIndex:
    """An index that a large agent lacks, and the function that builds it, if it can be built."""

    agent: str
    passages: int
    what: str
    build: Callable[[Session], None] | None


def build(
    server: Server, agent: str | None, smallest: int, tell: Callable[[BuiltIndex], None]
) -> BuildReport:
    """Build the indexes that large agents of a tenant (or one agent) lack, and drop unused ones.

    `tell` is called with each index when it is built.
    """
    report = BuildReport()
    with server.maintenance_connection() as connection:
        session = Session(connection, server.tenant, "")
        _require_owner(session, server.location)
        _hold_build_lock(session, server.location)
        for name, is_partitioned in _unused_indexes(session):
            _drop(session, name, is_partitioned=is_partitioned)
            report.removed.append(name)
        for missing in (
            *_missing_vector_indexes(session, smallest),
            *_missing_text_indexes(session, smallest),
        ):
            if agent not in (None, missing.agent):
                continue
            if missing.build is None:
                report.wordless.append(missing.agent)
            else:
                begun = time.monotonic()
                missing.build(Session(connection, server.tenant, missing.agent))
                seconds = round(time.monotonic() - begun, 1)
                report.built.append(
                    BuiltIndex(missing.agent, missing.passages, missing.what, seconds)
                )
                tell(report.built[-1])
    return report


def _require_owner(session: Session, location: str) -> None:
    role, owner, is_owner, version = session.row(
        """
        SELECT current_user, pg_get_userbyid(t.relowner), pg_has_role(t.relowner, 'USAGE'),
               x.extversion
        FROM pg_class t JOIN pg_extension x ON x.extname = 'vector'
        WHERE t.oid = 'vectors'::regclass AND %(tenant)s != ''
        """
    )
    if not is_owner:
        raise IndexDatabaseError(
            f"{location}: only {owner}, who owns the tables, can build indexes, not {role}",
            f"Run it as {owner}: memwell --store postgresql://{owner}@HOST/DATABASE store index",
        )
    if parse_version(version) < OLDEST_PGVECTOR:
        raise IndexDatabaseError(
            f"{location} has pgvector {version}, whose indexes lose hits if a search has filters",
            "Install pgvector 0.8 or newer, then run `ALTER EXTENSION vector UPDATE`",
        )


def _hold_build_lock(session: Session, location: str) -> None:
    """Keep other processes from building for the tenant.

    It does not wait for the lock: the other build would wait for the transaction that waits here.
    """
    lock = "SELECT pg_try_advisory_lock(hashtextextended('memwell indexing ' || %(tenant)s, 0))"
    if not session.value(lock):
        raise IndexDatabaseError(
            f"Another process is building indexes in {location}", "Wait until it is done"
        )


def _unused_indexes(session: Session) -> list[tuple[str, bool]]:
    """Return the indexes of interrupted builds, and of spaces and agents that no longer exist.

    An index whose predicate names the tenant, as old versions made them, is one of them. Each
    comes with whether it is partitioned. A partitioned index sorts before its part, which is
    dropped with it.
    """
    return session.rows(
        f"""
        SELECT i.relname, i.relkind = 'I' FROM pg_class i
        WHERE i.relnamespace = '{SCHEMA}'::regnamespace AND (
            starts_with(i.relname, {name_prefix(VECTOR_INDEX, "%(tenant)s")})
            AND i.relname NOT IN (
                SELECT {vector_index("s")} FROM spaces s WHERE s.tenant = %(tenant)s
            )
            OR starts_with(i.relname, {name_prefix(VECTOR_INDEX, "%(tenant)s")})
            AND strpos(pg_get_indexdef(i.oid), 'tenant = ') > 0
            OR starts_with(i.relname, {name_prefix(TEXT_INDEX, "%(tenant)s")})
            AND strpos(pg_get_indexdef(i.oid), 'tenant = ') > 0
            OR starts_with(i.relname, {name_prefix(TEXT_INDEX, "%(tenant)s")})
            AND replace(i.relname, '_part', '') NOT IN (
                SELECT {text_index("w")} FROM indexes w WHERE w.tenant = %(tenant)s
            )
        )
        ORDER BY i.relname
        """
    )


def _drop(session: Session, name: str, *, is_partitioned: bool) -> None:
    """Drop an index; a partitioned one locks the whole table for a moment.

    It waits for that lock only so long, since every later statement waits behind it.
    """
    connection = session.connection
    if not is_partitioned:
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {SCHEMA}.{name}")
        return
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '10s'")
        connection.execute(f"DROP INDEX IF EXISTS {SCHEMA}.{name}")


# -- vector indexes --------------------------------------------------------------------------------


def _missing_vector_indexes(session: Session, smallest: int) -> Iterator[_MissingIndex]:
    """Yield the vector indexes that large spaces lack."""
    rows = session.rows(
        f"""
        SELECT s.agent, count(DISTINCT v.chunk_id), {vector_index_name("s")}, s.id, s.dimensions,
               min(v.tableoid)::regclass::text
        FROM spaces s JOIN vectors v
            ON v.tenant = s.tenant AND v.agent = s.agent AND v.space_id = s.id
        WHERE s.tenant = %(tenant)s AND s.state != '{RETIRED}' AND v.vector IS NOT NULL
            AND s.dimensions <= {MOST_DIMENSIONS} AND {vector_index("s")} = ''
        GROUP BY s.tenant, s.agent, s.id, s.dimensions HAVING count(*) >= %(smallest)s
        ORDER BY s.agent, s.id
        """,
        smallest=smallest,
    )
    for agent, passages, *index in rows:
        yield _MissingIndex(agent, passages, "meaning (hnsw)", partial(_build_vector_index, *index))


def _build_vector_index(
    name: str, space: int, dimensions: int, partition: str, session: Session
) -> None:
    # The number of a space is unique: the predicate, which everybody can read, names no tenant.
    vector = as_half_precision("vector", dimensions)
    where = f"space_id = {space:d} AND vector IS NOT NULL"
    session.connection.execute(
        f"CREATE INDEX CONCURRENTLY {name} ON {partition}"
        f" USING hnsw ({vector} halfvec_ip_ops) WHERE {where}"
    )


# -- text indexes ----------------------------------------------------------------------------------


def _missing_text_indexes(session: Session, smallest: int) -> Iterator[_MissingIndex]:
    """Yield the text indexes that large agents lack; only pg_textsearch can build them."""
    rows = session.rows(
        f"""
        SELECT w.agent, w.chunks, {text_index_name("w")},
               EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'pg_textsearch')
        FROM indexes w
        WHERE w.tenant = %(tenant)s AND w.chunks >= %(smallest)s AND {text_index("w")} = ''
        ORDER BY w.agent
        """,
        smallest=smallest,
    )
    for agent, passages, name, has_textsearch in rows:
        build = partial(_build_text_index, name) if has_textsearch else None
        yield _MissingIndex(agent, passages, "words (bm25)", build)


def _build_text_index(name: str, session: Session) -> None:
    bm25 = (
        "USING bm25 (tokens) WITH (text_config = 'simple', k1 = 1.2, b = 0.75)"
        f" WHERE {agent_key()} = '{hash_agent(session.tenant, session.agent)}'"
    )
    with session.connection.transaction():
        session.connection.execute("SET LOCAL lock_timeout = '10s'")
        # A process that writes notes locks this row first, so every later one writes texts, too.
        session.run(f"UPDATE indexes i SET has_texts = true WHERE {of_agent('i')}")
        session.connection.execute(f"CREATE INDEX {name} ON ONLY chunk_texts {bm25}")
    _write_texts(session)
    partition = session.value(
        f"SELECT t.tableoid::regclass::text FROM chunk_texts t WHERE {of_agent('t')} LIMIT 1"
    )
    session.connection.execute(f"CREATE INDEX CONCURRENTLY {name}_part ON {partition} {bm25}")
    session.connection.execute(f"ALTER INDEX {name} ATTACH PARTITION {name}_part")


def _write_texts(session: Session) -> None:
    """Write the texts of all chunks, one batch in each transaction."""
    statement = f"""
        SELECT c.id, c.text, c.heading, n.names, n.path
        FROM chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id WHERE {of_agent("c")}
    """
    for rows in session.stream(statement, _BATCH):
        counts = {row[0]: tokens_of(WordRow(*row)).frequencies() for row in rows}
        with session.connection.transaction():
            session.lock_index()
            texts.insert(session, counts)
