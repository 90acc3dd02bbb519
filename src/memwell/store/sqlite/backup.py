"""Backups of memory.db: written while it is in use, and restored.

A backup contains every scope. It is for the owner of the home, who can read the file anyway. A
backup is checked before it gets its name, and again before it is restored. `verify.py` checks more.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from memwell.errors import UNWRITABLE, CorruptIndexError, HomeError, MemwellError, NotFoundError
from memwell.files import atomic_write, hold_lock, make_private_folder
from memwell.store.contract.values import BackupReport, RestoreReport
from memwell.store.sqlite.auto_backup import backup_folder
from memwell.store.sqlite.database import (
    Database,
    connect,
    rename_with_log,
    reserve_checksums,
    translated_errors,
    vacuum,
)
from memwell.store.sqlite.facts import fact_errors
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.sqlite.lineage import forget_lineage
from memwell.store.sqlite.schema import FACT_MIGRATIONS, NOT_OF_A_COPY
from memwell.store.sqlite.verify import find_damage, find_problem, open_for_verify

_BESIDE = ("", "-wal", "-shm", "-journal")


# -- backup ----------------------------------------------------------------------------------------


def create_backup(database: Database, target: Path, *, force: bool = False) -> BackupReport:
    """Copy memory.db as it is at one moment, while others write; check the copy."""
    if not database.path.exists():
        raise NotFoundError(
            f"There is no {database.path} to copy", "Remember a fact first: `memwell remember TEXT`"
        )
    if target.is_dir() or not target.parent.is_dir():
        raise NotFoundError(f"{target} is not a file name", "Name a file in an existing folder")
    if _belongs_to(database.path, target):
        raise HomeError(f"{target} is the memory itself", "Name another file")
    if target.exists() and not force:
        raise HomeError(f"{target} exists already", "Name another file, or add --force")
    with hold_copy_lock(database.path):
        _record_copy(database, target)
        with fact_errors(database.path), database.reading() as connection:
            facts = write_copy(connection, target)
    return BackupReport(str(target), facts, target.stat().st_size)


def _record_copy(database: Database, target: Path) -> None:
    """Record where a copy will be, before it is written: a killed backup may leave a part of it."""
    row = (str(target.absolute()),)
    with (
        contextlib.suppress(*UNWRITABLE),  # of a home that cannot be written, a copy is still made
        fact_errors(database.path),
        database.writing() as connection,
    ):
        connection.execute("INSERT OR REPLACE INTO copies VALUES (?)", row)


def write_copy(source: apsw.Connection, target: Path) -> int:
    """Write a checked copy of what a connection sees; return how many facts it has."""
    facts: Any = source.execute("SELECT count(*) FROM fact_rows").get  # starts the read transaction
    with translated_errors(target), database_part(target) as part:
        copy_pages(source, part)
        with contextlib.closing(connect(part)) as connection:
            # Without a log the copy is one file that can be read in a read-only folder.
            connection.pragma("journal_mode", "DELETE")
            connection.pragma("journal_mode", "OFF")  # an unfinished part is deleted anyway
            # Pages may contain parts of deleted facts.
            if not vacuum(connection):
                raise HomeError(f"There is no space left to write {target}", "Free some disk space")
            found: Any = connection.execute("SELECT count(*) FROM fact_rows").get
            if found != facts or find_damage(connection):
                raise HomeError(
                    f"The copy {target} would be damaged",
                    "Run `memwell verify` to see the problems",
                )
    return int(facts)


@contextlib.contextmanager
def database_part(target: Path) -> Iterator[Path]:
    """Yield a path to write to, as `atomic_write` does; remove what SQLite leaves beside it."""
    with atomic_write(target, durable=True) as part:
        try:
            yield part
        finally:
            remove_files(part, _BESIDE[1:])


def copy_pages(source: apsw.Connection, file: Path) -> None:
    """Copy all that a connection sees to a new file."""
    with contextlib.closing(connect(file)) as connection:
        # Pages from a log have no checksum yet. Unless the file has checksums before the first page
        # arrives, it reads as damaged.
        reserve_checksums(connection)
        connection.pragma("user_version", 1)
        with connection.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(-1)


# -- restore ---------------------------------------------------------------------------------------


def restore(database: Database, file: Path, now: dt.datetime) -> RestoreReport:
    """Replace all facts by those of a backup, in one transaction.

    Other processes that have memory.db open see either the old facts or the new ones. The old
    file is kept beside the new one, even if it is damaged.
    """
    _refuse_unsound(database, file)
    kept = _free_name(database.path, now)
    with (
        hold_copy_lock(database.path),
        fact_errors(database.path),
        _stage_copy(file, database.path) as staged,
    ):
        known = _has_content(database) and not set_aside_if_damaged(database, now)
        facts, revision = _exchange(database, staged, kept if known else None, now)
    clear_indexes(database.path.parent)
    return RestoreReport(str(file), facts, str(kept) if kept.exists() else None, revision)


def _refuse_unsound(database: Database, file: Path) -> None:
    if not file.is_file():
        raise NotFoundError(f"There is no file {file}", "Name one that `memwell backup` made")
    if _belongs_to(database.path, file):
        raise HomeError(f"{file} is the memory itself", "Name a backup")
    if problems := find_problem(file):
        raise HomeError(f"{file} cannot be restored: {problems[0].what}", "Use another backup")


@contextlib.contextmanager
def _stage_copy(file: Path, beside: Path) -> Iterator[Database]:
    """Yield a copy of a backup, migrated to the current schema; the backup itself is only read."""
    make_private_folder(beside.parent)
    number, name = tempfile.mkstemp(".part", ".restore.", beside.parent)
    os.close(number)
    staged = Database(Path(name), FACT_MIGRATIONS)
    try:
        with open_for_verify(file) as connection:
            copy_pages(connection, staged.path)
        yield staged
    finally:
        staged.close()
        remove_files(staged.path)


def set_aside_if_damaged(database: Database, now: dt.datetime) -> Path | None:
    """Rename memory.db if it is damaged, and return its new name."""
    if not _has_content(database) or _is_sound(database):
        return None
    kept = _free_name(database.path, now)
    _quarantine(database, kept)
    return kept


def _has_content(database: Database) -> bool:
    return database.path.exists() and database.path.stat().st_size > 0


def _is_sound(database: Database) -> bool:
    try:
        with database.reading() as connection:
            return not find_damage(connection)
    except CorruptIndexError:
        return False


def _quarantine(database: Database, kept: Path) -> None:
    database.close()
    rename_with_log(database.path, kept)
    with contextlib.suppress(OSError):
        kept.chmod(0o600)


def _exchange(
    database: Database, staged: Database, kept: Path | None, now: dt.datetime
) -> tuple[int, int]:
    """Replace the rows by the staged ones; return the number of facts and the new revision.

    Every row gets a new revision, and ids that vanished are listed as deleted, so that every index
    syncs them.
    """
    with staged.reading() as source, database.writing() as live:
        if kept:  # nobody else writes now: a reader sees the rows that will be replaced
            with database.reading() as before:
                write_copy(before, kept)
        # If the old revision is unknown, the time in milliseconds is larger than any revision.
        revisions = [_last(source), _last(live), 0 if kept else int(now.timestamp() * 1000)]
        revision = max(revisions) + 1
        try:
            ids = _replace_rows(source, live, revision)
        except BaseException as error:
            if kept:
                remove_files(kept)
            if isinstance(error, apsw.ConstraintError):
                raise HomeError(
                    "The facts of the backup contradict each other",
                    "Run `memwell verify FILE` to see which",
                ) from error
            raise
    return ids, revision


def _replace_rows(source: apsw.Connection, live: apsw.Connection, revision: int) -> int:
    gone = {*_ids(live, "fact_rows"), *_ids(live, "forgotten"), *_ids(source, "forgotten")}
    live.pragma("defer_foreign_keys", True)
    tables = _tables(live)
    for table in tables:
        live.execute(f'DELETE FROM "{table}"')
    for table in tables:
        columns = [
            name for (name,) in live.execute("SELECT name FROM pragma_table_info(?)", (table,))
        ]
        names = ", ".join(f'"{name}"' for name in columns)
        live.executemany(
            f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(columns))})',
            source.execute(f'SELECT {names} FROM "{table}" NOT INDEXED'),
        )
    restored = {*_ids(live, "fact_rows")}
    live.execute("UPDATE fact_rows SET revision = ?", (revision,))
    live.execute("DELETE FROM forgotten")
    rows = [(fact_id, revision) for fact_id in sorted(gone - restored)]
    live.executemany("INSERT INTO forgotten VALUES (?, ?)", rows)
    live.execute("UPDATE revisions SET last = ?", (revision,))
    return len(restored)


def _tables(connection: apsw.Connection) -> list[str]:
    statement = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
    rows: Any = connection.execute(statement).fetchall()
    return [name for (name,) in rows if name not in NOT_OF_A_COPY]


def _ids(connection: apsw.Connection, table: str) -> list[str]:
    rows: Any = connection.execute(f"SELECT id FROM {table}").fetchall()
    return [fact_id for (fact_id,) in rows]


def _last(connection: apsw.Connection) -> int:
    found: Any = connection.execute("SELECT max(last) FROM revisions").get
    return int(found or 0)


def clear_indexes(home: Path) -> None:
    """Remove the facts from every index; the next search syncs them again.

    A sync by revision is not enough if a fact is back in a narrower scope: a viewer of only the
    wider scope does not see that change. An index that cannot be written now syncs by revision.
    """
    for file in sorted(home.glob("agents/*/index.db")):
        with (
            contextlib.closing(SqliteIndex(file)) as index,
            contextlib.suppress(MemwellError),
            index.writing() as notes,
        ):
            forget_lineage(notes)


# -- leftovers of killed commands ------------------------------------------------------------------


@contextlib.contextmanager
def hold_copy_lock(memory: Path) -> Iterator[None]:
    """Hold the lock that keeps others from removing the files that a copy is written to."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # of a home that cannot be written, a copy is still made
            stack.enter_context(hold_lock(copy_lock(memory), wait=True))
        yield


def find_leftovers(memory: Path, copies: Iterable[Path]) -> list[Path]:
    """Return the unfinished copies of memory.db that killed commands left behind."""
    patterns = [(memory.parent, ".restore.*.part*"), (memory.parent, f".{memory.name}.*.part*")]
    patterns += [(backup_folder(memory), f".{memory.stem}-*.part*")]
    patterns += [(copy.parent, f".{glob.escape(copy.name)}.*.part*") for copy in copies]
    return sorted({file for folder, pattern in patterns for file in folder.glob(pattern)})


def remove_leftovers(memory: Path, copies: Iterable[Path]) -> bool:
    """Remove unfinished copies of memory.db; return False while a command is writing one."""
    leftovers = find_leftovers(memory, copies)
    if not leftovers:
        return True
    with hold_lock(copy_lock(memory), wait=False) as is_alone:
        for file in leftovers if is_alone else ():
            file.unlink(missing_ok=True)
        return is_alone


def copy_lock(memory: Path) -> Path:
    """Return the file whose lock a command holds while it writes a copy of memory.db."""
    return memory.with_name("copying.lock")


# -- files -----------------------------------------------------------------------------------------


def _belongs_to(memory: Path, file: Path) -> bool:
    """Whether a file is the memory, or a file that SQLite keeps beside it."""
    real = file.resolve()
    return any(real == Path(f"{memory.resolve()}{suffix}") for suffix in _BESIDE)


def _free_name(memory: Path, now: dt.datetime) -> Path:
    """Return an unused name for the file that is replaced."""
    name = f"{memory.name}.before-{now:%Y%m%d-%H%M%S}"
    kept, number = memory.with_name(name), 2
    while kept.exists():
        kept, number = memory.with_name(f"{name}-{number}"), number + 1
    return kept


def remove_files(file: Path, suffixes: Sequence[str] = _BESIDE) -> None:
    """Remove a file of SQLite and those beside it, or only those with the suffixes."""
    for suffix in suffixes:
        Path(f"{file}{suffix}").unlink(missing_ok=True)
