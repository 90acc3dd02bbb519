"""llm's collections of embeddings; they are searched by vectors alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

import llm
import sqlite_utils

from bench.peers.passages import Passages, Vector

VECTORS = "lists"
READS = ("chunks", "chunk_vectors")


class Precomputed(llm.EmbeddingModel):  # type: ignore[misc]
    """A model that knows the vectors of all passages."""

    model_id = "precomputed"

    def __init__(self, passages: Passages) -> None:
        self._passages = passages

    @cached_property
    def _vectors(self) -> dict[str, list[float]]:
        texts = (chunk.text for chunk in self._passages.chunks)
        return dict(zip(texts, self._passages.chunk_vectors, strict=True))

    def embed_batch(self, items: Iterable[str | bytes]) -> Iterator[list[float]]:
        """Yield the vector of each passage."""
        return (self._vectors[str(item)] for item in items)


def build(folder: Path, passages: Passages) -> None:
    """Embed all passages into one collection that keeps the texts."""
    folder.mkdir(parents=True, exist_ok=True)
    chunks = ((chunk.id, chunk.text) for chunk in passages.chunks)
    _collection(folder, passages).embed_multi(chunks, store=True)


def connect(folder: Path, passages: Passages) -> Callable[[str, Vector, int], list[str]]:
    """Open the collection."""
    collection = _collection(folder, passages)

    def search(text: str, vector: Vector, count: int) -> list[str]:
        return [str(entry.id) for entry in collection.similar_by_vector(vector, count)]

    return search


def _collection(folder: Path, passages: Passages) -> llm.Collection:
    database = sqlite_utils.Database(folder / "embeddings.db")
    return llm.Collection("passages", database, model=Precomputed(passages))
