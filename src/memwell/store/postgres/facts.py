"""Facts in PostgreSQL, as one viewer sees them.

Every statement that reads is built by `_visible`: it sees the facts of the viewer's scopes, of
one tenant, and no others, whatever a caller asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from psycopg.errors import UniqueViolation

from memwell.errors import IdTakenError
from memwell.files import digest_of
from memwell.model import Fact, FactEvent, Viewer
from memwell.store.contract.facts import Facts, FactStore
from memwell.store.contract.index import Reader
from memwell.store.contract.values import FactFilter
from memwell.store.postgres.index import PostgresIndex, scope_owners
from memwell.store.postgres.reader import PostgresReader
from memwell.store.postgres.server import Server
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import REVISION, Values, delete_sql, insert_sql, update_sql
from memwell.store.postgres.vacuum import vacuum_texts
from memwell.store.rows import FACT_COLUMNS, fact_conditions, fact_values, group_events, to_fact

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

    def for_viewer_of(
        self, viewer: Viewer, reader: Reader
    ) -> AbstractContextManager[PostgresFacts]:
        if isinstance(reader, PostgresReader):
            return nullcontext(PostgresFacts(reader.session, viewer))
        return self.for_viewer(viewer)

    @contextmanager
    def change(self, viewer: Viewer) -> Iterator[PostgresFacts]:
        """Yield the facts of a viewer for changes; a tenant has one writer at a time.

        So transactions commit in the order of their revisions, and a sync misses none.
        """
        with self._server.writing(scopes=scope_owners(viewer)) as session:
            if session.is_bound:
                session.run(f"SELECT lock_facts() WHERE {_TENANT} != ''")
            else:
                session.run(
                    f"INSERT INTO revisions (tenant, last) VALUES ({_TENANT}, 0)"
                    " ON CONFLICT (tenant) DO NOTHING"
                )
                session.run(f"SELECT 1 FROM revisions WHERE tenant = {_TENANT} FOR UPDATE")
            yield PostgresFacts(session, viewer)

    def retrying(self, operation: Callable[[], T]) -> T:
        return self._server.retrying(operation)

    def revision(self, reader: Reader | None = None) -> int:
        if isinstance(reader, PostgresReader):
            return int(reader.session.value(REVISION) or 0)
        rows = self._server.rows("", REVISION)
        return int(rows[0][0]) if rows else 0

    def pending_erasures(self) -> dict[str, bytes]:
        statement = f"SELECT id, digest FROM pending_erasures WHERE tenant = {_TENANT}"
        return dict(self._server.rows("", statement))

    def clear_pending(self, ids: Iterable[str]) -> None:
        statement = f"DELETE FROM pending_erasures WHERE tenant = {_TENANT} AND id = ANY(%(ids)s)"
        self._server.rows("", statement, ids=[*ids])

    def vacuum(self) -> str:
        return vacuum_texts(self._server)

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
        return [to_fact(row, tags) for *row, tags in rows]

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
        return [to_fact(row, tags) for *row, tags in rows], [fact_id for (fact_id,) in gone]

    def events(self) -> dict[str, list[FactEvent]]:
        rows = self._visible(
            "SELECT e.fact_id, e.at, e.what, e.detail FROM fact_events e"
            f" JOIN seen f ON f.id = e.fact_id WHERE e.tenant = {_TENANT} ORDER BY e.number"
        )
        return group_events(rows)

    # -- writing: only what is visible can be named ------------------------------------------------

    def add(self, fact: Fact, folded: str) -> None:
        row = self._row(fact, folded)
        self._session.run(insert_sql("facts", row), **row)

    def _update(self, fact: Fact, folded: str) -> None:
        row = self._row(fact, folded)
        self._session.run(update_sql("facts", row), **row)
        self._session.run(
            f"UPDATE fact_events SET scope = %(scope)s, target = %(target)s"
            f" WHERE tenant = {_TENANT} AND fact_id = %(id)s",
            id=fact.id,
            scope=fact.scope,
            target=fact.target,
        )

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

    def _remove(self, fact_id: str) -> None:
        if self._session.is_bound:
            self._session.run(f"SELECT delete_fact(%(id)s) WHERE {_TENANT} != ''", id=fact_id)
        else:
            self._session.run(delete_sql("facts", "t.id = %(id)s"), id=fact_id)

    def _mark_forgotten(self, fact_id: str, forgotten: bool = True) -> None:
        if self._session.is_bound:
            if forgotten:
                statement = f"SELECT mark_forgotten(%(id)s) WHERE {_TENANT} != ''"
                self._session.run(statement, id=fact_id)
            return
        self._session.run(delete_sql("forgotten", "t.id = %(id)s"), id=fact_id)
        if forgotten:
            row = {"id": fact_id, "revision": self._next_revision()}
            self._session.run(insert_sql("forgotten", row), **row)

    def record_pending_erasure(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            row = {"id": fact.id, "digest": digest_of(fact.text)}
            if self._session.is_bound:
                statement = f"SELECT record_erasure(%(id)s, %(digest)s) WHERE {_TENANT} != ''"
                self._session.run(statement, **row)
                continue
            self._session.run(insert_sql("pending_erasures", row, key=("id",)), **row)

    @contextmanager
    def _unless_taken(self, fact_id: str) -> Iterator[None]:
        try:
            with self._session.connection.transaction():
                yield
        except UniqueViolation as error:
            raise IdTakenError(fact_id) from error

    def _row(self, fact: Fact, folded: str) -> dict[str, Any]:
        known = dict(zip(FACT_COLUMNS.split(", "), fact_values(fact), strict=True))
        revision = self._next_revision()
        return known | {"tags": [*fact.tags], "folded": folded, "revision": revision}

    def _next_revision(self) -> int:
        statement = f"UPDATE revisions SET last = last + 1 WHERE tenant = {_TENANT} RETURNING last"
        if self._session.is_bound:
            statement = f"SELECT next_revision() WHERE {_TENANT} != ''"
        return int(self._session.value(statement))


def _conditions(which: FactFilter, values: Values) -> str:
    """Return the filter as SQL."""
    conditions = [*fact_conditions(which, values)]
    if which.ids is not None:
        conditions.append(f"f.id = ANY({values([*which.ids])})")
    if which.normalised is not None:
        same = values(which.normalised)
        conditions.append(f"md5(f.folded) = md5({same}) AND f.folded = {same}")
    if which.tag is not None:
        conditions.append(f"{values(which.tag)} = ANY(f.tags)")
    return " AND ".join(conditions)
