"""Facts in PostgreSQL, as one viewer sees them; see ../facts.py for what holds of them.

Every statement that reads is built by `_visible`: it sees the facts of the viewer's scopes, of
one tenant, and no others, whatever a caller asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.errors import UniqueViolation

from memwell.errors import IdTakenError, MemwellError, NotFoundError
from memwell.hashing import digest_of
from memwell.model import Fact, FactEvent, Viewer
from memwell.store.postgres.index import Index, scope_owners
from memwell.store.postgres.server import Server, Session
from memwell.store.postgres.sql import Values
from memwell.store.sqlite.facts import COLUMNS, FactFilter, fact_not_found, values_of

if TYPE_CHECKING:
    from memwell.store.sqlite.database import Database

T = TypeVar("T")
_TENANT = "%(tenant)s"


class FactStore:
    """The facts of one tenant."""

    def __init__(self, server: Server, home: Path) -> None:
        """The home is where files of agents lie that are none of the store's."""
        self._server = server
        self.home = home

    @property
    def database(self) -> Database:
        """There is no file; say what to do instead."""
        raise MemwellError(
            f"What was remembered is kept by {self._server.location}, not in a file",
            "Use `memwell export` and `memwell import`, or PostgreSQL's own pg_dump",
        )

    @property
    def exists(self) -> bool:
        """Whether anything can have been remembered yet."""
        return True

    @contextmanager
    def for_viewer(self, viewer: Viewer) -> Iterator[Facts]:
        """Lend one unchanging state, as a viewer sees it."""
        with self._server.reading(seeing=scope_owners(viewer)) as session:
            yield Facts(session, viewer)

    @contextmanager
    def change(self, viewer: Viewer) -> Iterator[Facts]:
        """Lend the facts of a viewer for changes, one writer of a tenant at a time.

        So revisions are in the order in which they are committed, and none is passed over.
        """
        with self._server.writing(seeing=scope_owners(viewer)) as session:
            session.run(
                f"INSERT INTO revisions (tenant, last) VALUES ({_TENANT}, 0)"
                " ON CONFLICT (tenant) DO NOTHING"
            )
            session.run(f"SELECT 1 FROM revisions WHERE tenant = {_TENANT} FOR UPDATE")
            yield Facts(session, viewer)

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation, and again where the server interrupted it."""
        return self._server.retrying(operation)

    def revision(self) -> int:
        """Return a number that grows with every change."""
        rows = self._server.rows("", f"SELECT last FROM revisions WHERE tenant = {_TENANT}")
        return int(rows[0][0]) if rows else 0

    def pending_erasures(self) -> dict[str, bytes]:
        """Return what was forgotten and may have left traces: ids, and the digests of texts."""
        statement = f"SELECT id, digest FROM unfinished WHERE tenant = {_TENANT}"
        return dict(self._server.rows("", statement))

    def clear_pending(self, ids: Iterable[str]) -> None:
        """Note that nothing is left of what was forgotten."""
        statement = f"DELETE FROM unfinished WHERE tenant = {_TENANT} AND id = ANY(%(ids)s)"
        self._server.rows("", statement, ids=[*ids])

    def indexes(self) -> Iterator[Index]:
        """Yield the index of every agent."""
        statement = f"SELECT agent FROM indexes WHERE tenant = {_TENANT}"
        for (agent,) in self._server.rows("", statement):
            yield Index(self._server, agent, self.home / "agents" / agent)

    def scrub(self) -> bool:
        """What was deleted is gone from every answer; the server's vacuum overwrites it."""
        return True

    def copies(self) -> list[Path]:
        """Return none: copies of a server are its owner's."""
        return []

    def close(self) -> None:
        """Let go of every connection."""
        self._server.close()


class Facts:
    """Reads and writes facts inside one transaction, for one viewer."""

    def __init__(self, session: Session, viewer: Viewer) -> None:
        self._session = session
        self.viewer = viewer

    # -- reading: every statement goes through here ------------------------------------------------

    def _visible(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement over `seen`: the rows that the viewer may see, and nothing else."""
        restricted = f"""
            WITH RECURSIVE seen AS NOT MATERIALIZED (
                SELECT f.* FROM facts f WHERE f.tenant = {_TENANT} AND EXISTS (
                    SELECT 1 FROM unnest(%(scopes)s::text[], %(targets)s::text[])
                        AS own (scope, target)
                    WHERE own.scope = f.scope AND own.target = f.target
                )
            )
            {statement}
        """
        scopes, targets = zip(*self.viewer.scopes, strict=True)
        return self._session.rows(restricted, scopes=[*scopes], targets=[*targets], **values)

    def find(self, which: FactFilter, limit: int = -1) -> list[Fact]:
        """Return facts, the newest first."""
        values = Values(limit=None if limit < 0 else limit)
        rows = self._visible(
            f"SELECT {COLUMNS}, tags FROM seen f WHERE {_conditions(which, values)}"
            " ORDER BY f.id DESC LIMIT %(limit)s",
            **values,
        )
        return [_fact(row) for row in rows]

    def get(self, fact_id: str) -> Fact:
        """Return a fact, or say that there is none of that id."""
        found = self.find(FactFilter(ids=(fact_id,), superseded=True))
        if not found:
            raise fact_not_found(fact_id)
        return found[0]

    def history(self, fact_id: str) -> list[FactEvent]:
        """Return what happened to a fact, and to those it superseded, the oldest first."""
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
        """Return what changed after a revision: facts as they are now, and ids that are gone."""
        rows = self._visible(
            f"SELECT {COLUMNS}, tags FROM seen f WHERE f.revision > %(revision)s"
            " ORDER BY f.revision",
            revision=revision,
        )
        gone = self._session.rows(
            f"SELECT id FROM forgotten WHERE tenant = {_TENANT} AND revision > %(revision)s",
            revision=revision,
        )
        return [_fact(row) for row in rows], [fact_id for (fact_id,) in gone]

    def events(self) -> dict[str, list[FactEvent]]:
        """Return what happened to each fact, in the order in which it was noted."""
        rows = self._visible(
            "SELECT e.fact_id, e.at, e.what, e.detail FROM fact_events e"
            f" JOIN seen f ON f.id = e.fact_id WHERE e.tenant = {_TENANT} ORDER BY e.number"
        )
        found: dict[str, list[FactEvent]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(FactEvent(*row))
        return found

    # -- writing: only what is visible can be named ------------------------------------------------

    def add(self, fact: Fact, folded: str) -> None:
        """Write a new fact."""
        row = self._row(fact, folded)
        marks = ", ".join(f"%({name})s" for name in row)
        self._session.run(
            f"INSERT INTO facts (tenant, {', '.join(row)}) VALUES ({_TENANT}, {marks})", **row
        )

    def change(self, fact: Fact, folded: str, what: str, at: str, detail: str = "") -> None:
        """Write a fact over what it was, and note what happened."""
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
        """Record what happened to a fact."""
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
        """Remove facts, and with them what is known of them; return how many there were."""
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
        """Note what may still be in an index or a cache of facts that are forgotten."""
        for fact in facts:
            self._session.run(
                f"""
                INSERT INTO unfinished (tenant, id, digest) VALUES ({_TENANT}, %(id)s, %(digest)s)
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
        known = dict(zip(COLUMNS.split(", "), values_of(fact), strict=True))
        revision = self._next_revision()
        return known | {"tags": [*fact.tags], "folded": folded, "revision": revision}

    def _next_revision(self) -> int:
        return int(
            self._session.value(
                f"UPDATE revisions SET last = last + 1 WHERE tenant = {_TENANT} RETURNING last"
            )
        )


def _conditions(which: FactFilter, values: Values) -> str:
    """Return what a row must satisfy, as SQL."""
    found = ["true"]
    if which.ids is not None:
        found.append(f"f.id = ANY({values([*which.ids])})")
    for name in ("scope", "category", "source"):
        if (value := getattr(which, name)) is not None:
            found.append(f"f.{name} = {values(value)}")
    if which.normalised is not None:
        same = values(which.normalised)
        found.append(f"md5(f.folded) = md5({same}) AND f.folded = {same}")
    if which.tag is not None:
        found.append(f"{values(which.tag)} = ANY(f.tags)")
    return " AND ".join([*found, *_in_time(which, values)])


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
    known: dict[str, Any] = dict(zip(COLUMNS.split(", "), columns, strict=True))
    return Fact(**known, tags=tuple(sorted(tags)))
