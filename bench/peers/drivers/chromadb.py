"""Chroma with a store in a folder; its local search is by vectors alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import chromadb
from chromadb.config import Settings

from bench.peers.passages import Passages, Vector

VECTORS = "matrix"
READS = ("chunks", "chunk_vectors")


def build(folder: Path, passages: Passages) -> None:
    """Add the passages in batches of the greatest size that the client takes."""
    client = _client(folder)
    collection = client.create_collection("passages", embedding_function=None)
    size = client.get_max_batch_size()
    for start in range(0, len(passages.chunks), size):
        batch = passages.chunks[start : start + size]
        collection.add(
            ids=[chunk.id for chunk in batch],
            documents=[chunk.text for chunk in batch],
            embeddings=passages.chunk_vectors[start : start + size],
        )


def connect(folder: Path, passages: Passages) -> Callable[[str, Vector, int], list[str]]:
    """Open the collection."""
    collection = _client(folder).get_collection("passages", embedding_function=None)

    def search(text: str, vector: Vector, count: int) -> list[str]:
        found = collection.query(query_embeddings=[vector], n_results=count)
        return list(found["ids"][0])

    return search


def _client(folder: Path) -> chromadb.ClientAPI:
    return chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
