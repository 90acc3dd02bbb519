"""What is kept of vector stores: small JSON files, and the texts that their indexes are made from.

    HOME/vector_stores/ID.json              what the store is
    HOME/vector_stores/ID/files/FILE.json   a file of it: its state and attributes
    HOME/vector_stores/ID/batches/ID.json   files that came together
    HOME/vector_stores/ID/texts/FILE.md     the text of a file

The records are what is true; `indexing` brings texts and index in step with them.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memwell import config
from memwell.files import hold_lock
from memwell.surfaces.openai.files import Files
from memwell.surfaces.openai.records import Records, new_id, now
from memwell.surfaces.openai.schemas import (
    Attributes,
    BatchRecord,
    ChunkingStrategy,
    Chunks,
    VectorStoreFileRecord,
    VectorStoreRecord,
)

IN_PROGRESS, COMPLETED, CANCELLED, FAILED = "in_progress", "completed", "cancelled", "failed"


class VectorStores:
    """The vector stores of a home."""

    def __init__(self, home: Path, files: Files) -> None:
        self.home = home
        self.uploaded = files
        self.folder = home / "vector_stores"
        self.records = Records(self.folder, VectorStoreRecord)
        self.changed: queue.Queue[str] = queue.Queue()
        """The ids of stores whose index is to follow."""

    def files(self, store_id: str) -> Records[VectorStoreFileRecord]:
        """Return the files of a store."""
        return Records(self.folder / store_id / "files", VectorStoreFileRecord)

    def batches(self, store_id: str) -> Records[BatchRecord]:
        """Return the batches of a store."""
        return Records(self.folder / store_id / "batches", BatchRecord)

    def texts(self, store_id: str) -> Path:
        """Return the folder with the texts of a store."""
        return self.folder / store_id / "texts"

    def text(self, file: VectorStoreFileRecord) -> Path:
        """Return where the text of a file lies."""
        return self.texts(file.vector_store_id) / f"{file.id}.md"

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep others, also other processes, from writing between our reading and writing."""
        with hold_lock(self.folder / ".lock", wait=True):
            yield

    def create(self, owner: str, told: Mapping[str, Any]) -> VectorStoreRecord:
        """Make a store without files."""
        at = now()
        return self.records.put(
            VectorStoreRecord(
                id=new_id("vs_"), owner=owner, created_at=at, last_active_at=at, **told
            )
        )

    def change(self, store_id: str, owner: str, told: Mapping[str, Any]) -> VectorStoreRecord:
        """Change what a store is, but not its files."""
        with self.changing():
            store = self.records.get(store_id, owner)
            return self.records.put(store.model_copy(update={**told}))

    def remove(self, store: VectorStoreRecord) -> None:
        """Keep a store no longer; the files that were uploaded stay."""
        with self.changing():
            self.records.remove(store.id)
        self.changed.put(store.id)

    # -- files of a store --------------------------------------------------------------------------

    def add(
        self, store: VectorStoreRecord, wanted: Mapping[str, Attributes]
    ) -> list[VectorStoreFileRecord]:
        """Take files into a store, by their ids; the index follows."""
        found = [self.uploaded.get(file_id, store.owner) for file_id in wanted]
        strategy = _strategy()
        with self.changing():
            added = [
                self.files(store.id).put(
                    VectorStoreFileRecord(
                        id=file.id,
                        created_at=now(),
                        vector_store_id=store.id,
                        owner=store.owner,
                        filename=file.filename,
                        attributes=wanted[file.id],
                        chunking_strategy=strategy,
                    )
                )
                for file in found
            ]
        self.changed.put(store.id)
        return added

    def describe(
        self, store: VectorStoreRecord, file_id: str, attributes: Attributes
    ) -> VectorStoreFileRecord:
        """Give a file of a store other attributes."""
        with self.changing():
            file = self.files(store.id).get(file_id, store.owner)
            return self.files(store.id).put(file.model_copy(update={"attributes": attributes}))

    def finish_file(self, store_id: str, file_id: str, **outcome: object) -> None:
        """Note what became of a file that is in progress, if it still is."""
        with self.changing():
            file = self.files(store_id).find(file_id)
            if file and file.status == IN_PROGRESS:
                self.files(store_id).put(file.model_copy(update=outcome))

    def remove_file(self, store_id: str, file_id: str) -> None:
        """Take a file out of a store."""
        with self.changing():
            self.files(store_id).remove(file_id)
        self.changed.put(store_id)

    def remove_file_everywhere(self, file_id: str, owner: str) -> None:
        """Take a file out of all stores of its owner."""
        for store in self.records.of(owner):
            if self.files(store.id).find(file_id):
                self.remove_file(store.id, file_id)

    # -- batches -----------------------------------------------------------------------------------

    def add_batch(self, store: VectorStoreRecord, wanted: Mapping[str, Attributes]) -> BatchRecord:
        """Take files into a store together."""
        batch = BatchRecord(
            id=new_id("vsfb_"),
            created_at=now(),
            vector_store_id=store.id,
            owner=store.owner,
            file_ids=[*wanted],
        )
        self.add(store, wanted)
        return self.batches(store.id).put(batch)

    def cancel(self, batch: BatchRecord) -> BatchRecord:
        """Give up those files of a batch that are still in progress."""
        for file_id in batch.file_ids:
            self.finish_file(batch.vector_store_id, file_id, status=CANCELLED)
        self.changed.put(batch.vector_store_id)
        return self.batches(batch.vector_store_id).put(batch.model_copy(update={"cancelled": True}))

    def batch_files(self, batch: BatchRecord) -> list[VectorStoreFileRecord]:
        """Return the files of a batch that are still in the store."""
        files = self.files(batch.vector_store_id)
        return [file for file_id in batch.file_ids if (file := files.find(file_id))]


def _strategy() -> ChunkingStrategy:
    """Return how files are cut, whatever else was asked for."""
    chunk = config.load(None).chunk
    size, overlap = chunk.size, chunk.overlap
    return ChunkingStrategy(static=Chunks(max_chunk_size_tokens=size, chunk_overlap_tokens=overlap))
