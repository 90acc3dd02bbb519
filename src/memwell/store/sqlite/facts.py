"""Facts in memory.db.

`_visible` builds every statement that reads: it sees only facts of the viewer's scopes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    import datetime as dt

    from memwell.store.contract.index import Reader
    from memwell.store.contract.values import BackupReport, RestoreReport, StoredBackup

from memwell.errors import CorruptIndexError, HomeError, IdTakenError, NewerIndexError
from memwell.files import digest_of
from memwell.model import Fact, FactEvent, Viewer
from memwell.store.contract.facts import FactFile, Facts, FactStore
from memwell.store.contract.values import FactFilter
from memwell.store.rows import FACT_COLUMNS, fact_conditions, fact_values, group_events, to_fact
from memwell.store.sqlite.auto_backup import (
    AutoBackups,
    describe_backups,
    find_backup,
    offer_latest,
)
from memwell.store.sqlite.database import Database
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.sqlite.schema import FACT_MIGRATIONS

_TAGS = "(SELECT json_group_array(tag) FROM fact_tags WHERE fact_id = f.id)"


class MemoryFile(Database, FactFile):
    """memory.db: it keeps every commit through a power cut, and nothing of what was deleted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, FACT_MIGRATIONS, durable=True)

    def copies(self) -> list[Path]:
        from memwell.store.sqlite.backup import find_leftovers, hold_copy_lock

        # A part that a backup is still writing must not be opened: SQLite would refuse the backup.
        with hold_copy_lock(self.path):
            recorded = self._recorded_copies()
            beside = self.path.parent.glob(f"{self.path.name}.*")
            files = {*beside, *recorded, *find_leftovers(self.path, recorded)}
            return sorted(file for file in files if file.is_file())

    def _recorded_copies(self) -> list[Path]:
        with fact_errors(self.path), self.reading() as connection:
            rows: Any = connection.execute("SELECT file FROM copies").fetchall()
        return [Path(file) for (file,) in rows]

    def remove_leftovers(self) -> bool:
        if not self.path.exists() or not self.path.stat().st_size:
            return True  # an empty file stays empty, so that the loss is noticed
        from memwell.store.sqlite.backup import remove_leftovers

        return remove_leftovers(self.path, self._recorded_copies())

    def backup(self, target: Path, *, force: bool = False) -> BackupReport:
        from memwell.store.sqlite.backup import create_backup

        return create_backup(self, target, force=force)

    def restore(self, backup: str | Path, now: dt.datetime) -> RestoreReport:
        from memwell.store.sqlite.backup import restore

        return restore(self, find_backup(self.path, backup), now)

    def list_backups(self) -> list[StoredBackup]:
        return describe_backups(self.path)

    def offer_backup(self) -> str:
        return offer_latest(self.path)

    def erase_from_backups(self, traces: Mapping[str, bytes]) -> bool:
        if not traces:
            return True
        from memwell.store.sqlite.backup_erasure import erase_from_backups

        return erase_from_backups(self, traces)

    def set_aside_if_damaged(self, now: dt.datetime) -> Path | None:
        from memwell.store.sqlite.backup import set_aside_if_damaged

        return set_aside_if_damaged(self, now)


class SqliteFactStore(FactStore):
    """The facts of one home."""

    file: MemoryFile

    def __init__(self, path: Path, backups: AutoBackups | None = None) -> None:
        self.file = MemoryFile(path)
        self._backups = backups or AutoBackups(path)
        self.location = str(path)
        self.home = path.parent

    @property
    def exists(self) -> bool:
        try:
            return self.file.path.stat().st_size > 0
        except FileNotFoundError:
            return False

    def indexes(self) -> Iterator[SqliteIndex]:
        for folder in sorted(self.home.glob("agents/*/")):
            with closing(SqliteIndex(folder / "index.db")) as index:
                yield index

    def close(self) -> None:
        self.file.close()

    @contextmanager
    def for_viewer(self, viewer: Viewer) -> Iterator[SqliteFacts]:
        with fact_errors(self.file.path), self.file.reading() as connection:
            yield SqliteFacts(connection, viewer)

    @contextmanager
    def change(self, viewer: Viewer) -> Iterator[SqliteFacts]:
        if not self.exists:
            self._backups.report_loss()
        with fact_errors(self.file.path), self.file.writing() as connection:
            yield SqliteFacts(connection, viewer)
        self._backups.run_if_due(self)

    def revision(self, reader: Reader | None = None) -> int:
        if not self.exists:
            return 0
        with fact_errors(self.file.path), self.file.reading() as connection:
            return int(connection.execute("SELECT last FROM revisions").get)

    def identity(self) -> str:
        if not self.exists:
            return ""
        with fact_errors(self.file.path), self.file.reading() as connection:
            try:
                return str(connection.execute("SELECT id FROM identity").get)
            except apsw.SQLError:  # an older file that cannot be written has none
                return ""

    def renew_identity(self) -> None:
        with fact_errors(self.file.path), self.file.writing() as connection:
            connection.execute("UPDATE identity SET id = lower(hex(randomblob(16)))")

    def pending_erasures(self) -> dict[str, bytes]:
        if not self.exists:
            return {}
        with fact_errors(self.file.path), self.file.reading() as connection:
            rows: Any = connection.execute("SELECT id, digest FROM unfinished").fetchall()
            return dict(rows)

    def clear_pending(self, ids: Iterable[str]) -> None:
        with fact_errors(self.file.path), self.file.writing() as connection:
            rows = ((fact_id,) for fact_id in ids)
            connection.executemany("DELETE FROM unfinished WHERE id = ?", rows)


@contextmanager
def fact_errors(path: Path) -> Iterator[None]:
    """Translate the errors of an index: memory.db cannot be rebuilt."""
    try:
        yield
    except CorruptIndexError as error:
        raise HomeError(
            f"{path}, which contains all facts, is damaged",
            f"{offer_latest(path) or 'Restore a backup: `memwell restore FILE`'}. `memwell facts"
            " rescue` writes the facts that the index still has into a new file",
        ) from error
    except NewerIndexError as error:
        raise HomeError(f"{path} was written by a newer memwell", "Upgrade memwell") from error


class SqliteFacts(Facts):
    """Reads and writes facts over one connection, for one viewer."""

    def __init__(self, connection: apsw.Connection, viewer: Viewer) -> None:
        self._connection = connection
        self.viewer = viewer

    # -- reading: every statement uses `_visible` --------------------------------------------------

    def _visible(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement on `facts`: the rows that the viewer may see."""
        scopes = [":".join(scope) for scope in self.viewer.scopes]
        marks = ", ".join("?" * len(scopes))
        # No index on the scope is used: an id, a text or a time selects fewer rows.
        restricted = f"""
            WITH facts AS (
                SELECT * FROM fact_rows WHERE scope || ':' || target IN ({marks})
            )
            {statement}
        """
        return self._connection.execute(restricted, (*scopes, *values)).fetchall()

    def find(self, which: FactFilter, limit: int = -1) -> list[Fact]:
        conditions, values = _conditions(which)
        rows = self._visible(
            f"SELECT {FACT_COLUMNS}, {_TAGS} FROM facts f WHERE {conditions}"
            " ORDER BY +f.id DESC LIMIT ?",
            (*values, limit),
        )
        return _to_facts(rows)

    def history(self, fact_id: str) -> list[FactEvent]:
        self.get(fact_id)
        rows = self._visible(
            """,
            chain (id) AS (
                SELECT ? UNION SELECT f.id FROM facts f JOIN chain ON f.superseded_by = chain.id
            )
            SELECT e.fact_id, e.at, e.what, e.detail FROM fact_events e JOIN facts f
            ON f.id = e.fact_id WHERE e.fact_id IN (SELECT id FROM chain)
            -- At the same time, the newer fact first: the same order in every copy.
            ORDER BY e.at, e.fact_id DESC, e.rowid
            """,
            (fact_id,),
        )
        return [FactEvent(*row) for row in rows]

    def changed_since(self, revision: int) -> tuple[list[Fact], list[str]]:
        rows = self._visible(
            f"SELECT {FACT_COLUMNS}, {_TAGS} FROM facts f WHERE f.revision > ? ORDER BY f.revision",
            (revision,),
        )
        gone = self._connection.execute("SELECT id FROM forgotten WHERE revision > ?", (revision,))
        return _to_facts(rows), [fact_id for (fact_id,) in gone]

    # -- writing: only visible facts can be changed ------------------------------------------------

    def add(self, fact: Fact, folded: str) -> None:
        self._connection.execute(
            f"""
            INSERT INTO fact_rows ({FACT_COLUMNS}, folded, revision)
            VALUES ({", ".join("?" * 18)})
            """,
            (*fact_values(fact), digest_of(folded), self._next_revision()),
        )
        self._tag(fact)

    def _update(self, fact: Fact, folded: str) -> None:
        assignments = ", ".join(f"{name} = ?" for name in FACT_COLUMNS.split(", "))
        self._connection.execute(
            f"UPDATE fact_rows SET {assignments}, folded = ?, revision = ? WHERE id = ?",
            (*fact_values(fact), digest_of(folded), self._next_revision(), fact.id),
        )
        self._connection.execute("DELETE FROM fact_tags WHERE fact_id = ?", (fact.id,))
        self._tag(fact)

    def note(self, fact_id: str, at: str, what: str, detail: str = "") -> None:
        self._connection.execute(
            "INSERT INTO fact_events VALUES (?, ?, ?, ?)", (fact_id, at, what, detail)
        )

    def _remove(self, fact_id: str) -> None:
        self._connection.execute("DELETE FROM fact_rows WHERE id = ?", (fact_id,))

    def _mark_forgotten(self, fact_id: str, forgotten: bool = True) -> None:
        self._connection.execute("DELETE FROM forgotten WHERE id = ?", (fact_id,))
        if forgotten:
            row = (fact_id, self._next_revision())
            self._connection.execute("INSERT INTO forgotten VALUES (?, ?)", row)

    def record_pending_erasure(self, facts: Iterable[Fact]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO unfinished VALUES (?, ?)",
            ((fact.id, digest_of(fact.text)) for fact in facts),
        )

    def _tag(self, fact: Fact) -> None:
        self._connection.executemany(
            "INSERT INTO fact_tags VALUES (?, ?)", ((fact.id, tag) for tag in fact.tags)
        )

    def _next_revision(self) -> int:
        self._connection.execute("UPDATE revisions SET last = last + 1")
        return int(self._connection.execute("SELECT last FROM revisions").get)

    # -- copying: facts with their events ----------------------------------------------------------

    def events(self) -> dict[str, list[FactEvent]]:
        rows = self._visible(
            "SELECT e.fact_id, e.at, e.what, e.detail FROM fact_events e"
            " JOIN facts f ON f.id = e.fact_id ORDER BY e.rowid"
        )
        return group_events(rows)

    @contextmanager
    def _unless_taken(self, fact_id: str) -> Iterator[None]:
        try:
            with self._connection:
                yield
        except apsw.ConstraintError as error:
            raise IdTakenError(fact_id) from error


def _conditions(which: FactFilter) -> tuple[str, list[Any]]:
    """Return the filter as an SQL condition, and its values."""
    values: list[Any] = []

    def mark(value: Any) -> str:
        values.append(value)
        return "?"

    conditions = [*fact_conditions(which, mark)]
    if which.ids is not None:
        conditions.append(f"f.id IN ({', '.join(map(mark, which.ids))})")
    if which.normalised is not None:
        conditions.append(f"f.folded = {mark(digest_of(which.normalised))}")
    if which.tag is not None:
        tagged = "SELECT 1 FROM fact_tags t WHERE t.fact_id = f.id AND t.tag"
        conditions.append(f"EXISTS ({tagged} = {mark(which.tag)})")
    return " AND ".join(conditions), values


def _to_facts(rows: Iterable[Any]) -> list[Fact]:
    return [to_fact(row, json.loads(tags)) for *row, tags in rows]
