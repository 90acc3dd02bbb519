"""mem0 with its local store (Qdrant in a folder), without a language model.

Its keyword search needs a model that fastembed downloads, so that only vectors are searched here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mem0 import Memory

from bench.peers.passages import DIMENSIONS, Passages, Vector

VECTORS = "lists"
READS = ("chunks", "chunk_vectors")
_USER = "bench"


class Precomputed:
    """Knows the vectors of the texts that are added or asked next."""

    def __init__(self) -> None:
        self.vectors: dict[str, Vector] = {}

    def embed(self, text: str, memory_action: str | None = None) -> Vector:
        """Return the vector of a text."""
        return self.vectors[text]


def build(folder: Path, passages: Passages) -> None:
    """Add the passages one by one, as they are: mem0 has no call for many."""
    memory, model = _open(folder)
    for chunk, vector in zip(passages.chunks, passages.chunk_vectors, strict=True):
        model.vectors = {chunk.text: vector}
        memory.add(chunk.text, user_id=_USER, metadata={"passage": chunk.id}, infer=False)
    memory.close()


def connect(folder: Path, passages: Passages) -> Callable[[str, Vector, int], list[str]]:
    """Open the store."""
    memory, model = _open(folder)

    def search(text: str, vector: Vector, count: int) -> list[str]:
        model.vectors = {text: vector, text.strip(): vector}
        found = memory.search(text, top_k=count, filters={"user_id": _USER})
        return [str(hit["metadata"]["passage"]) for hit in found["results"]]

    return search


def _open(folder: Path) -> tuple[Memory, Precomputed]:
    key = {"api_key": "none, since nothing is sent"}
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSIONS},
            },
            "llm": {"provider": "openai", "config": key},
            "embedder": {"provider": "openai", "config": key},
            "history_db_path": str(folder / "history.db"),
        }
    )
    model = memory.embedding_model = Precomputed()
    return memory, model
