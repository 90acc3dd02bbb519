"""/v1/vector_stores: creating, searching and deleting vector stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from memwell.errors import NotFoundError
from memwell.model import Hit
from memwell.surfaces.http.errors import FAILURES
from memwell.surfaces.openai import schemas
from memwell.surfaces.openai.files import Owner
from memwell.surfaces.openai.filters import Filter
from memwell.surfaces.openai.indexing import Indexer
from memwell.surfaces.openai.paging import PageRequest, page
from memwell.surfaces.openai.records import now
from memwell.surfaces.openai.stores import COMPLETED, IN_PROGRESS, VectorStores

_ACTIVE_SECONDS = 60
"""The precision of `last_active_at`: most searches then need no write."""
_EMPTY: dict[str, Any] = {"name": "", "metadata": {}}

router = APIRouter(prefix="/v1/vector_stores", tags=["OpenAI: vector stores"], responses=FAILURES)


def stores_of(request: Request) -> VectorStores:
    """Return the vector stores of the server's home."""
    stores: VectorStores = request.app.state.stores
    return stores


ServerStores = Annotated[VectorStores, Depends(stores_of)]


def store_of(vector_store_id: str, stores: ServerStores, owner: Owner) -> schemas.VectorStoreRecord:
    """Return the store that the address names, if the user owns it."""
    return stores.records.stores.get(vector_store_id, owner)


NamedStore = Annotated[schemas.VectorStoreRecord, Depends(store_of)]


class UpdateStoreRequest(BaseModel):
    """The fields of a store to change."""

    name: schemas.Name | None = None
    metadata: schemas.Metadata | None = None
    expires_after: schemas.ExpiresAfter | None = None


class CreateStoreRequest(UpdateStoreRequest):
    """A store to create."""

    description: Annotated[str, Field(max_length=4096)] | None = None
    file_ids: Annotated[list[schemas.FileId], Field(max_length=500)] = []


class RankingOptions(BaseModel):
    """Which passages are good enough."""

    ranker: str | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0


class StoreSearchRequest(BaseModel):
    """A query, or several, and which passages may answer it."""

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
    """Accepted and ignored: queries are searched as they are."""


@router.post("", response_model=schemas.VectorStore)
def create_store(body: CreateStoreRequest, stores: ServerStores, owner: Owner) -> Any:
    """Create a vector store."""
    store = stores.create(owner, {**_EMPTY, **_given_fields(body)}, body.file_ids)
    return to_response(store, stores)


@router.get("", response_model=schemas.Page[schemas.VectorStore])
def list_stores(
    stores: ServerStores, owner: Owner, request: Annotated[PageRequest, Query()]
) -> Any:
    """List vector stores."""
    owned = stores.records.stores.select(owner=owner)
    return page(owned, request, lambda store: to_response(store, stores))


@router.get("/{vector_store_id}", response_model=schemas.VectorStore)
def retrieve_store(store: NamedStore, stores: ServerStores) -> Any:
    """Return a vector store."""
    return to_response(store, stores)


@router.post("/{vector_store_id}", response_model=schemas.VectorStore)
def update_store(store: NamedStore, body: UpdateStoreRequest, stores: ServerStores) -> Any:
    """Change the name, metadata or expiry of a vector store."""
    changed = stores.records.stores.change(store.id, store.owner, _given_fields(body))
    return to_response(changed, stores)


@router.delete("/{vector_store_id}", response_model=schemas.Deleted)
def delete_store(store: NamedStore, stores: ServerStores) -> Any:
    """Delete a vector store; the uploaded files stay."""
    stores.delete(store)
    return schemas.Deleted(id=store.id, object="vector_store.deleted")


@router.post("/{vector_store_id}/search", response_model=schemas.SearchResultPage)
def search_store(
    store: NamedStore, body: StoreSearchRequest, stores: ServerStores, request: Request
) -> Any:
    """Find the passages of a vector store that answer a query, best first."""
    if _has_expired(store):
        raise NotFoundError(f"The vector store {store.id} has expired", "Create another one")
    if now() - store.last_active_at > _ACTIVE_SECONDS:
        stores.records.stores.change(store.id, store.owner, {"last_active_at": now()})
    queries = [body.query] if isinstance(body.query, str) else body.query
    hits = _search(queries, body, store, stores, request.app.state.indexer)
    files = stores.records.store_files(store.id)
    data = [
        schemas.SearchResultItem(
            file_id=file.id,
            filename=file.filename,
            score=hit.score,
            attributes=file.attributes,
            content=[schemas.Content(text=hit.text)],
        )
        for hit in hits
        if (file := files.find(hit.path.removesuffix(".md"))) and file.status == COMPLETED
    ]
    return schemas.SearchResultPage(search_query=queries, data=data)


def _given_fields(request: UpdateStoreRequest) -> dict[str, Any]:
    """Return the fields that the request names; null means the empty value of the field."""
    names = request.model_fields_set - {"file_ids"}
    given = {name: getattr(request, name) for name in names}
    return {name: _EMPTY.get(name) if value is None else value for name, value in given.items()}


def _search(
    queries: list[str],
    request: StoreSearchRequest,
    store: schemas.VectorStoreRecord,
    stores: VectorStores,
    indexer: Indexer,
) -> list[Hit]:
    """Return the best passages for any of the queries, of files whose attributes match."""
    files = stores.records.store_files(store.id).select()
    if not any(file.status == COMPLETED for file in files):
        return []  # there may be no index yet
    paths = None
    if request.filters:
        matching = [file for file in files if request.filters.matches(file.attributes)]
        paths = [stores.text(file).name for file in matching]
    best: dict[tuple[str, int], Hit] = {}
    for query in queries:
        result = indexer.memory(store.id).search(
            query,
            k=request.max_num_results,
            min_score=request.ranking_options.score_threshold,
            group="passages",
            kind="note",
            paths=paths,
        )
        for hit in result.hits:
            key = hit.path, hit.start_line
            best[key] = max(hit, best.get(key, hit), key=lambda hit: hit.score)
    return sorted(best.values(), key=lambda hit: -hit.score)[: request.max_num_results]


def to_response(store: schemas.VectorStoreRecord, stores: VectorStores) -> schemas.VectorStore:
    """Return a store with the state, number and size of its files."""
    files = stores.records.store_files(store.id).select()
    counts = count_files(files)
    state = IN_PROGRESS if counts.in_progress else COMPLETED
    return schemas.VectorStore.model_validate(
        {
            **store.model_dump(),
            "expires_at": store.expires_at,
            "status": "expired" if _has_expired(store) else state,
            "usage_bytes": sum(file.usage_bytes for file in files),
            "file_counts": counts,
        }
    )


def count_files(files: Iterable[schemas.VectorStoreFileRecord]) -> schemas.FileCounts:
    """Return how many files are in which state."""
    counts: Counter[str] = Counter(file.status for file in files)
    return schemas.FileCounts(**counts, total=counts.total())


def _has_expired(store: schemas.VectorStoreRecord) -> bool:
    return store.expires_at is not None and store.expires_at <= now()
