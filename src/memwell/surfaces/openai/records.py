"""HOME/openai.db: the records of uploaded files, vector stores, their files and batches.

The contents of uploaded files and the texts that are indexed stay files; see `files` and `stores`.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from memwell.errors import CorruptIndexError, HomeError, NewerIndexError, NotFoundError
from memwell.store.sqlite.database import Database
from memwell.surfaces.openai import json_records, schemas

MIGRATIONS = (
    (
        "keep files, vector stores, their files and batches, each as JSON",
        """
        CREATE TABLE files (                -- ids sort by the time they were made
            id TEXT PRIMARY KEY, owner TEXT NOT NULL, record TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE vector_stores (
            id TEXT PRIMARY KEY, owner TEXT NOT NULL, record TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE vector_store_files (   -- not of `files`: an uploaded file may expire before
            vector_store_id TEXT NOT NULL REFERENCES vector_stores ON DELETE CASCADE,
            id TEXT NOT NULL, owner TEXT NOT NULL, record TEXT NOT NULL,
            PRIMARY KEY (vector_store_id, id)
        ) WITHOUT ROWID;
        CREATE INDEX vector_store_files_by_file ON vector_store_files (id);
        CREATE TABLE batches (
            vector_store_id TEXT NOT NULL REFERENCES vector_stores ON DELETE CASCADE,
            id TEXT NOT NULL, owner TEXT NOT NULL, record TEXT NOT NULL,
            PRIMARY KEY (vector_store_id, id)
        ) WITHOUT ROWID;
        """,
    ),
)

R = TypeVar("R", bound=schemas.Owned)


def new_id(prefix: str) -> str:
    """Return an id; one that is made later is greater."""
    return f"{prefix}{time.time_ns():016x}{secrets.token_hex(6)}"


def now() -> int:
    """Return the time in seconds, as it is shown."""
    return int(time.time())


class RecordDatabase:
    """The records of a home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._database = Database(home / "openai.db", MIGRATIONS, durable=True)
        self._opening = threading.Lock()
        self._is_open = False
        self._thread = threading.local()
        self.files = Table(self, "files", schemas.UploadRecord)
        self.stores = Table(self, "vector_stores", schemas.VectorStoreRecord)

    def store_files(self, store_id: str) -> Table[schemas.VectorStoreFileRecord]:
        """Return the files of a vector store."""
        return Table(
            self, "vector_store_files", schemas.VectorStoreFileRecord, vector_store_id=store_id
        )

    def batches(self, store_id: str) -> Table[schemas.BatchRecord]:
        """Return the batches of a vector store."""
        return Table(self, "batches", schemas.BatchRecord, vector_store_id=store_id)

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Make what this thread reads and writes one transaction; an exception undoes it."""
        if self._writer:
            yield self._writer
            return
        self._open()
        with self._begin() as connection:
            yield connection

    def read(self, statement: str, values: Mapping[str, str]) -> list[Any]:
        """Return the rows of a statement."""
        if self._writer:
            return self._writer.execute(statement, values).fetchall()
        self._open()
        if not self._database.path.exists():
            return []  # only writing creates the file: a home that cannot be written answers
        with _record_errors(self._database.path), self._database.reading() as connection:
            return connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the connections to the file."""
        self._database.close()

    @property
    def _writer(self) -> apsw.Connection | None:
        """The connection of the transaction that this thread is in."""
        return getattr(self._thread, "writer", None)

    def _open(self) -> None:
        """Import the JSON files of earlier versions before anything else."""
        with self._opening:
            if not self._is_open:
                json_records.migrate(self._home, self, self._begin)
                self._is_open = True

    @contextmanager
    def _begin(self) -> Iterator[apsw.Connection]:
        with _record_errors(self._database.path), self._database.writing() as connection:
            self._thread.writer = connection
            try:
                yield connection
            finally:
                self._thread.writer = None


class Table(Generic[R]):
    """The objects of one kind; those of one vector store where `scope` names it."""

    def __init__(self, database: RecordDatabase, name: str, model: type[R], **scope: str) -> None:
        self._database = database
        self._name = name
        self._scope = scope
        self.model = model

    def get(self, id: str, owner: str) -> R:
        """Return an object of an owner; an object of another owner counts as missing."""
        record = self.find(id)
        if record is None or record.owner != owner:
            shown = id.encode("utf-8", "replace").decode()[:80]
            raise NotFoundError(f"There is no object {shown!r}", "Use an id from the list")
        return record

    def find(self, id: str) -> R | None:
        """Return an object, whoever owns it, or None."""
        return next(iter(self.select(id=id)), None) if schemas.ID.fullmatch(id) else None

    def select(self, **wanted: str) -> list[R]:
        """Return the objects with this id or owner; all without either."""
        where, values = self._where(wanted)
        rows = self._database.read(f"SELECT record FROM {self._name} WHERE {where}", values)
        return [self.model.model_validate_json(record) for (record,) in rows]

    def put(self, record: R, *, replace: bool = True) -> R:
        """Write an object. If its id exists, replace the old one or leave it as it is."""
        row = {"id": record.id, "owner": record.owner, "record": record.model_dump_json()}
        row |= self._scope
        action = "UPDATE SET record = excluded.record" if replace else "NOTHING"
        with self._database.transaction() as connection:
            connection.execute(
                f"INSERT INTO {self._name} ({', '.join(row)})"
                f" VALUES ({', '.join(f':{name}' for name in row)}) ON CONFLICT DO {action}",
                row,
            )
        return record

    def change(self, id: str, owner: str, fields: Mapping[str, Any]) -> R:
        """Change fields of an object of an owner."""
        with self._database.transaction():
            return self.put(self.get(id, owner).model_copy(update={**fields}))

    def remove(self, id: str) -> None:
        """Delete an object; the files and batches of a vector store are deleted with it."""
        where, values = self._where({"id": id})
        with self._database.transaction() as connection:
            connection.execute(f"DELETE FROM {self._name} WHERE {where}", values)

    def _where(self, wanted: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        values = {**self._scope, **wanted}
        return " AND ".join(f"{name} = :{name}" for name in values) or "true", values


@contextmanager
def _record_errors(path: Path) -> Iterator[None]:
    """Replace remedies that are meant for an index: this file cannot be built from notes."""
    try:
        yield
    except CorruptIndexError as error:
        raise HomeError(f"{path} is damaged", "Restore it from a copy of the home") from error
    except NewerIndexError as error:
        raise HomeError(f"{path} was written by a newer memwell", "Upgrade memwell") from error
