"""The objects of OpenAI's interface: files, vector stores, batches and lists.

A `...Record` is an object as the database has it: with fields that no response shows.
"""

from __future__ import annotations

import re
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

ID = re.compile(r"[a-z]{2,4}[-_][0-9a-f]{28}")
"""The form of an id. Ids are names of folders, too: nothing of another form may become one."""
Key = Annotated[str, Field(max_length=64)]
Metadata = Annotated[dict[Key, Annotated[str, Field(max_length=512)]], Field(max_length=16)]
Value = (
    Annotated[str, Field(max_length=512)]
    | bool
    | Annotated[int, Field(ge=-(2**53), le=2**53)]  # a larger one is a float, as in JavaScript
    | Annotated[float, Field(allow_inf_nan=False)]
)
Attributes = Annotated[dict[Key, Value], Field(max_length=16)]
Name = Annotated[str, Field(max_length=256)]
FileId = Annotated[str, Field(max_length=64)]
FileStatus = Literal["in_progress", "completed", "cancelled", "failed"]
T = TypeVar("T")


class Owned(BaseModel):
    """The fields of every record."""

    id: str
    owner: str
    """The user it belongs to; no other user sees it."""


# -- files -----------------------------------------------------------------------------------------


class FileObject(BaseModel):
    """An uploaded file."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None = None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"


class UploadRecord(FileObject, Owned):
    """An uploaded file, as the database has it."""


# -- vector stores ---------------------------------------------------------------------------------


class ExpiresAfter(BaseModel):
    """How many days after its last use a vector store expires."""

    anchor: Literal["last_active_at"]
    days: Annotated[int, Field(ge=1, le=365)]


class FileCounts(BaseModel):
    """How many files are in which state."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    total: int = 0


class VectorStoreBase(BaseModel):
    """The fields of a vector store that do not depend on its files."""

    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str
    description: str | None = None
    metadata: Metadata
    expires_after: ExpiresAfter | None = None
    last_active_at: int


class VectorStoreRecord(VectorStoreBase, Owned):
    """A vector store, as the database has it."""

    @property
    def expires_at(self) -> int | None:
        """When it expires; None is never."""
        if self.expires_after is None:
            return None
        return self.last_active_at + self.expires_after.days * 86_400


class VectorStore(VectorStoreBase):
    """A vector store."""

    expires_at: int | None
    status: Literal["expired", "in_progress", "completed"]
    usage_bytes: int
    file_counts: FileCounts


class LastError(BaseModel):
    """Why a file could not be added to a vector store."""

    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str


class StaticChunking(BaseModel):
    """How long the passages of a file are."""

    max_chunk_size_tokens: int
    chunk_overlap_tokens: int


class ChunkingStrategy(BaseModel):
    """How files are cut into passages: by the settings `chunk.size` and `chunk.overlap`."""

    type: Literal["static"] = "static"
    static: StaticChunking


class VectorStoreFile(BaseModel):
    """A file in a vector store."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    created_at: int
    vector_store_id: str
    status: FileStatus = "in_progress"
    last_error: LastError | None = None
    usage_bytes: int = 0
    attributes: Attributes
    chunking_strategy: ChunkingStrategy


class VectorStoreFileRecord(VectorStoreFile, Owned):
    """A file in a vector store, as the database has it."""

    filename: str


class BatchBase(BaseModel):
    """The fields of a batch that do not depend on its files."""

    id: str
    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    created_at: int
    vector_store_id: str


class BatchRecord(BatchBase, Owned):
    """A batch, as the database has it."""

    file_ids: list[str]
    cancelled: bool = False


class Batch(BatchBase):
    """Files that were added to a vector store together."""

    status: FileStatus
    file_counts: FileCounts


# -- other responses -------------------------------------------------------------------------------


class Deleted(BaseModel):
    """An object that was deleted."""

    id: str
    object: str
    deleted: Literal[True] = True


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    object: Literal["list"] = "list"
    data: list[T]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Content(BaseModel):
    """A piece of text."""

    type: Literal["text"] = "text"
    text: str


class ContentPage(BaseModel):
    """The text of a file."""

    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    data: list[Content]
    has_more: Literal[False] = False
    next_page: None = None


class SearchResultItem(BaseModel):
    """A passage that answers a query."""

    file_id: str
    filename: str
    score: float
    attributes: Attributes
    content: list[Content]


class SearchResultPage(BaseModel):
    """The passages that answer a query, best first."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[SearchResultItem]
    has_more: Literal[False] = False
    next_page: None = None
