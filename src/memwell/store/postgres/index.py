"""One agent's index in PostgreSQL: the same verbs as SQLite's, in tables that many share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from memwell.errors import MemwellError
from memwell.model import Viewer
from memwell.reports import Check
from memwell.store.contract.index import WAIT_MS
from memwell.store.postgres import agent_indexes, health
from memwell.store.postgres.cache import VectorCache
from memwell.store.postgres.cooldowns import Cooldowns
from memwell.store.postgres.leases import hold_leases
from memwell.store.postgres.notes import Notes
from memwell.store.postgres.reader import Reader
from memwell.store.postgres.schema import ALL_SCOPES, INDEX_TABLES
from memwell.store.postgres.server import Server, Session
from memwell.store.postgres.spaces import Spaces
from memwell.store.postgres.sql import of_agent
from memwell.store.words.normalise import WORDS_VERSION

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.vectors import Take
    from memwell.store.sqlite.spaces import Space

T = TypeVar("T")
_KEPT = ("workspace_list", "vector_cache")
"""Tables that outlive an index that is deleted: what it comes back from."""


class Index:
    """The index of one agent; one process at a time writes its notes."""

    def __init__(self, server: Server, agent: str, folder: Path) -> None:
        """The folder is where files of the agent lie that are none of the store's."""
        self._server = server
        self._agent = agent
        self.path = folder / "index.db"
        self.exists = self.shared = True
        self._scopes = ALL_SCOPES
        self._words_ready = Event()  # which those share whom `seen_by` returns

    def for_viewer(self, viewer: Viewer) -> Index:
        """Return the same index, whose readers see the notes, and of the facts the viewer's."""
        other = copy(self)
        other._scopes = scope_owners(viewer)
        return other

    @property
    def location(self) -> str:
        """Where it is, as people are told."""
        return self._server.location

    @property
    def bytes(self) -> int:
        """How much room the texts and vectors take, about."""
        with self._server.reading(self._agent) as session:
            texts = session.value(f"SELECT sum(length(c.text)) FROM chunks c WHERE {of_agent('c')}")
            vectors = session.value(
                f"SELECT sum(pg_column_size(v.vector)) FROM vectors v WHERE {of_agent('v')}"
            )
        return int((texts or 0) + (vectors or 0))

    @contextmanager
    def writing(self, wait_ms: int = WAIT_MS) -> Iterator[Notes]:
        """Lend the notes for writing, inside one transaction."""
        with self._locked(wait_ms) as session:
            notes = Notes(session)
            self._sync_keyword_index(session, notes)
            yield notes
            notes.flush()

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Lend one unchanging state of the index."""
        with self._server.reading(self._agent, self._scopes) as session:
            yield Reader(session)

    @contextmanager
    def writing_spaces(self, wait_ms: int = WAIT_MS) -> Iterator[Spaces]:
        """Lend the vector spaces for writing, inside one transaction."""
        with self._server.writing(self._agent, wait_ms) as session:
            _ensure_row(session)
            yield Spaces(session)

    @contextmanager
    def writing_cooldowns(self, wait_ms: int = WAIT_MS) -> Iterator[Cooldowns]:
        """Lend the list of providers that are left alone for writing."""
        with self._server.writing(self._agent, wait_ms) as session:
            yield Cooldowns(session)

    def leasing(self) -> AbstractContextManager[Take]:
        """Lend what hands out the chunks that wait, to any number of processes."""
        return hold_leases(self._server, self._agent)

    def cache(self, most_bytes: int) -> VectorCache:
        """Return the vectors by text that are kept beside it."""
        return VectorCache(self._server, self._agent, most_bytes)

    def move_vectors(self, space: Space) -> None:
        """Nothing: vectors are where they belong."""

    def put_vectors(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; a chunk that was deleted meanwhile is passed over."""
        with self.writing_spaces() as spaces:
            spaces.put(space, windows)

    def compact(self, fingerprint: str, *, even_if_little_changed: bool = False) -> None:
        """Nothing: the server keeps its tables in order."""

    def drop_space(self, space: Space) -> None:
        """Delete a space with its vectors."""
        with self.writing_spaces() as spaces:
            spaces.drop(space)

    def ensure_keyword_index(self) -> bool:
        """Build what words are found by where it is old; that it is not is asked once."""
        if not self._words_ready.is_set():
            with self.reading() as reader:
                old = reader.keyword_problem()
            if old:
                with self.writing():
                    pass
            self._words_ready.set()
        return True

    def rebuild_keyword_index(self) -> None:
        """Throw what words are found by away and build it again from the chunks."""
        with self._locked(WAIT_MS) as session:
            Notes(session).rebuild_words()

    def scrub(self) -> bool:
        """What was deleted is gone from every answer; the server's vacuum overwrites it."""
        return True

    def check_integrity(self) -> list[str]:
        """Count what is kept twice; return what is wrong."""
        with self._server.reading(self._agent) as session:
            counted, known = session.row(
                f"""
                SELECT (SELECT count(*) FROM chunks c WHERE {of_agent("c")}),
                       (SELECT coalesce(sum(i.chunks), 0) FROM indexes i WHERE {of_agent("i")})
                """
            )
        return [] if counted == known else [f"{known} chunks were counted, there are {counted}"]

    def run_checks(self) -> Iterator[Check]:
        """Look at the server; what a database lacks is made before, where the role may."""
        lacking: list[Check] = []
        with suppress(MemwellError), self._server.reading(self._agent) as session:
            lacking = [*agent_indexes.missing_checks(session, Spaces(session).live())]
        with self._server.unmigrated() as session:
            yield from health.run_checks(session)
        yield from lacking

    def quarantine(self) -> Path | None:
        """Nothing: there is no file."""
        return None

    def delete(self) -> None:
        """Delete all of it; it comes back from the notes."""
        with self._locked(WAIT_MS) as session:
            session.connection.execute("SET LOCAL statement_timeout = 0")
            for table in INDEX_TABLES:
                if table not in _KEPT:
                    session.run(f"DELETE FROM {table} t WHERE {of_agent('t')}")

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation, and again where the server interrupted it."""
        return self._server.retrying(operation)

    def close(self) -> None:
        """Let go of every connection."""
        self._server.close()

    @contextmanager
    def _locked(self, wait_ms: int) -> Iterator[Session]:
        """Keep others from writing notes until the transaction ends; readers go on."""
        with self._server.writing(self._agent, wait_ms) as session:
            _ensure_row(session)
            session.run(f"SELECT 1 FROM indexes i WHERE {of_agent('i')} FOR NO KEY UPDATE")
            yield session

    def _sync_keyword_index(self, session: Session, notes: Notes) -> None:
        built = session.value(f"SELECT words_version FROM indexes i WHERE {of_agent('i')}")
        if built != WORDS_VERSION:
            notes.rebuild_words()
            statement = f"UPDATE indexes i SET words_version = %(new)s WHERE {of_agent('i')}"
            session.run(statement, new=WORDS_VERSION)


def _ensure_row(session: Session) -> None:
    session.run(
        "INSERT INTO indexes (tenant, agent, words_version)"
        " VALUES (%(tenant)s, %(agent)s, %(version)s) ON CONFLICT (tenant, agent) DO NOTHING",
        version=WORDS_VERSION,
    )


def scope_owners(viewer: Viewer) -> tuple[str, ...]:
    """Return whose rows a viewer sees besides those of notes, as the column `owner` has it."""
    return tuple(f"{scope}:{target}" for scope, target in viewer.scopes)
