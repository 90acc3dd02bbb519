"""Facts in PostgreSQL, as one viewer sees them.

Every statement that reads is built by `_visible`: it sees the facts of the viewer's scopes, of
one tenant, and no others, whatever a caller asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from psycopg.errors import UniqueViolation

from memwell.errors import IdTakenError, NotFoundError
from memwell.files import digest_of
from memwell.model import Fact, FactEvent, Viewer
from memwell.store.contract.facts import Facts, FactStore
from memwell.store.contract.values import FactFilter
from memwell.store.postgres.index import PostgresIndex, scope_owners
from memwell.store.postgres.server import Server, Session
from memwell.store.postgres.sql import Values
from memwell.store.rows import FACT_COLUMNS, fact_values, group_events

T = TypeVar("T")
_TENANT = "%(tenant)s"


class PostgresFactStore(FactStore):
    """The facts of one tenant."""

    exists = True
    file = None

    def __init__(self, server: Server, home: Path) -> None:
        """The home has the files of agents that are not in the store."""
        self._server = server
        self.home = home
        self.location = server.location

    @contextmanager
    def for_viewer(self, viewer: Viewer) -> Iterator[PostgresFacts]:
        with self._server.reading(scopes=scope_owners(viewer)) as session:
            yield PostgresFacts(session, viewer)

    @contextmanager
    def change(self, viewer: Viewer) -> Iterator[PostgresFacts]:
        """Yield the facts of a viewer for changes; a tenant has one writer at a time.

        So transactions commit in the order of their revisions, and a sync misses none.
        """
        with self._server.writing(scopes=scope_owners(viewer)) as session:
            session.run(
                f"INSERT INTO revisions (tenant, last) VALUES ({_TENANT}, 0)"
                " ON CONFLICT (tenant) DO NOTHING"
            )
            session.run(f"SELECT 1 FROM revisions WHERE tenant = {_TENANT} FOR UPDATE")
            yield PostgresFacts(session, viewer)

    def retrying(self, operation: Callable[[], T]) -> T:
        return self._server.retrying(operation)

    def revision(self) -> int:
        rows = self._server.rows("", f"SELECT last FROM revisions WHERE tenant = {_TENANT}")
        return int(rows[0][0]) if rows else 0

    def pending_erasures(self) -> dict[str, bytes]:
        statement = f"SELECT id, digest FROM pending_erasures WHERE tenant = {_TENANT}"
        return dict(self._server.rows("", statement))

    def clear_pending(self, ids: Iterable[str]) -> None:
        statement = f"DELETE FROM pending_erasures WHERE tenant = {_TENANT} AND id = ANY(%(ids)s)"
        self._server.rows("", statement, ids=[*ids])

    def indexes(self) -> Iterator[PostgresIndex]:
        statement = f"SELECT agent FROM indexes WHERE tenant = {_TENANT}"
        for (agent,) in self._server.rows("", statement):
            yield PostgresIndex(self._server, agent)

    def close(self) -> None:
        self._server.close()


class PostgresFacts(Facts):
    """Reads and writes facts inside one transaction, for one viewer."""

    def __init__(self, session: Session, viewer: Viewer) -> None:
        self._session = session
        self.viewer = viewer

    # -- reading: every statement goes through here ------------------------------------------------

    def _visible(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement over `seen`: only the rows that the viewer may see."""
        restricted = f"""
            WITH RECURSIVE seen AS NOT MATERIALIZED (
                SELECT f.* FROM facts f WHERE f.tenant = {_TENANT} AND EXISTS (
                    SELECT 1 FROM unnest(%(scopes)s::text[], %(targets)s::text[])
                        AS visible (scope, target)
                    WHERE visible.scope = f.scope AND visible.target = f.target
                )
            )
            {statement}
        """
        scopes, targets = zip(*self.viewer.scopes, strict=True)
        return self._session.rows(restricted, scopes=[*scopes], targets=[*targets], **values)

    def find(self, which: FactFilter, limit: int = -1) -> list[Fact]:
        values = Values(limit=None if limit < 0 else limit)
        rows = self._visible(
            f"SELECT {FACT_COLUMNS}, tags FROM seen f WHERE {_conditions(which, values)}"
            " ORDER BY f.id DESC LIMIT %(limit)s",
            **values,
        )
        return [_fact(row) for row in rows]

    def history(self, fact_id: str) -> list[FactEvent]:
        self.get(fact_id)
        rows = self._visible(
            """,
            chain (id) AS (
                SELECT %(id)s::text COLLATE "C"
                UNION SELECT f.id FROM seen f JOIN chain ON f.superseded_by = chain.id
            )
            SELECT e.fact_id, e.at, e.what, e.detail
            FROM fact_events e JOIN seen f ON f.id = e.fact_id
            WHERE e.tenant = %(tenant)s AND e.fact_id IN (SELECT id FROM chain)
            ORDER BY e.at, e.fact_id DESC, e.number
            """,
            id=fact_id,
        )
        return [FactEvent(*row) for row in rows]

    def changed_since(self, revision: int) -> tuple[list[Fact], list[str]]:
        rows = self._visible(
            f"SELECT {FACT_COLUMNS}, tags FROM seen f WHERE f.revision > %(revision)s"
            " ORDER BY f.revision",
            revision=revision,
        )
        gone = self._session.rows(
            f"SELECT id FROM forgotten WHERE tenant = {_TENANT} AND revision > %(revision)s",
            revision=revision,
        )
        return [_fact(row) for row in rows], [fact_id for (fact_id,) in gone]

    def events(self) -> dict[str, list[FactEvent]]:
        rows = self._visible(
            "SELECT e.fact_id, e.at, e.what, e.detail FROM fact_events e"
            f" JOIN seen f ON f.id = e.fact_id WHERE e.tenant = {_TENANT} ORDER BY e.number"
        )
        return group_events(rows)

    # -- writing: only what is visible can be named ------------------------------------------------

    def add(self, fact: Fact, folded: str) -> None:
        row = self._row(fact, folded)
        marks = ", ".join(f"%({name})s" for name in row)
        self._session.run(
            f"INSERT INTO facts (tenant, {', '.join(row)}) VALUES ({_TENANT}, {marks})", **row
        )

    def change(self, fact: Fact, folded: str, what: str, at: str, detail: str = "") -> None:
        self.get(fact.id)
        row = self._row(fact, folded)
        changes = ", ".join(f"{name} = %({name})s" for name in row)
        self._session.run(
            f"UPDATE facts SET {changes} WHERE tenant = {_TENANT} AND id = %(id)s", **row
        )
        self._session.run(
            f"UPDATE fact_events SET scope = %(scope)s, target = %(target)s"
            f" WHERE tenant = {_TENANT} AND fact_id = %(id)s",
            id=fact.id,
            scope=fact.scope,
            target=fact.target,
        )
        self.note(fact.id, at, what, detail)

    def note(self, fact_id: str, at: str, what: str, detail: str = "") -> None:
        self._session.run(
            f"""
            INSERT INTO fact_events (tenant, scope, target, fact_id, at, what, detail)
            SELECT tenant, scope, target, id, %(at)s, %(what)s, %(detail)s FROM facts
            WHERE tenant = {_TENANT} AND id = %(id)s
            """,
            id=fact_id,
            at=at,
            what=what,
            detail=detail,
        )

    def delete(self, ids: Iterable[str]) -> int:
        count = 0
        for fact_id in ids:
            self.get(fact_id)
            self._remove(fact_id)
            self._session.run(
                f"""
                INSERT INTO forgotten (tenant, id, revision)
                VALUES ({_TENANT}, %(id)s, %(revision)s)
                ON CONFLICT (tenant, id) DO UPDATE SET revision = excluded.revision
                """,
                id=fact_id,
                revision=self._next_revision(),
            )
            count += 1
        return count

    def record_pending_erasure(self, facts: Iterable[Fact]) -> None:
        """Record forgotten facts that may still be in an index or a cache."""
        for fact in facts:
            self._session.run(
                f"""
                INSERT INTO pending_erasures (tenant, id, digest)
                VALUES ({_TENANT}, %(id)s, %(digest)s)
                ON CONFLICT (tenant, id) DO UPDATE SET digest = excluded.digest
                """,
                id=fact.id,
                digest=digest_of(fact.text),
            )

    def put(self, fact: Fact, folded: str, events: Iterable[FactEvent]) -> None:
        """Write a fact with its history as they are, in place of the visible one of that id."""
        if (fact.scope, fact.target) not in self.viewer.scopes:
            raise NotFoundError(f"There is no scope {fact.scope} {fact.target}".rstrip())
        try:
            with self._session.connection.transaction():  # a savepoint: all of it or nothing
                if self.find(FactFilter(ids=(fact.id,), superseded=True)):
                    self._remove(fact.id)
                self.add(fact, folded)
                for event in events:
                    self.note(fact.id, event.at, event.what, event.detail)
                self._session.run(
                    f"DELETE FROM forgotten WHERE tenant = {_TENANT} AND id = %(id)s", id=fact.id
                )
        except UniqueViolation as error:
            raise IdTakenError(fact.id) from error

    def _remove(self, fact_id: str) -> None:
        self._session.run(f"DELETE FROM facts WHERE tenant = {_TENANT} AND id = %(id)s", id=fact_id)

    def _row(self, fact: Fact, folded: str) -> dict[str, Any]:
        known = dict(zip(FACT_COLUMNS.split(", "), fact_values(fact), strict=True))
        revision = self._next_revision()
        return known | {"tags": [*fact.tags], "folded": folded, "revision": revision}

    def _next_revision(self) -> int:
        return int(
            self._session.value(
                f"UPDATE revisions SET last = last + 1 WHERE tenant = {_TENANT} RETURNING last"
            )
        )


def _conditions(which: FactFilter, values: Values) -> str:
    """Return the filter as SQL."""
    conditions = ["true"]
    if which.ids is not None:
        conditions.append(f"f.id = ANY({values([*which.ids])})")
    for name in ("scope", "category", "source"):
        if (value := getattr(which, name)) is not None:
            conditions.append(f"f.{name} = {values(value)}")
    if which.normalised is not None:
        same = values(which.normalised)
        conditions.append(f"md5(f.folded) = md5({same}) AND f.folded = {same}")
    if which.tag is not None:
        conditions.append(f"{values(which.tag)} = ANY(f.tags)")
    return " AND ".join([*conditions, *_in_time(which, values)])


def _in_time(which: FactFilter, values: Values) -> Iterator[str]:
    if which.as_of is not None:
        at = values(which.as_of)
        yield f"coalesce(f.valid_from, f.created_at) <= {at}"
        yield f"(f.valid_until IS NULL OR f.valid_until > {at})"
    elif not which.superseded:
        yield "f.superseded_by IS NULL"
    if which.expired_before is not None:
        yield f"f.expires_at <= {values(which.expired_before)}"
    if which.live_at is not None:
        yield f"(f.expires_at IS NULL OR f.expires_at > {values(which.live_at)})"


def _fact(row: Sequence[Any]) -> Fact:
    *columns, tags = row
    known: dict[str, Any] = dict(zip(FACT_COLUMNS.split(", "), columns, strict=True))
    return Fact(**known, tags=tuple(sorted(tags)))
