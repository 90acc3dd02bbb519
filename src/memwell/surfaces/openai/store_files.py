"""/v1/vector_stores/ID/files and file_batches: the files of a vector store."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from memwell.errors import MemwellError, NotFoundError
from memwell.surfaces.http.errors import FAILURES
from memwell.surfaces.openai import schemas
from memwell.surfaces.openai.paging import PageRequest, page
from memwell.surfaces.openai.stores import CANCELLED, COMPLETED, IN_PROGRESS, VectorStores
from memwell.surfaces.openai.vector_stores import NamedStore, ServerStores, count_files

MOST_FILES = 2000

router = APIRouter(
    prefix="/v1/vector_stores/{vector_store_id}",
    tags=["OpenAI: files of vector stores"],
    responses=FAILURES,
)


def file_of(file_id: str, store: NamedStore, stores: ServerStores) -> schemas.VectorStoreFileRecord:
    """Return the file of a store that the address names."""
    return stores.records.store_files(store.id).get(file_id, store.owner)


def batch_of(batch_id: str, store: NamedStore, stores: ServerStores) -> schemas.BatchRecord:
    """Return the batch that the address names."""
    return stores.records.batches(store.id).get(batch_id, store.owner)


NamedFile = Annotated[schemas.VectorStoreFileRecord, Depends(file_of)]
NamedBatch = Annotated[schemas.BatchRecord, Depends(batch_of)]


class AddFileRequest(BaseModel):
    """A file to add to a store."""

    file_id: schemas.FileId
    attributes: schemas.Attributes | None = None


class AddFilesRequest(BaseModel):
    """Files to add to a store: by their ids, or each with attributes of its own."""

    file_ids: Annotated[list[schemas.FileId], Field(max_length=MOST_FILES)] = []
    files: Annotated[list[AddFileRequest], Field(max_length=MOST_FILES)] = []
    attributes: schemas.Attributes | None = None


class UpdateFileRequest(BaseModel):
    """The new attributes of a file, which filters look at."""

    attributes: schemas.Attributes | None


class StoreFileListRequest(PageRequest):
    """Which part of a list of files is asked for."""

    filter: schemas.FileStatus | None = None


ListQuery = Annotated[StoreFileListRequest, Query()]


@router.post("/files", response_model=schemas.VectorStoreFile)
def add_store_file(body: AddFileRequest, store: NamedStore, stores: ServerStores) -> Any:
    """Add a file to a vector store."""
    return stores.add_files(store, {body.file_id: body.attributes or {}})[0]


@router.get("/files", response_model=schemas.Page[schemas.VectorStoreFile])
def list_store_files(store: NamedStore, stores: ServerStores, request: ListQuery) -> Any:
    """List the files of a vector store."""
    return _page(stores.records.store_files(store.id).select(), request)


@router.get("/files/{file_id}", response_model=schemas.VectorStoreFile)
def retrieve_store_file(file: NamedFile) -> Any:
    """Return a file of a vector store."""
    return file


@router.post("/files/{file_id}", response_model=schemas.VectorStoreFile)
def update_store_file(
    file_id: str, body: UpdateFileRequest, store: NamedStore, stores: ServerStores
) -> Any:
    """Replace the attributes of a file of a vector store."""
    files = stores.records.store_files(store.id)
    return files.change(file_id, store.owner, {"attributes": body.attributes or {}})


@router.delete("/files/{file_id}", response_model=schemas.Deleted)
def remove_store_file(file: NamedFile, stores: ServerStores) -> Any:
    """Remove a file from a vector store; the uploaded file stays."""
    stores.remove_file(file.vector_store_id, file.id)
    return schemas.Deleted(id=file.id, object="vector_store.file.deleted")


@router.get("/files/{file_id}/content", response_model=schemas.ContentPage)
def retrieve_store_file_content(file: NamedFile, stores: ServerStores) -> Any:
    """Return the text of a file of a vector store."""
    try:
        text = stores.text(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFoundError(
            f"The file {file.id} has no text yet", "Wait until its status is completed"
        ) from None
    return schemas.ContentPage(data=[schemas.Content(text=text)])


# -- batches ---------------------------------------------------------------------------------------


@router.post("/file_batches", response_model=schemas.Batch)
def create_batch(body: AddFilesRequest, store: NamedStore, stores: ServerStores) -> Any:
    """Add files to a vector store together."""
    if bool(body.file_ids) == bool(body.files):
        raise MemwellError("It is not clear which files to add", "Give either file_ids or files")
    attributes = {file_id: body.attributes or {} for file_id in body.file_ids}
    attributes |= {file.file_id: file.attributes or {} for file in body.files}
    return _to_response(stores.add_batch(store, attributes), stores)


@router.get("/file_batches/{batch_id}", response_model=schemas.Batch)
def retrieve_batch(batch: NamedBatch, stores: ServerStores) -> Any:
    """Return the progress of a batch."""
    return _to_response(batch, stores)


@router.post("/file_batches/{batch_id}/cancel", response_model=schemas.Batch)
def cancel_batch(batch: NamedBatch, stores: ServerStores) -> Any:
    """Cancel the files of a batch that are still in progress."""
    return _to_response(stores.cancel_batch(batch), stores)


@router.get("/file_batches/{batch_id}/files", response_model=schemas.Page[schemas.VectorStoreFile])
def list_batch_files(batch: NamedBatch, stores: ServerStores, request: ListQuery) -> Any:
    """List the files of a batch."""
    return _page(stores.batch_files(batch), request)


def _page(files: list[schemas.VectorStoreFileRecord], request: StoreFileListRequest) -> Any:
    return page([file for file in files if request.filter in (None, file.status)], request)


def _to_response(batch: schemas.BatchRecord, stores: VectorStores) -> schemas.Batch:
    counts = count_files(stores.batch_files(batch))
    ended = CANCELLED if batch.cancelled else COMPLETED
    status = IN_PROGRESS if counts.in_progress else ended
    return schemas.Batch.model_validate(
        {**batch.model_dump(), "status": status, "file_counts": counts}
    )
