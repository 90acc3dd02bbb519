"""txtai with its own hybrid search (Faiss and BM25) and the texts in its database."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["ALLOW_RESOLVE_TRANSFORM"] = "True"  # else txtai refuses to load `look_up` by its name
from txtai import Embeddings

from bench.peers.passages import Passages, Vector

VECTORS = "matrix"
READS = ("chunks", "chunk_vectors")
_vectors: dict[str, Any] = {}
"""The vectors of the texts that are indexed or asked next."""


def look_up(texts: Sequence[str]) -> Any:
    """Return the vectors of texts."""
    import numpy as np

    return np.array([_vectors[text] for text in texts])


def build(folder: Path, passages: Passages) -> None:
    """Index all passages and save the index."""
    texts = [chunk.text for chunk in passages.chunks]
    _vectors.update(zip(texts, passages.chunk_vectors, strict=True))
    place = f"{__name__}.{look_up.__name__}"
    embeddings = Embeddings(method="external", transform=place, hybrid=True, content=True)
    embeddings.index((chunk.id, chunk.text, None) for chunk in passages.chunks)
    embeddings.save(str(folder / "index"))


def connect(folder: Path, passages: Passages) -> Callable[[str, Vector, int], list[str]]:
    """Load the index."""
    embeddings = Embeddings()
    embeddings.load(str(folder / "index"))

    def search(text: str, vector: Vector, count: int) -> list[str]:
        _vectors[text] = vector
        return [str(hit["id"]) for hit in embeddings.search(text, count)]

    return search
