"""Building indexes of their own for large agents, while others go on reading and writing.

For meaning: HNSW over a space. For words, where the server has pg_textsearch: the tokens of chunks
are written as texts, from then on by every writer, and then a BM25 index over them is built.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from memwell.errors import IndexDatabaseError
from memwell.store.contract.values import RETIRED
from memwell.store.postgres.agent_indexes import (
    MOST_DIMENSIONS,
    as_half_precision,
    begins_with,
    text_index,
    text_index_name,
    vector_index,
    vector_index_name,
)
from memwell.store.postgres.health import OLDEST_PGVECTOR, numbers
from memwell.store.postgres.schema import SCHEMA
from memwell.store.postgres.server import Server, Session
from memwell.store.postgres.sql import of_agent
from memwell.store.postgres.texts import insert

_AT_ONCE = 1_000
"""Chunks whose texts are written while no other writes."""


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index that was built."""

    agent: str
    passages: int
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What was built, and the names of what was removed: leftovers, and what nobody uses."""

    built: list[BuiltIndex] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    wordless: list[str] = field(default_factory=list)
    """Large agents without an index for words, as the database lacks pg_textsearch."""


@dataclass(frozen=True, slots=True)
class _MissingIndex:
    """An index that a large agent lacks, and what builds it; None where nothing can."""

    agent: str
    passages: int
    what: str
    make: Callable[[Session], None] | None


def build(
    server: Server, agent: str | None, smallest: int, tell: Callable[[BuiltIndex], None]
) -> BuildReport:
    """Build what the large agents of a tenant (or one of them) lack, and remove what is left over.

    `tell` is told of each index when it is there.
    """
    done = BuildReport()
    with server.maintenance_connection() as connection:
        session = Session(connection, server.tenant, "")
        _as_owner(session, server.location)
        _hold_build_lock(session, server.location)
        for name, over_all in _drop_unused(session):
            _drop(session, name, over_all=over_all)
            done.removed.append(name)
        for lacking in (*_spaces(session, smallest), *_words(session, smallest)):
            if agent not in (None, lacking.agent):
                continue
            if lacking.make is None:
                done.wordless.append(lacking.agent)
            else:
                begun = time.monotonic()
                lacking.make(Session(connection, server.tenant, lacking.agent))
                seconds = round(time.monotonic() - begun, 1)
                done.built.append(
                    BuiltIndex(lacking.agent, lacking.passages, lacking.what, seconds)
                )
                tell(done.built[-1])
    return done


def _as_owner(session: Session, place: str) -> None:
    role, owner, may, version = session.row(
        """
        SELECT current_user, pg_get_userbyid(t.relowner), pg_has_role(t.relowner, 'USAGE'),
               x.extversion
        FROM pg_class t JOIN pg_extension x ON x.extname = 'vector'
        WHERE t.oid = 'vectors'::regclass AND %(tenant)s != ''
        """
    )
    if not may:
        raise IndexDatabaseError(
            f"{place} lets only the owner of its tables build indexes: {owner}, not {role}",
            f"Run it as {owner}: memwell --store postgresql://{owner}@HOST/DATABASE store index",
        )
    if numbers(version) < OLDEST_PGVECTOR:
        raise IndexDatabaseError(
            f"{place} has pgvector {version}, whose indexes lose hits where one filters",
            "Install pgvector 0.8 or newer, then ALTER EXTENSION vector UPDATE",
        )


def _hold_build_lock(session: Session, place: str) -> None:
    """Let nobody else build for the tenant; not by waiting, which a build would wait for."""
    asked = "SELECT pg_try_advisory_lock(hashtextextended('memwell indexing ' || %(tenant)s, 0))"
    if not session.value(asked):
        raise IndexDatabaseError(
            f"Another process builds indexes in {place}", "Wait until it is done"
        )


def _drop_unused(session: Session) -> list[tuple[str, bool]]:
    """Return what an interrupted build left and what is nobody's; whether it is over a whole table.

    Such a one comes before its part, which goes with it.
    """
    return session.rows(
        f"""
        SELECT i.relname, i.relkind = 'I' FROM pg_class i
        WHERE i.relnamespace = '{SCHEMA}'::regnamespace AND (
            starts_with(i.relname, {begins_with("near", "%(tenant)s")})
            AND i.relname NOT IN (
                SELECT {vector_index("s")} FROM spaces s WHERE s.tenant = %(tenant)s
            )
            OR starts_with(i.relname, {begins_with("said", "%(tenant)s")})
            AND replace(i.relname, '_part', '') NOT IN (
                SELECT {text_index("w")} FROM indexes w WHERE w.tenant = %(tenant)s
            )
        )
        ORDER BY i.relname
        """
    )


def _drop(session: Session, name: str, *, over_all: bool) -> None:
    """Drop an index; one over a whole table for a moment locks it, for which it waits only so long.

    Everybody who came later would wait behind.
    """
    connection = session.connection
    if not over_all:
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {SCHEMA}.{name}")
        return
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '10s'")
        connection.execute(f"DROP INDEX IF EXISTS {SCHEMA}.{name}")


# -- meaning ---------------------------------------------------------------------------------------


def _spaces(session: Session, smallest: int) -> Iterator[_MissingIndex]:
    """Yield what large spaces lack."""
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
        yield _MissingIndex(agent, passages, "meaning (hnsw)", partial(_build_space, *index))


def _build_space(name: str, space: int, dimensions: int, partition: str, session: Session) -> None:
    session.rows_inlined(
        f"""
        CREATE INDEX CONCURRENTLY {name} ON {partition}
        USING hnsw ({as_half_precision("vector", dimensions)} halfvec_ip_ops)
        WHERE tenant = %(tenant)s AND agent = %(agent)s AND space_id = %(space)s
            AND vector IS NOT NULL
        """,
        space=space,
    )


# -- words -----------------------------------------------------------------------------------------


def _words(session: Session, smallest: int) -> Iterator[_MissingIndex]:
    """Yield what large agents lack; without pg_textsearch it cannot be built."""
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
    for agent, passages, name, possible in rows:
        make = partial(_build_words, name) if possible else None
        yield _MissingIndex(agent, passages, "words (bm25)", make)


def _build_words(name: str, session: Session) -> None:
    bm25 = """
        USING bm25 (tokens) WITH (text_config = 'simple', k1 = 1.2, b = 0.75)
        WHERE tenant = %(tenant)s AND agent = %(agent)s
    """
    with session.connection.transaction():
        session.connection.execute("SET LOCAL lock_timeout = '10s'")
        # Whoever writes notes holds that row: from then on they write texts, too.
        session.run(f"UPDATE indexes i SET said = true WHERE {of_agent('i')}")
        session.rows_inlined(f"CREATE INDEX {name} ON ONLY spoken {bm25}")
    _write_texts(session)
    partition = session.value(
        f"SELECT s.tableoid::regclass::text FROM spoken s WHERE {of_agent('s')} LIMIT 1"
    )
    session.rows_inlined(f"CREATE INDEX CONCURRENTLY {name}_part ON {partition} {bm25}")
    session.connection.execute(f"ALTER INDEX {name} ATTACH PARTITION {name}_part")


def _write_texts(session: Session) -> None:
    """Write the tokens of all chunks, some at once, out of the postings."""
    counted = f"""
        SELECT p.chunk_id, array_agg(p.token), array_agg(p.frequency)
        FROM postings p WHERE {of_agent("p")} GROUP BY p.chunk_id
    """
    for rows in session.stream(counted, _AT_ONCE):
        with session.connection.transaction():
            session.run(f"SELECT 1 FROM indexes i WHERE {of_agent('i')} FOR NO KEY UPDATE")
            insert(session, {key: zip(tokens, counts, strict=True) for key, tokens, counts in rows})
