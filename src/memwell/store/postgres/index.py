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
from memwell.store.postgres.leases import leasing
from memwell.store.postgres.notes import Notes
from memwell.store.postgres.reader import Reader
from memwell.store.postgres.schema import EVERYBODYS, OF_AN_INDEX
from memwell.store.postgres.server import Server, Session
from memwell.store.postgres.spaces import Spaces
from memwell.store.postgres.sql import here
from memwell.store.postgres.workspace_list import Rests, VectorCache
from memwell.store.words.normalise import WORDS_VERSION

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.vectors import Take
    from memwell.store.sqlite.spaces import Space

T = TypeVar("T")
_KEPT = ("registered", "cached")
"""Tables that outlive an index that is deleted: what it comes back from."""


class Index:
    """The index of one agent; one process at a time writes its notes."""

    def __init__(self, server: Server, agent: str, folder: Path) -> None:
        """The folder is where files of the agent lie that are none of the store's."""
        self._server = server
        self._agent = agent
        self.path = folder / "index.db"
        self.is_there = self.shared = True
        self._seeing = EVERYBODYS
        self._words_ready = Event()  # which those share whom `seen_by` returns

    def seen_by(self, viewer: Viewer) -> Index:
        """Return the same index, whose readers see the notes, and of the facts the viewer's."""
        other = copy(self)
        other._seeing = owners(viewer)
        return other

    @property
    def place(self) -> str:
        """Where it is, as people are told."""
        return self._server.place

    @property
    def bytes(self) -> int:
        """How much room the texts and vectors take, about."""
        with self._server.reading(self._agent) as session:
            texts = session.value(f"SELECT sum(length(c.text)) FROM chunks c WHERE {here('c')}")
            vectors = session.value(
                f"SELECT sum(pg_column_size(v.vector)) FROM vectors v WHERE {here('v')}"
            )
        return int((texts or 0) + (vectors or 0))

    @contextmanager
    def writing(self, wait_ms: int = WAIT_MS) -> Iterator[Notes]:
        """Lend the notes for writing, inside one transaction."""
        with self._locked(wait_ms) as session:
            notes = Notes(session)
            self._bring_words_up_to_date(session, notes)
            yield notes
            notes.flush()

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Lend one unchanging state of the index."""
        with self._server.reading(self._agent, self._seeing) as session:
            yield Reader(session)

    @contextmanager
    def writing_spaces(self, wait_ms: int = WAIT_MS) -> Iterator[Spaces]:
        """Lend the vector spaces for writing, inside one transaction."""
        with self._server.writing(self._agent, wait_ms) as session:
            _ensure_row(session)
            yield Spaces(session)

    @contextmanager
    def writing_rests(self, wait_ms: int = WAIT_MS) -> Iterator[Rests]:
        """Lend the list of providers that are left alone for writing."""
        with self._server.writing(self._agent, wait_ms) as session:
            yield Rests(session)

    def filling(self) -> AbstractContextManager[Take]:
        """Lend what hands out the chunks that wait, to any number of processes."""
        return leasing(self._server, self._agent)

    def cache(self, most_bytes: int) -> VectorCache:
        """Return the vectors by text that are kept beside it."""
        return VectorCache(self._server, self._agent, most_bytes)

    def settle(self, space: Space) -> None:
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

    def ensure_words(self) -> bool:
        """Build what words are found by where it is old; that it is not is asked once."""
        if not self._words_ready.is_set():
            with self.reading() as reader:
                old = reader.words_unusable()
            if old:
                with self.writing():
                    pass
            self._words_ready.set()
        return True

    def rebuild_words(self) -> None:
        """Throw what words are found by away and build it again from the chunks."""
        with self._locked(WAIT_MS) as session:
            Notes(session).rebuild_words()

    def scrub(self) -> bool:
        """What was deleted is gone from every answer; the server's vacuum overwrites it."""
        return True

    def check(self) -> list[str]:
        """Count what is kept twice; return what is wrong."""
        with self._server.reading(self._agent) as session:
            counted, known = session.row(
                f"""
                SELECT (SELECT count(*) FROM chunks c WHERE {here("c")}),
                       (SELECT coalesce(sum(i.chunks), 0) FROM indexes i WHERE {here("i")})
                """
            )
        return [] if counted == known else [f"{known} chunks were counted, there are {counted}"]

    def checks(self) -> Iterator[Check]:
        """Look at the server; what a database lacks is made before, where the role may."""
        lacking: list[Check] = []
        with suppress(MemwellError), self._server.reading(self._agent) as session:
            lacking = [*agent_indexes.lacking(session, Spaces(session).live())]
        with self._server.as_it_is() as session:
            yield from health.examine(session)
        yield from lacking

    def set_aside(self) -> Path | None:
        """Nothing: there is no file."""
        return None

    def delete(self) -> None:
        """Delete all of it; it comes back from the notes."""
        with self._locked(WAIT_MS) as session:
            session.connection.execute("SET LOCAL statement_timeout = 0")
            for table in OF_AN_INDEX:
                if table not in _KEPT:
                    session.run(f"DELETE FROM {table} t WHERE {here('t')}")

    def again(self, operation: Callable[[], T]) -> T:
        """Run an operation, and again where the server interrupted it."""
        return self._server.again(operation)

    def close(self) -> None:
        """Let go of every connection."""
        self._server.close()

    @contextmanager
    def _locked(self, wait_ms: int) -> Iterator[Session]:
        """Keep others from writing notes until the transaction ends; readers go on."""
        with self._server.writing(self._agent, wait_ms) as session:
            _ensure_row(session)
            session.run(f"SELECT 1 FROM indexes i WHERE {here('i')} FOR NO KEY UPDATE")
            yield session

    def _bring_words_up_to_date(self, session: Session, notes: Notes) -> None:
        built = session.value(f"SELECT words_version FROM indexes i WHERE {here('i')}")
        if built != WORDS_VERSION:
            notes.rebuild_words()
            statement = f"UPDATE indexes i SET words_version = %(new)s WHERE {here('i')}"
            session.run(statement, new=WORDS_VERSION)


def _ensure_row(session: Session) -> None:
    session.run(
        "INSERT INTO indexes (tenant, agent, words_version)"
        " VALUES (%(tenant)s, %(agent)s, %(version)s) ON CONFLICT (tenant, agent) DO NOTHING",
        version=WORDS_VERSION,
    )


def owners(viewer: Viewer) -> tuple[str, ...]:
    """Return whose rows a viewer sees besides those of notes, as the column `owner` has it."""
    return tuple(f"{scope}:{target}" for scope, target in viewer.scopes)
