"""Indexes of their own for large agents: partial ones, on the partition that their tenant is in.

An index that all tenants share would have to be searched past what is others'; a small agent is
compared exactly, which is quicker. So whoever owns the tables builds one for each space that has
grown large (`memwell store index`), while others go on reading and writing. Its name says whose it
is; that it is there and whole is read with the row of the space.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from memwell.errors import IndexDatabaseError
from memwell.store.postgres.connect import Server, Session
from memwell.store.postgres.schema import SCHEMA
from memwell.store.spaces import RETIRED, Space

SMALLEST = 20_000
"""Vectors of a space from which on an index answers sooner than comparing all: measured, see
docs/postgres.md."""
MOST_DIMENSIONS = 4_000
"""What pgvector's HNSW takes, of two bytes each."""
_LEAST_PGVECTOR = (0, 8)
"""The first that goes on searching an index until enough passes the filters."""
_MEANING = "meaning (hnsw)"


@dataclass(frozen=True, slots=True)
class Built:
    """An index that was built."""

    agent: str
    passages: int
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """What was built, and the names of what was removed: leftovers, and what nobody uses."""

    built: list[Built] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Lacking:
    """A large space without an index, and the index that it lacks."""

    name: str
    partition: str
    agent: str
    space: int
    dimensions: int
    passages: int


# -- names and expressions, the same when an index is built and when it is asked ------------------


def near(table: str) -> str:
    """Return the name, in SQL, of the index of a row of ``spaces``."""
    return f"{_named('near', f'{table}.tenant')} || {table}.id"


def _named(kind: str, tenant: str) -> str:
    return f"'{kind}_' || left(md5({tenant}), 12) || '_'"


def is_valid(name: str) -> str:
    """Return the name of an index, in SQL, if it is there and whole."""
    return (
        "(SELECT i.relname::text FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
        f" WHERE x.indexrelid = to_regclass('{SCHEMA}.' || {name}) AND x.indisvalid)"
    )


def halved(vector: str, dimensions: int) -> str:
    """Return a vector, in SQL, as an index has it: with half as many bytes."""
    return f"({vector}::halfvec({dimensions:d}))"


def lacking_an_index(passages: int, live: Space | None) -> Iterator[str]:
    """Yield what to do where an agent is large and has no index of its own."""
    if live and not live.place and passages >= SMALLEST and live.dimensions <= MOST_DIMENSIONS:
        yield (
            f"{passages:,} passages and no index of their own, so that each search compares all:"
            " `memwell store index`, run as the owner of the tables, builds one"
        )


# -- building and removing -------------------------------------------------------------------------


def build(server: Server, agent: str | None, smallest: int, tell: Callable[[Built], None]) -> Done:
    """Build what the large agents of a tenant (or one of them) lack, and remove what is left over.

    `tell` is told of each index when it is there.
    """
    done = Done()
    with server.maintaining() as connection:
        session = Session(connection, server.tenant, agent or "")
        _as_owner(session, server.place)
        _alone(session, server.place)
        for name in _left_over(session):
            connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {SCHEMA}.{name}")
            done.removed.append(name)
        for lacking in _lacking(session, smallest):
            if agent in (None, lacking.agent):
                begun = time.monotonic()
                _build(session, lacking)
                seconds = round(time.monotonic() - begun, 1)
                done.built.append(Built(lacking.agent, lacking.passages, _MEANING, seconds))
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
    if tuple(map(int, version.split(".")[:2])) < _LEAST_PGVECTOR:
        raise IndexDatabaseError(
            f"{place} has pgvector {version}, whose indexes lose hits where one filters",
            "Install pgvector 0.8 or newer, then ALTER EXTENSION vector UPDATE",
        )


def _alone(session: Session, place: str) -> None:
    """Let nobody else build for the tenant; not by waiting, which a build would wait for."""
    asked = "SELECT pg_try_advisory_lock(hashtextextended('memwell indexing ' || %(tenant)s, 0))"
    if not session.value(asked):
        raise IndexDatabaseError(
            f"Another process builds indexes in {place}", "Wait until it is done"
        )


def _left_over(session: Session) -> list[str]:
    """Return indexes of the tenant's that an interrupted build left, or whose space is gone."""
    rows = session.rows(
        f"""
        SELECT i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
        WHERE i.relnamespace = '{SCHEMA}'::regnamespace
            AND starts_with(i.relname, {_named("near", "%(tenant)s")})
            AND (NOT x.indisvalid OR i.relname NOT IN (
                SELECT {near("s")} FROM spaces s WHERE s.tenant = %(tenant)s
            ))
        """
    )
    return [name for (name,) in rows]


def _lacking(session: Session, smallest: int) -> list[_Lacking]:
    """Return the large spaces without an index."""
    rows = session.rows(
        f"""
        SELECT {near("s")}, min(v.tableoid)::regclass::text, s.agent, s.id, s.dimensions,
               count(DISTINCT v.chunk_id)
        FROM spaces s JOIN vectors v
            ON v.tenant = s.tenant AND v.agent = s.agent AND v.space_id = s.id
        WHERE s.tenant = %(tenant)s AND s.state != '{RETIRED}' AND v.vector IS NOT NULL
            AND s.dimensions <= {MOST_DIMENSIONS} AND {is_valid(near("s"))} IS NULL
        GROUP BY s.tenant, s.agent, s.id, s.dimensions HAVING count(*) >= %(smallest)s
        ORDER BY s.agent, s.id
        """,
        smallest=smallest,
    )
    return [_Lacking(*row) for row in rows]


def _build(session: Session, lacking: _Lacking) -> None:
    session.literally(
        f"""
        CREATE INDEX CONCURRENTLY {lacking.name} ON {lacking.partition}
        USING hnsw ({halved("vector", lacking.dimensions)} halfvec_ip_ops)
        WHERE tenant = %(tenant)s AND agent = %(whose)s AND space_id = %(space)s
            AND vector IS NOT NULL
        """,
        whose=lacking.agent, space=lacking.space,
    )  # fmt: skip
