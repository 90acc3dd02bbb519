"""The records of earlier versions: one JSON file for each object.

    HOME/files/ID.json                      an uploaded file
    HOME/vector_stores/ID.json              a vector store
    HOME/vector_stores/ID/files/ID.json     a file of it
    HOME/vector_stores/ID/batches/ID.json   files that were added together

`migrate` writes all of them to openai.db in one transaction, and deletes them after its commit. If
the process is killed in between, the next start finds them again; existing rows stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from memwell.errors import HomeError
from memwell.surfaces.openai.schemas import ID

if TYPE_CHECKING:
    from memwell.surfaces.openai.records import RecordDatabase, Table


def migrate(
    home: Path, database: RecordDatabase, begin: Callable[[], AbstractContextManager[Any]]
) -> None:
    """Move the JSON files of a home into the database, if there are any."""
    uploads, stores = home / "files", home / "vector_stores"
    if not _json_files(uploads) and not _json_files(stores):
        return
    with begin():
        imported = _import(uploads, database.files) + _import(stores, database.stores)
        for store in [file.with_suffix("") for file in imported if file.parent == stores]:
            imported += _import(store / "files", database.store_files(store.name))
            imported += _import(store / "batches", database.batches(store.name))
    # In reverse, the file of a store is deleted last: without it the others would not be found.
    for file in reversed(imported):
        file.unlink(missing_ok=True)
        if file.parent not in (uploads, stores):
            with suppress(OSError):  # not empty yet
                file.parent.rmdir()
    (stores / ".lock").unlink(missing_ok=True)


def _json_files(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*.json") if ID.fullmatch(file.stem)]


def _import(folder: Path, table: Table[Any]) -> list[Path]:
    """Write the objects of a folder to a table; return their files."""
    imported = []
    for file in _json_files(folder):
        try:
            table.put(table.model.model_validate_json(file.read_bytes()), replace=False)
        except FileNotFoundError:
            continue  # another process has imported it, and is deleting it now
        except ValidationError as error:
            raise HomeError(
                f"{file} cannot be imported ({error.errors()[0]['msg']})", "Correct or delete it"
            ) from error
        imported.append(file)
    return imported
