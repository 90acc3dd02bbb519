"""Erase facts from the backups in the home: the automatic ones, and those that `restore` leaves.

A backup is written anew without the facts and takes the place of the old one at once. If that is
interrupted, the old file stays whole, and the erasure stays pending.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw

from memwell.errors import CorruptIndexError, HomeError, MemwellError
from memwell.files import digest_of
from memwell.store.contract.facts import split_trace
from memwell.store.sqlite.auto_backup import backup_folder, list_backups
from memwell.store.sqlite.backup import copy_pages, database_part, hold_copy_lock, remove_files
from memwell.store.sqlite.database import Database, connect, translated_errors, vacuum
from memwell.store.sqlite.verify import find_damage, open_for_verify

_AT_ONCE = 500
"""Ids in one statement."""


def erase_from_backups(database: Database, traces: Mapping[str, bytes]) -> bool:
    """Erase facts from every backup in the home; return False if one could not be written."""
    memory = database.path
    automatic = {file for _, file in list_backups(backup_folder(memory))}
    replaced = {*memory.parent.glob(f"{memory.name}.before-*[0-9]")}
    if not traces or not (automatic or replaced):
        return True
    finished = True
    with hold_copy_lock(memory):  # a backup that is being written may contain the facts
        changes = _read_changes(database, traces)
        automatic = {file for _, file in list_backups(backup_folder(memory))}
        for file in sorted(automatic | replaced):
            try:
                _erase(file, changes)
            except CorruptIndexError:
                if file in automatic:  # nobody can restore it; `forget` names the other ones
                    file.unlink(missing_ok=True)
            except (MemwellError, OSError):
                finished = False
    return finished


class _Changes:
    """Which rows are deleted from a backup, and which get the text that memory.db has now."""

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        self.replaced: dict[tuple[str, bytes], tuple[str, bytes] | None] = {}
        """The new text and its folded digest, by id and digest of the old text."""


def _read_changes(database: Database, traces: Mapping[str, bytes]) -> _Changes:
    changes = _Changes()
    with database.reading() as connection:
        for trace, digest in traces.items():
            fact_id, is_edit = split_trace(trace)
            if not is_edit:
                changes.deleted.add(fact_id)
                continue
            row: Any = connection.execute(
                "SELECT text, folded FROM fact_rows WHERE id = ?", (fact_id,)
            ).fetchone()
            changes.replaced[fact_id, digest] = row
    return changes


def _erase(file: Path, changes: _Changes) -> None:
    with translated_errors(file), open_for_verify(file) as source:
        ids = {*changes.deleted, *(fact_id for fact_id, _ in changes.replaced)}
        rows = [*_affected(source, ids, changes)]
        if not rows:
            return
        with database_part(file) as part:
            copy_pages(source, part)
            with contextlib.closing(connect(part)) as connection:
                connection.pragma("journal_mode", "MEMORY")  # an unfinished part is deleted anyway
                connection.pragma("foreign_keys", True)
                with connection:
                    for fact_id, replacement in rows:
                        _change_row(connection, fact_id, replacement)
                connection.pragma("journal_mode", "OFF")
                if not vacuum(connection):
                    raise HomeError(f"{file} could not be written anew", "Free some disk space")
                if find_damage(connection):
                    raise CorruptIndexError(f"{file} is damaged")
    remove_files(file, ("-wal", "-shm"))  # of a file that was renamed together with its log


def _affected(
    source: apsw.Connection, ids: set[str], changes: _Changes
) -> Iterator[tuple[str, tuple[str, bytes] | None]]:
    """Yield the rows to change: the id, and the new text or None if the row goes."""
    every = sorted(ids)
    for start in range(0, len(every), _AT_ONCE):
        some = every[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        rows: Any = source.execute(f"SELECT id, text FROM fact_rows WHERE id IN ({marks})", some)
        for fact_id, text in rows:
            if fact_id in changes.deleted:
                yield fact_id, None
            elif (key := (fact_id, digest_of(text))) in changes.replaced:
                yield fact_id, changes.replaced[key]


def _change_row(
    connection: apsw.Connection, fact_id: str, replacement: tuple[str, bytes] | None
) -> None:
    if replacement:
        # Another fact of the backup may have that text already: then the row goes.
        with contextlib.suppress(apsw.ConstraintError):
            connection.execute(
                "UPDATE fact_rows SET text = ?, folded = ? WHERE id = ?", (*replacement, fact_id)
            )
            return
    connection.execute("DELETE FROM fact_rows WHERE id = ?", (fact_id,))
