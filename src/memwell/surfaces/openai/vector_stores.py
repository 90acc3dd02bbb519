"""/v1/vector_stores: making, searching and removing vector stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from memwell.errors import NotFoundError
from memwell.model import Hit
from memwell.surfaces.http.errors import FAILURES
from memwell.surfaces.openai.files import Owner
from memwell.surfaces.openai.filters import Filter
from memwell.surfaces.openai.indexing import Indexer
from memwell.surfaces.openai.records import Asked, now, page
from memwell.surfaces.openai.schemas import (
    Content,
    Deleted,
    ExpiresAfter,
    FileCounts,
    FileId,
    FoundFile,
    FoundPage,
    Metadata,
    Name,
    Page,
    VectorStore,
    VectorStoreFileRecord,
    VectorStoreRecord,
)
from memwell.surfaces.openai.stores import COMPLETED, IN_PROGRESS, VectorStores

_ACTIVE_SECONDS = 60
"""How exactly it is known when a store was last used: a write less for most searches."""
_EMPTY: dict[str, Any] = {"name": "", "metadata": {}}

router = APIRouter(prefix="/v1/vector_stores", tags=["OpenAI: vector stores"], responses=FAILURES)


def stores_of(request: Request) -> VectorStores:
    """Return the vector stores of the server's home."""
    stores: VectorStores = request.app.state.stores
    return stores


Stores = Annotated[VectorStores, Depends(stores_of)]


def store_of(vector_store_id: str, stores: Stores, owner: Owner) -> VectorStoreRecord:
    """Return the store that an address names, if it is the one's who asks."""
    return stores.records.get(vector_store_id, owner)


Store = Annotated[VectorStoreRecord, Depends(store_of)]


class Change(BaseModel):
    """What is to be otherwise about a store."""

    name: Name | None = None
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None


class Creation(Change):
    """A store that is to be."""

    description: Annotated[str, Field(max_length=4096)] | None = None
    file_ids: Annotated[list[FileId], Field(max_length=500)] = []


class RankingOptions(BaseModel):
    """Which passages are good enough."""

    ranker: str | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0


class Query(BaseModel):
    """What a search is asked for."""

    query: (
        Annotated[str, Field(max_length=100_000)]
        | Annotated[
            list[Annotated[str, Field(max_length=100_000)]], Field(min_length=1, max_length=10)
        ]
    )
    filters: Filter | None = None
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    ranking_options: RankingOptions = RankingOptions()
    rewrite_query: bool = False
    """Taken, but queries are searched as they are."""


@router.post("", response_model=VectorStore)
def create(told: Creation, stores: Stores, owner: Owner) -> Any:
    """Make a vector store."""
    for file_id in told.file_ids:
        stores.uploaded.get(file_id, owner)
    store = stores.create(owner, {**_EMPTY, **_told(told)})
    if told.file_ids:
        stores.add(store, {file_id: {} for file_id in told.file_ids})
    return to_response(store, stores)


@router.get("", response_model=Page[VectorStore])
def list_stores(stores: Stores, owner: Owner, asked: Asked) -> Any:
    """List vector stores."""
    return page(stores.records.of(owner), asked, lambda store: to_response(store, stores))


@router.get("/{vector_store_id}", response_model=VectorStore)
def retrieve(store: Store, stores: Stores) -> Any:
    """Return what is known of a vector store."""
    return to_response(store, stores)


@router.post("/{vector_store_id}", response_model=VectorStore)
def modify(store: Store, told: Change, stores: Stores) -> Any:
    """Change the name, metadata or expiry of a vector store."""
    return to_response(stores.change(store.id, store.owner, _told(told)), stores)


@router.delete("/{vector_store_id}", response_model=Deleted)
def delete(store: Store, stores: Stores) -> Any:
    """Remove a vector store; the files that were uploaded stay."""
    stores.remove(store)
    return Deleted(id=store.id, object="vector_store.deleted")


@router.post("/{vector_store_id}/search", response_model=FoundPage)
def search(store: Store, asked: Query, stores: Stores, request: Request) -> Any:
    """Find the passages of a vector store that answer a query, best first."""
    if _has_expired(store):
        raise NotFoundError(f"The vector store {store.id} has expired", "Make another")
    if now() - store.last_active_at > _ACTIVE_SECONDS:
        stores.change(store.id, store.owner, {"last_active_at": now()})
    queries = [asked.query] if isinstance(asked.query, str) else asked.query
    hits = _found(queries, asked, store, stores, request.app.state.indexer)
    files = stores.files(store.id)
    data = [
        FoundFile(
            file_id=file.id,
            filename=file.filename,
            score=hit.score,
            attributes=file.attributes,
            content=[Content(text=hit.text)],
        )
        for hit in hits
        if (file := files.find(_file_id(hit))) and file.status == COMPLETED
    ]
    return FoundPage(search_query=queries, data=data)


def _told(change: Change) -> dict[str, Any]:
    """Return what was said; null is nothing of its kind."""
    said = {name: getattr(change, name) for name in change.model_fields_set - {"file_ids"}}
    return {name: _EMPTY.get(name) if value is None else value for name, value in said.items()}


def _found(
    queries: list[str],
    asked: Query,
    store: VectorStoreRecord,
    stores: VectorStores,
    indexer: Indexer,
) -> list[Hit]:
    """Return the best passages for any of some queries; only of files whose attributes fit."""
    if not any(file.status == COMPLETED for file in stores.files(store.id)):
        return []  # there may be no index yet
    paths = None
    if asked.filters:
        fitting = (file for file in stores.files(store.id) if asked.filters.fits(file.attributes))
        paths = [stores.text(file).name for file in fitting]
    best: dict[tuple[str, int], Hit] = {}
    for query in queries:
        found = indexer.memory(store.id).search(
            query,
            k=asked.max_num_results,
            min_score=asked.ranking_options.score_threshold,
            kind="note",
            paths=paths,
        )
        for hit in found.hits:
            place = hit.path, hit.start_line
            best[place] = max(hit, best.get(place, hit), key=lambda one: one.score)
    return sorted(best.values(), key=lambda hit: -hit.score)[: asked.max_num_results]


def _file_id(hit: Hit) -> str:
    return hit.path.removesuffix(".md")


def to_response(store: VectorStoreRecord, stores: VectorStores) -> VectorStore:
    """Return a store with what its files come to."""
    files = [*stores.files(store.id)]
    counts = count_files(files)
    state = IN_PROGRESS if counts.in_progress else COMPLETED
    return VectorStore.model_validate(
        {
            **store.model_dump(),
            "expires_at": store.expires_at,
            "status": "expired" if _has_expired(store) else state,
            "usage_bytes": sum(file.usage_bytes for file in files),
            "file_counts": counts,
        }
    )


def count_files(files: Iterable[VectorStoreFileRecord]) -> FileCounts:
    """Return how many files are in which state."""
    counts = FileCounts()
    for file in files:
        setattr(counts, file.status, getattr(counts, file.status) + 1)
        counts.total += 1
    return counts


def _has_expired(store: VectorStoreRecord) -> bool:
    return store.expires_at is not None and store.expires_at <= now()
