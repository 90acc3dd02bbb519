"""/v1/vector_stores/ID/files and file_batches: which files a vector store has."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from memwell.errors import MemwellError, NotFoundError
from memwell.surfaces.http.errors import FAILURES
from memwell.surfaces.openai.records import PageRequest, page
from memwell.surfaces.openai.schemas import (
    Attributes,
    Batch,
    BatchRecord,
    Content,
    ContentPage,
    Deleted,
    FileId,
    Page,
    Status,
    VectorStoreFile,
    VectorStoreFileRecord,
)
from memwell.surfaces.openai.stores import CANCELLED, COMPLETED, IN_PROGRESS, VectorStores
from memwell.surfaces.openai.vector_stores import Store, Stores, count_files

MOST_FILES = 2000

router = APIRouter(
    prefix="/v1/vector_stores/{vector_store_id}",
    tags=["OpenAI: files of vector stores"],
    responses=FAILURES,
)


def file_of(file_id: str, store: Store, stores: Stores) -> VectorStoreFileRecord:
    """Return the file of a store that an address names."""
    return stores.files(store.id).get(file_id, store.owner)


def batch_of(batch_id: str, store: Store, stores: Stores) -> BatchRecord:
    """Return the batch that an address names."""
    return stores.batches(store.id).get(batch_id, store.owner)


File = Annotated[VectorStoreFileRecord, Depends(file_of)]
OneBatch = Annotated[BatchRecord, Depends(batch_of)]


class Addition(BaseModel):
    """A file that a store is to have."""

    file_id: FileId
    attributes: Attributes | None = None


class Additions(BaseModel):
    """Files that a store is to have: by their ids, or each with attributes of its own."""

    file_ids: Annotated[list[FileId], Field(max_length=MOST_FILES)] = []
    files: Annotated[list[Addition], Field(max_length=MOST_FILES)] = []
    attributes: Attributes | None = None


class Description(BaseModel):
    """What a file is to be found by."""

    attributes: Attributes | None


class StatePart(PageRequest):
    """Which part of a list of files is asked for."""

    filter: Status | None = None


Asked = Annotated[StatePart, Query()]


@router.post("/files", response_model=VectorStoreFile)
def create(told: Addition, store: Store, stores: Stores) -> Any:
    """Take a file into a vector store."""
    return stores.add(store, {told.file_id: told.attributes or {}})[0]


@router.get("/files", response_model=Page[VectorStoreFile])
def list_files(store: Store, stores: Stores, asked: Asked) -> Any:
    """List the files of a vector store."""
    return _page([*stores.files(store.id)], asked)


@router.get("/files/{file_id}", response_model=VectorStoreFile)
def retrieve(file: File) -> Any:
    """Return what is known of a file of a vector store."""
    return file


@router.post("/files/{file_id}", response_model=VectorStoreFile)
def update(file_id: str, told: Description, store: Store, stores: Stores) -> Any:
    """Give a file of a vector store other attributes."""
    return stores.describe(store, file_id, told.attributes or {})


@router.delete("/files/{file_id}", response_model=Deleted)
def delete(file: File, stores: Stores) -> Any:
    """Take a file out of a vector store; it stays among the files that were uploaded."""
    stores.remove_file(file.vector_store_id, file.id)
    return Deleted(id=file.id, object="vector_store.file.deleted")


@router.get("/files/{file_id}/content", response_model=ContentPage)
def content(file: File, stores: Stores) -> Any:
    """Return the text of a file of a vector store."""
    try:
        text = stores.text(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFoundError(
            f"The file {file.id} has no text yet", "Wait until it is completed"
        ) from None
    return ContentPage(data=[Content(text=text)])


# -- batches ---------------------------------------------------------------------------------------


@router.post("/file_batches", response_model=Batch)
def create_batch(told: Additions, store: Store, stores: Stores) -> Any:
    """Take files into a vector store together."""
    if bool(told.file_ids) == bool(told.files):
        raise MemwellError("Which files are meant is not clear", "Give either file_ids or files")
    wanted = {file_id: told.attributes or {} for file_id in told.file_ids}
    wanted |= {one.file_id: one.attributes or {} for one in told.files}
    return _to_response(stores.add_batch(store, wanted), stores)


@router.get("/file_batches/{batch_id}", response_model=Batch)
def retrieve_batch(batch: OneBatch, stores: Stores) -> Any:
    """Return how far a batch is."""
    return _to_response(batch, stores)


@router.post("/file_batches/{batch_id}/cancel", response_model=Batch)
def cancel_batch(batch: OneBatch, stores: Stores) -> Any:
    """Give up what is not done yet of a batch."""
    return _to_response(stores.cancel(batch), stores)


@router.get("/file_batches/{batch_id}/files", response_model=Page[VectorStoreFile])
def list_batch_files(batch: OneBatch, stores: Stores, asked: Asked) -> Any:
    """List the files of a batch."""
    return _page(stores.batch_files(batch), asked)


def _page(files: list[VectorStoreFileRecord], asked: StatePart) -> Any:
    return page([file for file in files if asked.filter in (None, file.status)], asked)


def _to_response(batch: BatchRecord, stores: VectorStores) -> Batch:
    counts = count_files(stores.batch_files(batch))
    ended = CANCELLED if batch.cancelled else COMPLETED
    status = IN_PROGRESS if counts.in_progress else ended
    return Batch.model_validate({**batch.model_dump(), "status": status, "file_counts": counts})
