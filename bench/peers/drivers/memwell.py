"""memwell through its public interface; the provider looks the vectors up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.passages import DIMENSIONS, Passages, Vector
from memwell import Memory
from memwell.embed.base import Limits

VECTORS = "matrix"
READS = ("all_vectors",)


class Precomputed:
    """A provider that knows the vectors of all texts."""

    name = "precomputed"
    model = "precomputed"
    fingerprint = "precomputed"
    remote = False
    dimensions = DIMENSIONS
    window = 1_000_000
    limits = Limits(parallel=1)

    def __init__(self, vectors: Mapping[str, Any]) -> None:
        self._vectors = vectors
        self.question: Any = None
        """The vector of the question that is asked; memwell embeds its words without operators."""

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        """Return one vector for each text."""
        return [self._vectors[text].reshape(1, -1) for text in texts]

    def embed_query(self, text: str) -> Any:
        """Return the vector of the question."""
        vector = self._vectors[text] if self.question is None else self.question
        return vector.reshape(1, -1)


def build(folder: Path, passages: Passages) -> None:
    """Read the notes, cut them into passages and index those."""
    with _open(folder, passages, Precomputed(passages.all_vectors)) as memory:
        memory.index(passages.notes, embed=False)
        report = memory.fill()
        assert not report.left, report.notes


def connect(folder: Path, passages: Passages) -> Callable[[str, Vector, int], list[str]]:
    """Open a memory."""
    provider = Precomputed({})
    memory = _open(folder, passages, provider)

    def search(text: str, vector: Vector, count: int) -> list[str]:
        provider.question = vector
        result = memory.search(text, k=count)
        assert all(leg.answered for leg in result.legs), result.legs
        return [hit.path for hit in result.hits]

    return search


def _open(folder: Path, passages: Passages, provider: Precomputed) -> Memory:
    return Memory(
        folder,
        workspace=passages.notes,
        embedders={"precomputed": lambda: provider},
        settings={"embedding.chain": ("precomputed",)},
    )
