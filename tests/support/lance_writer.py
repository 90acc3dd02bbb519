"""One of several processes that write vectors at once. Each writes notes and compacts once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memwell.model import Chunk, Note
from memwell.store.contract.values import SourceFile
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.vectors.backend import BackendSetting

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

ROUNDS, CHUNKS, DIMENSIONS = 8, 3, 70


def own_vector(chunk: int) -> Matrix:
    """The vector of a chunk, computed from its number."""
    row = np.random.default_rng(chunk).standard_normal((1, DIMENSIONS)).astype(np.float32)
    return np.asarray(row / np.linalg.norm(row))


def write(path: Path, address: str, me: int) -> None:
    index = SqliteIndex(path, BackendSetting("lancedb", address))
    with index.reading() as reader:
        (space,) = reader.spaces.all()
    index.move_vectors(space)
    chunks = tuple(Chunk(f"text {number}", number + 1, number + 1) for number in range(CHUNKS))
    for turn in range(ROUNDS):
        file = SourceFile(f"{me}-{turn}.md", 0, 0, 0, f"{me}-{turn}", "r")
        with index.writing() as notes:
            written, _ = notes.put(
                notes.workspace("w"), file, Note("title", None, (), (), (), {}, chunks)
            )
        with index.reading() as reader:
            ids = reader.notes.chunk_ids(written)
        index.put_vectors(space, [(chunk, own_vector(chunk)) for chunk in ids])
        if turn == 2 * me:
            index.compact(space.fingerprint, even_if_little_changed=True)
    index.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
