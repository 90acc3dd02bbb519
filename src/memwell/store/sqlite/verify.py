"""Checks memory.db or a backup: each page, and whether the rows fit together."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from memwell.errors import CorruptIndexError
from memwell.files import digest_of
from memwell.store.sqlite.database import (
    BUSY_TIMEOUT_MS,
    CANNOT_WRITE,
    connect,
    connect_without_writing,
    is_damage,
    translated_errors,
    version_in_header,
)
from memwell.store.sqlite.schema import APPLICATION_ID, FACT_MIGRATIONS

_RESTORE = "Restore a backup: `memwell restore FILE`"
_REWRITE = (
    "Write the facts again: `memwell export`, then `memwell import` into an empty home; or restore"
    " a backup"
)
_FORGET = "Delete the fact (`memwell forget ID`) and remember it again, or restore a backup"
_UPGRADE = "Upgrade memwell"
_NAMED = 5
"""Ids that a message names."""
_TIMES = ("created_at", "confirmed_at", "expires_at", "valid_from", "valid_until")


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, and its remedy."""

    what: str
    remedy: str


def verify(file: Path, fold: Callable[[str], str]) -> list[Finding]:
    """Return the problems of a memory or a backup; `fold` makes texts comparable.

    A finding contains the ids of facts of all scopes, but never a text.
    """
    if found := find_problem(file):
        return found
    try:
        with open_for_verify(file) as connection:
            return [*_in_rows(connection, fold)]
    except apsw.SQLError as error:
        return [Finding(f"its tables are not those of a memory ({error})", _RESTORE)]


def find_problem(file: Path) -> list[Finding]:
    """Return why a file cannot be used as a memory: another kind, a newer version, damage."""
    try:
        with open_for_verify(file) as connection:
            return find_damage(connection) or [*_orphans(connection)]
    except (CorruptIndexError, apsw.SQLError) as error:
        # The pages of a newer version may look damaged.
        return _newer(version_in_header(file)) or [Finding(str(error), _RESTORE)]


def find_damage(connection: apsw.Connection) -> list[Finding]:
    """Return why a file is not a memory, or which of its pages are damaged."""
    statement = "SELECT count(*) FROM sqlite_schema WHERE name IN ('fact_rows', 'revisions')"
    if (
        connection.pragma("application_id") != APPLICATION_ID
        or connection.execute(statement).get != 2
    ):
        return [Finding("it is not a memory.db", "Name a file that `memwell backup` wrote")]
    if newer := _newer(connection.pragma("user_version")):
        return newer
    rows: Any = connection.execute("PRAGMA integrity_check").fetchall()
    return [Finding(f"the file is damaged: {row}", _RESTORE) for (row,) in rows if row != "ok"]


@contextlib.contextmanager
def open_for_verify(file: Path) -> Iterator[apsw.Connection]:
    """Yield one unchanging state of a file without changing it."""
    with translated_errors(file):
        connection = _connect(file)
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()


def _connect(file: Path) -> apsw.Connection:
    connection = connect(file, apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("query_only", True)
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except CANNOT_WRITE as error:
        connection.close()
        if is_damage(error):
            raise
        return connect_without_writing(file)
    except BaseException:
        connection.close()
        raise
    return connection


def _newer(version: int) -> list[Finding]:
    if version <= len(FACT_MIGRATIONS):
        return []
    return [Finding(f"it was written by a newer memwell (schema {version})", _UPGRADE)]


# -- rows that do not fit together -----------------------------------------------------------------


def _in_rows(connection: apsw.Connection, fold: Callable[[str], str]) -> Iterator[Finding]:
    yield from _foldings(connection, fold)
    yield from _copies(connection)
    yield from _cycles(connection)
    yield from _times(connection)
    yield from _revisions(connection)


def _orphans(connection: apsw.Connection) -> Iterator[Finding]:
    rows: Any = connection.execute("PRAGMA foreign_key_check").fetchall()
    for table, count in sorted(Counter(table for table, *_ in rows).items()):
        yield Finding(f"{count} rows of {table} do not belong to any fact", _RESTORE)


def _foldings(connection: apsw.Connection, fold: Callable[[str], str]) -> Iterator[Finding]:
    rows: Any = connection.execute("SELECT id, text, folded FROM fact_rows ORDER BY id")
    # Files of an older memwell have the text itself.
    wrong = [key for key, text, folded in rows if folded not in (digest_of(fold(text)), fold(text))]
    yield from _about(wrong, "the normalised text does not fit the text", _REWRITE)


def _copies(connection: apsw.Connection) -> Iterator[Finding]:
    rows: Any = connection.execute(
        """
        SELECT group_concat(id, ' and ') FROM fact_rows NOT INDEXED WHERE superseded_by IS NULL
        GROUP BY scope, target, folded HAVING count(*) > 1
        """
    )
    yield from _about([ids for (ids,) in rows], "the same fact is in a scope twice", _FORGET)


def _cycles(connection: apsw.Connection) -> Iterator[Finding]:
    rows: Any = connection.execute(
        "SELECT id, superseded_by FROM fact_rows WHERE superseded_by IS NOT NULL"
    )
    after: dict[str, str] = dict(rows)
    done: set[str] = set()
    for first in sorted(after):
        path: dict[str, None] = {}
        current: str | None = first
        while current in after and current not in done and current not in path:
            path[current] = None
            current = after[current]
        if current in path:
            cycle = [*path][[*path].index(current) :]
            yield from _about(cycle, "facts supersede each other in a circle", _FORGET)
        done.update(path)


def _times(connection: apsw.Connection) -> Iterator[Finding]:
    for name in _TIMES:
        rows: Any = connection.execute(f"SELECT id, {name} FROM fact_rows ORDER BY id")
        wrong = [fact_id for fact_id, value in rows if value is not None and not _is_time(value)]
        yield from _about(wrong, f"{name} is not a time", _FORGET)
    rows = connection.execute("SELECT fact_id, at FROM fact_events ORDER BY rowid")
    wrong = [fact_id for fact_id, value in rows if not _is_time(value)]
    yield from _about([*dict.fromkeys(wrong)], "the time of an event is not a time", _FORGET)


def _is_time(value: Any) -> bool:
    try:
        dt.datetime.fromisoformat(value)
    except (ValueError, TypeError):
        return False
    return True


def _revisions(connection: apsw.Connection) -> Iterator[Finding]:
    counters: Any = connection.execute("SELECT last FROM revisions").fetchall()
    if len(counters) != 1:
        yield Finding(f"there are {len(counters)} revision counters instead of one", _RESTORE)
        return
    rows: Any = connection.execute("SELECT id FROM fact_rows WHERE revision > ?", counters[0])
    ahead = [fact_id for (fact_id,) in rows]
    yield from _about(ahead, "the revision is above the counter, so no index syncs it", _REWRITE)


def _about(ids: Sequence[str], what: str, remedy: str) -> Iterator[Finding]:
    if ids:
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        yield Finding(f"{what}: {', '.join(ids[:_NAMED])}{more}", remedy)
