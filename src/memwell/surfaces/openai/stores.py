"""Vector stores: which files they have, and the texts that their indexes are made from.

    HOME/vector_stores/ID/texts/FILE.md     the text of a file

The records in the database are the truth; `indexing` brings texts and index in step with them.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memwell import config
from memwell.surfaces.openai import schemas
from memwell.surfaces.openai.files import Files
from memwell.surfaces.openai.records import new_id, now

IN_PROGRESS, COMPLETED, CANCELLED, FAILED = "in_progress", "completed", "cancelled", "failed"


class VectorStores:
    """The vector stores of a home."""

    def __init__(self, home: Path, files: Files) -> None:
        self.home = home
        self.uploads = files
        self.records = files.records
        self.folder = home / "vector_stores"
        self.changed: queue.Queue[str] = queue.Queue()
        """The ids of stores whose index is to be brought in step."""

    def texts(self, store_id: str) -> Path:
        """Return the folder with the texts of a store."""
        return self.folder / store_id / "texts"

    def text(self, file: schemas.VectorStoreFileRecord) -> Path:
        """Return the path of a file's text."""
        return self.texts(file.vector_store_id) / f"{file.id}.md"

    @contextmanager
    def _changing(self, store_id: str) -> Iterator[None]:
        """Make changes of a store one transaction; after the commit its index follows."""
        with self.records.transaction():
            yield
        self.changed.put(store_id)

    def create(
        self, owner: str, fields: Mapping[str, Any], file_ids: Iterable[str]
    ) -> schemas.VectorStoreRecord:
        """Create a store with files."""
        at = now()
        store = schemas.VectorStoreRecord(
            id=new_id("vs_"), owner=owner, created_at=at, last_active_at=at, **fields
        )
        with self._changing(store.id):
            self.records.stores.put(store)
            self.add_files(store, {file_id: {} for file_id in file_ids})
        return store

    def delete(self, store: schemas.VectorStoreRecord) -> None:
        """Delete a store; the uploaded files stay."""
        with self._changing(store.id):
            self.records.stores.remove(store.id)

    # -- files of a store --------------------------------------------------------------------------

    def add_files(
        self, store: schemas.VectorStoreRecord, attributes: Mapping[str, schemas.Attributes]
    ) -> list[schemas.VectorStoreFileRecord]:
        """Add files to a store, each by its id with its attributes; they are indexed later."""
        strategy = _chunking_strategy()
        with self._changing(store.id):
            self.records.stores.get(store.id, store.owner)  # it may have been deleted meanwhile
            files = [self.uploads.get(file_id, store.owner) for file_id in attributes]
            return [
                self.records.store_files(store.id).put(
                    schemas.VectorStoreFileRecord(
                        id=file.id,
                        created_at=now(),
                        vector_store_id=store.id,
                        owner=store.owner,
                        filename=file.filename,
                        attributes=attributes[file.id],
                        chunking_strategy=strategy,
                    )
                )
                for file in files
            ]

    def finish_file(self, store_id: str, file_id: str, **outcome: object) -> None:
        """Record the outcome of a file, if it is still in progress."""
        files = self.records.store_files(store_id)
        with self.records.transaction():
            file = files.find(file_id)
            if file and file.status == IN_PROGRESS:
                files.put(file.model_copy(update=outcome))

    def remove_file(self, store_id: str, file_id: str) -> None:
        """Remove a file from a store."""
        with self._changing(store_id):
            self.records.store_files(store_id).remove(file_id)

    def remove_file_everywhere(self, file_id: str) -> None:
        """Remove a file from every store."""
        query = "SELECT vector_store_id FROM vector_store_files WHERE id = :id"
        for (store_id,) in self.records.read(query, {"id": file_id}):
            self.remove_file(store_id, file_id)

    # -- batches -----------------------------------------------------------------------------------

    def add_batch(
        self, store: schemas.VectorStoreRecord, attributes: Mapping[str, schemas.Attributes]
    ) -> schemas.BatchRecord:
        """Add files to a store together."""
        batch = schemas.BatchRecord(
            id=new_id("vsfb_"),
            created_at=now(),
            vector_store_id=store.id,
            owner=store.owner,
            file_ids=[*attributes],
        )
        with self._changing(store.id):
            self.add_files(store, attributes)
            return self.records.batches(store.id).put(batch)

    def cancel_batch(self, batch: schemas.BatchRecord) -> schemas.BatchRecord:
        """Cancel those files of a batch that are still in progress."""
        store_id = batch.vector_store_id
        with self._changing(store_id):
            for file_id in batch.file_ids:
                self.finish_file(store_id, file_id, status=CANCELLED)
            return self.records.batches(store_id).change(batch.id, batch.owner, {"cancelled": True})

    def batch_files(self, batch: schemas.BatchRecord) -> list[schemas.VectorStoreFileRecord]:
        """Return the files of a batch that are still in the store."""
        files = self.records.store_files(batch.vector_store_id)
        return [file for file_id in batch.file_ids if (file := files.find(file_id))]


def _chunking_strategy() -> schemas.ChunkingStrategy:
    """Return how files are cut into chunks; a request cannot change it."""
    chunk = config.load(None).chunk
    size, overlap = chunk.size, chunk.overlap
    return schemas.ChunkingStrategy(
        static=schemas.StaticChunking(max_chunk_size_tokens=size, chunk_overlap_tokens=overlap)
    )
