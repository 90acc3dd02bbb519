"""LanceDB with its full-text index; its hybrid search fuses by reciprocal ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lancedb
import pyarrow as pa

from bench.peers.passages import DIMENSIONS, Passages, Vector

VECTORS = "matrix"
READS = ("chunks", "chunk_vectors")


def build(folder: Path, passages: Passages) -> None:
    """Write one table and index its texts."""
    rows = pa.table(
        {
            "id": [chunk.id for chunk in passages.chunks],
            "text": [chunk.text for chunk in passages.chunks],
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(passages.chunk_vectors.ravel()), DIMENSIONS
            ),
        }
    )
    table = lancedb.connect(folder).create_table("passages", rows)
    table.create_fts_index("text")


def connect(folder: Path, passages: Passages) -> Callable[[str, Vector, int], list[str]]:
    """Open the table."""
    table = lancedb.connect(folder).open_table("passages")

    def search(text: str, vector: Vector, count: int) -> list[str]:
        asked = table.search(query_type="hybrid").vector(vector).text(text)
        return [str(row["id"]) for row in asked.limit(count).to_list()]

    return search
