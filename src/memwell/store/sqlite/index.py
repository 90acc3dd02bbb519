"""index.db: one agent's notes, chunks, keyword index and vectors, in the agent's folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from memwell.errors import KeywordSearchUnavailable, MemwellError
from memwell.files import hold_lock
from memwell.store.contract.index import WAIT_MS, Index
from memwell.store.fact_notes import scope_workspace
from memwell.store.sqlite import fts
from memwell.store.sqlite.cooldowns import SqliteCooldowns
from memwell.store.sqlite.database import Database, checksum_vfs
from memwell.store.sqlite.filesystem import unsafe_for_wal
from memwell.store.sqlite.keywords import SqliteKeywords
from memwell.store.sqlite.notes import SqliteNotes
from memwell.store.sqlite.postings import Postings
from memwell.store.sqlite.reader import SqliteReader
from memwell.store.sqlite.spaces import SqliteSpaces
from memwell.store.sqlite.waiting import WaitingQueue
from memwell.store.vectors.backend import BackendSetting
from memwell.store.vectors.backends import VectorBackends

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.model import Viewer
    from memwell.reports import Check
    from memwell.store.contract.values import Space
    from memwell.store.contract.vectors import Take
    from memwell.store.sqlite.cache import SqliteVectorCache


_REWRITTEN_BY_SYNC = 64_000_000
"""Bytes of an index that is written anew within about a second."""
_REWRITTEN_BY_SEARCH = 16_000_000
"""Bytes of an index that is written anew within about 0.2 seconds."""
_SEARCH_WAIT_MS = 200


class SqliteIndex(Index):
    """The index of one agent, open for reading and writing. Whoever can read the file sees all."""

    shared = False

    def __init__(self, path: Path, backend: BackendSetting | None = None) -> None:
        """The backend finds the nearest vectors; None is the scan."""
        self.path = path
        self.location = str(path)
        self.database = Database(path)
        self.backends = VectorBackends(self.database, backend or BackendSetting())
        self._postings = Postings(self.database)
        self._visible: frozenset[str] | None = None

    def for_viewer(self, viewer: Viewer) -> SqliteIndex:
        """Return the same index; its readers count only notes and the viewer's facts."""
        other = copy(self)
        other._visible = frozenset(
            scope_workspace(scope, target, superseded=superseded)
            for scope, target in viewer.scopes
            for superseded in (False, True)
        )
        return other

    # -- the file ----------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def bytes(self) -> int:
        if self._visible is None:
            return self._file_bytes
        with self.database.reading() as connection:
            keywords = SqliteKeywords(connection, self._visible)
            return SqliteSpaces(connection, keywords).count_bytes()

    @property
    def _file_bytes(self) -> int:
        files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal", "-shm")]
        return sum(file.stat().st_size for file in files if file.exists())

    def cache(self, most_bytes: int) -> SqliteVectorCache:
        from memwell.store.sqlite.cache import SqliteVectorCache

        return SqliteVectorCache(self.path.with_name("embeddings.db"), most_bytes)

    def close(self) -> None:
        self.database.close()

    def delete(self) -> None:
        with suppress(MemwellError):  # the next compaction drops tables that could not be reached
            for space in self.backends.external() if self.exists else ():
                self.backends.drop(space)
        self.close()
        for pattern in ("index.db*", "vectors-*"):
            for file in self.path.parent.glob(pattern):
                file.unlink(missing_ok=True)

    def quarantine(self) -> Path | None:
        return self.database.quarantine()

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def writing(self, wait_ms: int = WAIT_MS) -> Iterator[SqliteNotes]:
        with self.database.writing(wait_ms) as connection:
            yield SqliteNotes(connection, with_words=_ensure_words(connection))

    @contextmanager
    def reading(self) -> Iterator[SqliteReader]:
        with self.database.reading() as connection:
            yield SqliteReader(connection, self.backends, self._visible, self._postings)

    @contextmanager
    def writing_spaces(self) -> Iterator[SqliteSpaces]:
        with self.database.writing() as connection:
            yield SqliteSpaces(connection)

    @contextmanager
    def writing_cooldowns(self, wait_ms: int = WAIT_MS) -> Iterator[SqliteCooldowns]:
        with self.database.writing(wait_ms) as connection:
            yield SqliteCooldowns(connection)

    # -- vectors -----------------------------------------------------------------------------------

    @contextmanager
    def leasing(self) -> Iterator[Take | None]:
        with hold_lock(self.path.with_name("filling.lock"), wait=False) as is_alone:
            yield WaitingQueue(self).take if is_alone else None

    def move_vectors(self, space: Space) -> None:
        if self.backends.move_vectors(space):
            self.database.scrub()

    def put_vectors(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        self.backends.put(space, windows)

    def compact(self, fingerprint: str, *, even_if_little_changed: bool = False) -> None:
        self.backends.compact(fingerprint, even_if_little_changed=even_if_little_changed)

    def drop_space(self, space: Space) -> None:
        self.backends.drop(space)
        with self.writing_spaces() as spaces:
            spaces.drop(space)

    def scrub(self) -> bool:
        with self.database.writing() as connection:
            if _ensure_words(connection):
                fts.rewrite(connection)
        for space in self.backends.external():
            self.compact(space.fingerprint, even_if_little_changed=True)
        return self.database.scrub()

    def erase_deleted(self, *, quickly: bool = False) -> None:
        limit = _REWRITTEN_BY_SEARCH if quickly else _REWRITTEN_BY_SYNC
        if self.exists and self._file_bytes <= limit:
            with self.database.reading() as connection:
                due = fts.has_removed_words(connection)
            if due:
                with self.database.writing(_SEARCH_WAIT_MS if quickly else WAIT_MS):
                    pass  # a search does not wait for a process that is writing
                self.scrub()

    # -- the keyword index -------------------------------------------------------------------------

    def ensure_keyword_index(self) -> bool:
        with self.reading() as reader:
            if not reader.keywords.problem():
                return True
        with self.database.writing() as connection:
            return _ensure_words(connection)

    def rebuild_keyword_index(self) -> None:
        with self.database.writing() as connection:
            fts.mark_stale(connection)
            _ensure_words(connection)

    # -- checks ------------------------------------------------------------------------------------

    def check_integrity(self) -> list[str]:
        with self.database.reading() as connection:
            with suppress(apsw.SQLError, apsw.AuthError):
                # FTS5 checks the structure that this connection has cached; a query refreshes it.
                connection.execute("SELECT rowid FROM words LIMIT 1").fetchall()
            lines = [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
        problems = [line for line in lines if line != "ok"]
        with self.database.writing() as connection:
            try:
                connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
            except apsw.CorruptError:
                raise  # the caller puts the file into quarantine and rebuilds the index
            except apsw.Error as error:
                problems.append(f"keyword index: {error}")
        return problems

    def run_checks(self) -> Iterator[Check]:
        from memwell.reports import Check

        yield Check("SQLite", True, f"{apsw.sqlite_lib_version()} (APSW {apsw.apsw_version()})")
        if checksum_vfs() is None:
            lacks = "This build of APSW has no page checksums: a damaged page may go unnoticed"
            yield Check("warning", False, lacks, "pip install --force-reinstall apsw")
        folder = self.path.parent
        if unsafe := unsafe_for_wal(folder):
            local = "set MEMWELL_HOME to a folder on a local disk"
            yield Check("warning", False, f"{folder} is {unsafe}: {local}")
        for damaged in sorted(folder.glob("*.corrupt-????????-??????")):
            kept = "is a damaged index that was set aside"
            yield Check("warning", False, f"{damaged} {kept}: delete it when you no longer need it")


def _ensure_words(connection: apsw.Connection) -> bool:
    """Build the keyword index if needed; return whether it is usable."""
    connection.execute("SAVEPOINT words")
    try:
        fts.ensure(connection)
    except KeywordSearchUnavailable:
        connection.execute("ROLLBACK TO words")
        return False
    finally:
        connection.execute("RELEASE words")
    return not fts.find_problem(connection)
