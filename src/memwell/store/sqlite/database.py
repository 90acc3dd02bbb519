"""One SQLite file: opened safely, shared between threads and processes, renamed if damaged.

There are any number of readers and one writer at a time. Only this module turns errors of SQLite
into errors with a remedy.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from memwell.errors import (
    CorruptIndexError,
    DiskFullError,
    HomeError,
    IndexDatabaseError,
    NewerIndexError,
)
from memwell.files import digest_of, make_private_folder
from memwell.store.contract.index import WAIT_MS
from memwell.store.sqlite.filesystem import unsafe_for_wal
from memwell.store.sqlite.schema import APPLICATION_ID, MIGRATIONS

BUSY_TIMEOUT_MS = WAIT_MS
_LOG_TIMEOUT_MS = 1_000
"""How long emptying the log waits for its readers; it can be done later."""

_READERS, _READER_SECONDS = 8, 1.0
"""So many threads read at once. Another one waits for its turn, but no longer than this, as the
readers may wait for it. Each connection keeps its memory and descriptors for the next reader, so
that without a limit the busiest moment decides what a server holds."""
_IN_MEMORY = 500_000_000
"""Bytes of a file that is copied in memory while it is written anew."""
_CHECKSUM_BYTES = 8
_HEADER_BYTES = 100
_checksums = threading.Lock()


class Database:
    """A file with a schema, and the connections to it."""

    def __init__(
        self,
        path: Path,
        migrations: tuple[tuple[str, str], ...] = MIGRATIONS,
        *,
        durable: bool = False,
    ) -> None:
        """A `durable` file keeps every commit through a power cut."""
        self.durable = durable
        self.path = path
        self.migrations = migrations
        self._writer: apsw.Connection | None = None
        self._writing = threading.RLock()
        self._idle: list[apsw.Connection] = []
        self._generation = 0
        self._pool = threading.Lock()
        self._turns = threading.Semaphore(_READERS)
        self._this_thread = threading.local()
        self._inode: int | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Yield a connection that sees one unchanging state of the file."""
        self._reopen_if_replaced()
        with self._turn(), translated_errors(self.path):
            generation = self._generation
            connection = self._acquire()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                self._release(connection, generation)

    @contextlib.contextmanager
    def writing(self, wait_ms: int = BUSY_TIMEOUT_MS) -> Iterator[apsw.Connection]:
        """Yield the one connection that writes, inside a transaction; nested calls join it."""
        if not self._writing.acquire(timeout=wait_ms / 1000):
            raise _is_busy(self.path)
        try:
            with translated_errors(self.path):
                self._reopen_if_replaced()
                connection = self._open_writer()
                connection.set_busy_timeout(wait_ms)
                with _transaction(connection):
                    yield connection
        finally:
            self._writing.release()

    def close(self) -> None:
        """Close every connection; SQLite then writes the log back into the file."""
        with self._writing, self._pool:
            for connection in (*self._idle, *([self._writer] if self._writer else [])):
                with contextlib.suppress(apsw.Error):
                    connection.close()
            self._idle.clear()
            self._generation += 1
            self._writer = None
            self._inode = None

    @property
    def generation(self) -> int:
        """How often the file was closed: another one may be in its place since."""
        return self._generation

    def scrub(self, *, rewrite: bool = True) -> bool:
        """Remove what is left of deleted rows; return False while another process delays it.

        `secure_delete` overwrites deleted rows, but not the copies that SQLite leaves in the unused
        part of a page when it moves rows to another one. Only a file that is written anew has none.
        """
        with self._writing, translated_errors(self.path):
            writer = self._open_writer()
            if rewrite and not vacuum(writer):
                return False
            writer.set_busy_timeout(_LOG_TIMEOUT_MS)
            (state,) = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return state[0] == 0

    def quarantine(self) -> Path | None:
        """Rename a damaged file and return its new name.

        Return None if another process did so already: the file is then a new one.
        """
        with self._writing:
            damaged = self._inode
            self.close()
            if damaged is None or _inode(self.path) != damaged:
                return None
            renamed = self.path.with_name(
                f"{self.path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}"
            )
            rename_with_log(self.path, renamed)
            return renamed

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Let few threads read at once; one that reads already does not wait."""
        if getattr(self._this_thread, "reads", False):
            yield
            return
        has_turn = self._turns.acquire(timeout=_READER_SECONDS)
        self._this_thread.reads = True
        try:
            yield
        finally:
            self._this_thread.reads = False
            if has_turn:
                self._turns.release()

    def _reopen_if_replaced(self) -> None:
        """Close a file that was deleted or replaced since it was opened."""
        if self._inode is not None and _inode(self.path) != self._inode:
            self.close()

    def _acquire(self) -> apsw.Connection:
        with self._pool:
            if self._idle:
                return self._idle.pop()
        connection = None
        if self._writer is None:  # else a reader does not wait for the writer
            connection = self._open_if_unwritable()
        connection = connection or self._connect()
        connection.pragma("query_only", True)
        return connection

    def _open_if_unwritable(self) -> apsw.Connection | None:
        """Return a connection to a file that cannot be written; None if it can.

        A home on a full or read-only disk can still be searched. Each reader tries anew, since a
        disk may have room again, and a process may have had too many open files for a moment.
        """
        with self._writing:
            try:
                self._open_writer()
            except CANNOT_WRITE as error:
                if is_damage(error) or not self.path.exists():
                    raise
                return _tune(connect_without_writing(self.path))
        return None

    def _release(self, connection: apsw.Connection, generation: int) -> None:
        """Put a connection back into the pool, unless the file was closed or replaced meanwhile."""
        with contextlib.suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            with self._pool:
                if generation == self._generation and self._writer is not None:
                    self._idle.append(connection)
                    return
            connection.close()

    def _open_writer(self) -> apsw.Connection:
        """Return the writing connection; migrate the file when it is opened."""
        if self._writer is None:
            make_private_folder(self.path.parent)
            if not self.path.exists():
                # SQLite gives the log and its index the mode of the file itself.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._inode = _inode(self.path)
            self._refuse_newer(version_in_header(self.path))
            connection = self._connect()
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._writer = connection
        return self._writer

    def _connect(self) -> apsw.Connection:
        connection = connect(self.path)
        try:
            _tune(connection)
            connection.pragma("secure_delete", True)  # nothing that was deleted stays readable
            if self.durable:
                connection.pragma("synchronous", "FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        version = connection.pragma("user_version")
        self._refuse_newer(version)
        if version < len(self.migrations):
            if version == 0:
                reserve_checksums(connection)
            _set_journal_mode(connection, self.path)
            self._migrate(connection)
            if version and self.durable:
                vacuum(connection)  # a step may have removed texts

    def _refuse_newer(self, version: int) -> None:
        if version > len(self.migrations):
            raise NewerIndexError(
                f"{self.path} was written by a newer memwell (schema {version}, this one knows"
                f" {len(self.migrations)})",
                "Upgrade memwell, or run `memwell reset` to rebuild the index from the notes",
            )

    def _migrate(self, connection: apsw.Connection) -> None:
        with _transaction(connection):
            # Another process may have migrated the file while this one waited.
            version = connection.pragma("user_version")
            connection.create_scalar_function("digest_of", _digest, 1, deterministic=True)
            connection.create_scalar_function("quantise", _quantise, 1, deterministic=True)
            for _, statements in self.migrations[version:]:
                connection.execute(statements)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", len(self.migrations))


@contextlib.contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    """Commit the whole block or nothing; inside another transaction, join it."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # On a full disk SQLite has rolled the transaction back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _quantise(*vectors: Any) -> Any:
    """Return the numbers of a vector of little-endian float32, for a step of a migration."""
    import numpy as np

    from memwell.store.contract.quantisation import quantise

    return quantise(np.frombuffer(vectors[0], dtype="<f4")[None]).tobytes()


def _digest(*texts: Any) -> Any:
    return digest_of(texts[0])


def vacuum(connection: apsw.Connection) -> bool:
    """Write a file anew; return False if another process is writing or the disk is full."""
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    # In memory, as texts would stay in the blocks of a temporary file; too large a copy is in one.
    size = connection.pragma("page_count") * connection.pragma("page_size")
    connection.pragma("temp_store", "MEMORY" if size <= _IN_MEMORY else "FILE")
    try:
        connection.execute("VACUUM")
    except (apsw.BusyError, apsw.FullError):
        return False
    return True


def _tune(connection: apsw.Connection) -> apsw.Connection:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.pragma("foreign_keys", True)
    # In WAL mode NORMAL can lose the last commits to a power cut, but never damages the file. The
    # notes remain the truth, and the next sync writes the rows again.
    connection.pragma("synchronous", "NORMAL")
    connection.pragma("cache_size", -16_000)
    # Rewriting the same pages of the keyword index at every 4 MB of log costs a tenth of a sync.
    connection.pragma("wal_autocheckpoint", 4_000)
    return connection


def _set_journal_mode(connection: apsw.Connection, path: Path) -> None:
    """Use a write-ahead log where it is safe: readers then never wait for the writer.

    SQLite does not wait here for another process that creates the same file, but fails at once.
    """
    mode = "DELETE" if unsafe_for_wal(path.parent) else "WAL"
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.pragma("journal_mode", mode)
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def connect(
    path: Path, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
) -> apsw.Connection:
    """Open a file; a page that is damaged is detected when it is read."""
    return apsw.Connection(str(path), vfs=checksum_vfs(), flags=flags)


def connect_without_writing(path: Path) -> apsw.Connection:
    """Open a file in a folder where SQLite can create no file, with all that its log holds."""
    log = Path(f"{path}-wal")
    if not log.exists() or not log.stat().st_size:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        uri = f"{path.absolute().as_uri()}?immutable=1"
        return apsw.Connection(uri, vfs=checksum_vfs(), flags=flags)
    with contextlib.suppress(apsw.Error):
        return _connect_alone(path)
    # The log can only be read where its index can be written: in a copy.
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="memwell-") as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        return _connect_alone(copy)


def _connect_alone(path: Path) -> apsw.Connection:
    """Open a file that no other process has open: the index of its log is then kept in memory."""
    connection = connect(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.pragma("locking_mode", "EXCLUSIVE")
        connection.pragma("user_version")  # reads the log
    except BaseException:
        connection.close()
        raise
    return connection


def rename_with_log(path: Path, renamed: Path) -> None:
    """Rename a file together with its log."""
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{renamed}{suffix}")


def checksum_vfs() -> str | None:
    """Load SQLite's checksum VFS once: it detects a damaged page when it is read."""
    with _checksums:
        if "cksmvfs" not in apsw.vfs_names():
            try:
                default = apsw.vfs_names()[0]
                loader = apsw.Connection(":memory:")
                loader.enable_load_extension(True)
                # The same as apsw.sqlite_extra.load, without the 20 ms of its imports.
                binaries = Path(str(apsw.__file__)).parent / "sqlite_extra_binaries"
                loader.load_extension(str(next(binaries.glob("cksumvfs.*"))))
                apsw.set_default_vfs(default)
            except (StopIteration, apsw.Error):
                return None  # this build of APSW has none: only SQLite's own checks remain
    return "cksmvfs"


def reserve_checksums(connection: apsw.Connection) -> None:
    """Leave room for a checksum in each page; only a file without pages can be told to."""
    import ctypes

    size = ctypes.c_int(_CHECKSUM_BYTES)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(size))


def version_in_header(path: Path) -> int:
    """Return the schema version in the header of a file, without reading the rest.

    The pages of a newer memwell may look damaged to this one. SQLite reads the header: if Python
    opened and closed the file, the system would release the locks of all connections of this
    process, and another process could take the log away from them.
    """
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        header = file.xRead(_HEADER_BYTES, 0)
    finally:
        file.xClose()
    is_database = header.startswith(b"SQLite format 3\0") and len(header) == _HEADER_BYTES
    return int.from_bytes(header[60:64], "big") if is_database else 0


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


_NO_ROOM = (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_SHMSIZE)
CANNOT_WRITE = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.FullError, apsw.IOError, OSError)


def is_damage(error: BaseException) -> bool:
    """Whether an error of SQLite means that the file is damaged."""
    detail = getattr(error, "extendedresult", 0)
    return detail in (apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_SHORT_READ)


@contextlib.contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system into errors that name the file and the remedy."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise CorruptIndexError(f"{path} is damaged ({error})") from error
    except apsw.FullError as error:
        raise _is_full(path) from error
    except apsw.IOError as error:
        detail = getattr(error, "extendedresult", 0)
        if is_damage(error):
            raise CorruptIndexError(f"{path} is damaged ({error})") from error
        if detail in _NO_ROOM:
            raise _is_full(path) from error
        raise HomeError(f"{path} cannot be read or written ({error})", "Check the disk") from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, PermissionError) as error:
        raise HomeError(
            f"{path} cannot be opened for writing ({error})",
            "Check the permissions of the folder and the room on its disk (`df -i`), or set"
            " MEMWELL_HOME to a folder that you can write to",
        ) from error
    except apsw.BusyError as error:
        raise _is_busy(path) from error
    except OSError as error:
        raise HomeError(f"{path} cannot be created ({error})", "Check MEMWELL_HOME") from error


def _is_busy(path: Path) -> IndexDatabaseError:
    return IndexDatabaseError(
        f"{path} is being written by another process",
        "Try again. If it does not help, check which `memwell` processes are running",
    )


def _is_full(path: Path) -> DiskFullError:
    return DiskFullError(
        f"There is no space left to write {path}",
        "Free some disk space and run the command again; nothing that was written is lost",
    )
