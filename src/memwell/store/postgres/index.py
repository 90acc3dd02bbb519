"""One agent's index in PostgreSQL: the same verbs as SQLite's, in tables that many share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from memwell.errors import MemwellError
from memwell.model import Viewer
from memwell.reports import Check
from memwell.store.contract.index import WAIT_MS, Index, Notes
from memwell.store.postgres import agent_indexes, health, posting_lists
from memwell.store.postgres.cache import PostgresVectorCache
from memwell.store.postgres.cooldowns import PostgresCooldowns
from memwell.store.postgres.leases import hold_leases
from memwell.store.postgres.notes import PostgresNotes
from memwell.store.postgres.posting_rows import convert_rows
from memwell.store.postgres.postings import HAS_LISTS, POSTINGS_VERSION, ROWS_VERSION
from memwell.store.postgres.reader import FIRST, PostgresReader
from memwell.store.postgres.schema import ALL_SCOPES, INDEX_TABLES
from memwell.store.postgres.server import Server
from memwell.store.postgres.session import Session
from memwell.store.postgres.spaces import PostgresSpaces
from memwell.store.postgres.sql import delete_sql, of_agent

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Space
    from memwell.store.contract.vectors import Take

T = TypeVar("T")
_KEPT = ("workspace_list", "vector_cache")
"""Tables that `delete` keeps: the next sync rebuilds the index from them."""


class PostgresIndex(Index):
    """The index of one agent; one process at a time writes its notes."""

    exists = True
    shared = True

    def __init__(self, server: Server, agent: str) -> None:
        self._server = server
        self._agent = agent
        self._scopes = ALL_SCOPES
        self.location = server.location
        self._keyword_index_checked = Event()  # shared with the copies that `for_viewer` returns

    @property
    def server(self) -> Server:
        """The server, as the tenant of this index uses it."""
        return self._server

    def for_viewer(self, viewer: Viewer) -> PostgresIndex:
        """Return the same index; its readers see all notes, but only the facts of the viewer."""
        other = copy(self)
        other._scopes = scope_owners(viewer)
        return other

    @property
    def bytes(self) -> int:
        """The approximate size of the texts and vectors that the viewer sees."""
        with self._server.reading(self._agent, self._scopes) as session:
            texts = session.value(f"SELECT sum(length(c.text)) FROM chunks c WHERE {of_agent('c')}")
            vectors = session.value(
                f"SELECT sum(pg_column_size(v.vector)) FROM vectors v WHERE {of_agent('v')}"
            )
        return int((texts or 0) + (vectors or 0))

    @contextmanager
    def writing(self, wait_ms: int = WAIT_MS) -> Iterator[PostgresNotes]:
        with self._locked(wait_ms) as session:
            notes = _open_notes(session)
            yield notes
            notes.flush()

    @contextmanager
    def reading(self) -> Iterator[PostgresReader]:
        with self._server.reading(self._agent, self._scopes, FIRST) as session:
            yield PostgresReader(session)

    def reading_beside(self, notes: Notes) -> AbstractContextManager[PostgresReader]:
        if isinstance(notes, PostgresNotes):
            return nullcontext(PostgresReader(notes.session))
        return self.reading()

    @contextmanager
    def writing_spaces(self) -> Iterator[PostgresSpaces]:
        with self._server.writing(self._agent) as session:
            _ensure_row(session)
            yield PostgresSpaces(session)

    @contextmanager
    def writing_cooldowns(self, wait_ms: int = WAIT_MS) -> Iterator[PostgresCooldowns]:
        with self._server.writing(self._agent, wait_ms) as session:
            yield PostgresCooldowns(session)

    def leasing(self) -> AbstractContextManager[Take]:
        return hold_leases(self._server, self._agent)

    def cache(self, most_bytes: int) -> PostgresVectorCache:
        return PostgresVectorCache(self._server, self._agent, most_bytes)

    def put_vectors(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        with self._server.writing(self._agent) as session:
            PostgresSpaces(session).put(space, windows)

    def drop_space(self, space: Space) -> None:
        with self.writing_spaces() as spaces:
            spaces.drop(space)

    def ensure_keyword_index(self) -> bool:
        """Rebuild the keyword index if it is old; check this only once."""
        if not self._keyword_index_checked.is_set():
            with self.reading() as reader:
                is_old = bool(reader.keywords.problem())
            if is_old:
                with self.writing():
                    pass
            self._keyword_index_checked.set()
        return True

    def rebuild_keyword_index(self) -> None:
        with self._locked(WAIT_MS) as session:
            _open_notes(session).rebuild_words()

    def check_integrity(self) -> list[str]:
        """Compare the stored number of chunks with the chunks, if the role sees all of them."""
        with self._server.reading(self._agent) as session:
            if self._server.is_bound_to_scopes:
                return []
            counted, stored = session.row(
                f"""
                SELECT (SELECT count(*) FROM chunks c WHERE {of_agent("c")}),
                       (SELECT coalesce(sum(i.chunks), 0) FROM indexes i WHERE {of_agent("i")})
                """
            )
        if counted == stored:
            return []
        return [f"the index has {counted} chunks, but its stored count is {stored}"]

    def run_checks(self) -> Iterator[Check]:
        """Check the server; before that, migrate the database if the role may."""
        lacking: list[Check] = []
        with suppress(MemwellError), self._server.reading(self._agent) as session:
            lacking = [*agent_indexes.missing_checks(session, PostgresSpaces(session).live())]
        with self._server.unmigrated() as session:
            yield from health.run_checks(session)
        yield from lacking

    def delete(self) -> None:
        with self._locked(WAIT_MS) as session:
            session.connection.execute("SET LOCAL statement_timeout = 0")
            lacking = () if _has_lists(session) else ("posting_lists",)
            for table in INDEX_TABLES:
                if table not in (*_KEPT, *lacking):
                    session.run(delete_sql(table))

    def retrying(self, operation: Callable[[], T]) -> T:
        return self._server.retrying(operation)

    def close(self) -> None:
        self._server.close()

    @contextmanager
    def _locked(self, wait_ms: int) -> Iterator[Session]:
        """Keep other processes from writing notes until the transaction ends; readers go on."""
        with self._server.writing(self._agent, wait_ms) as session:
            _ensure_row(session)
            session.lock_index()
            yield session


def _open_notes(session: Session) -> PostgresNotes:
    """Return the notes for writing, with a keyword index of the present version.

    Postings in rows become arrays as soon as the database has the table for them.
    """
    built = session.value(f"SELECT words_version FROM indexes i WHERE {of_agent('i')}")
    if built == POSTINGS_VERSION:
        return PostgresNotes(session)
    has_lists = _has_lists(session)
    notes = PostgresNotes(session, in_rows=not has_lists)
    newest = POSTINGS_VERSION if has_lists else ROWS_VERSION
    if built != newest:
        session.connection.execute("SET LOCAL statement_timeout = 0")
        if built == ROWS_VERSION:
            convert_rows(session, posting_lists.BLOCK)
        else:
            notes.rebuild_words()
        statement = f"UPDATE indexes i SET words_version = %(new)s WHERE {of_agent('i')}"
        session.run(statement, new=newest)
    return notes


def _has_lists(session: Session) -> bool:
    """Whether the database stores postings as arrays: its owner has migrated it."""
    return bool(session.value(f"SELECT {HAS_LISTS} WHERE %(tenant)s != ''"))


def _ensure_row(session: Session) -> None:
    session.run(
        f"""
        INSERT INTO indexes (tenant, agent, words_version)
        SELECT %(tenant)s, %(agent)s,
               CASE WHEN {HAS_LISTS} THEN {POSTINGS_VERSION} ELSE {ROWS_VERSION} END
        ON CONFLICT (tenant, agent) DO NOTHING
        """
    )


def scope_owners(viewer: Viewer) -> tuple[str, ...]:
    """Return the values of the column `owner` that a viewer sees, besides '' for notes."""
    return tuple(f"{scope}:{target}" for scope, target in viewer.scopes)
