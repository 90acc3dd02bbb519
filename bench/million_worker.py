"""One process that searches a million passages in one way, as `bench million` tells it to.

It says "ready" when it has searched for a few things. Then it answers "memory" by its share of
what is in memory, where a page that four processes map counts a quarter for each, and "measure" by
the processor times of its searches.
"""

from __future__ import annotations

import json
import re
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import vectors
from memwell.embed.testing import WordCounts
from memwell.memory import Memory
from memwell.store.contract.query import Filters, WordQuery
from memwell.store.sqlite.index import SqliteIndex

HOME, NOTES, QUERIES, QUESTIONS = "memory", "notes", "queries.npy", "questions.json"
MATRIX, VEC0, LANCE = "matrix.npy", "vec0.db", "lance"
"""The files in the folder of the benchmark."""
VECTORS, HYBRID, FILTERED, READ, FOUND = "vectors", "hybrid", "filtered", "read", "found"
"""The figures of an answer."""
_PATHS = "generated/000*"
"""A filter that 2,000 passages fit."""
_WARM = 5
_ROUNDS, _MOST_SECONDS = 5, 15.0
"""A slow way is not asked in every round."""
_K = 10

Search = Callable[[vectors.Matrix], list[int]]


class Given(WordCounts):
    """A provider that gives each question one of the vectors that are searched for."""

    def __init__(self, folder: Path) -> None:
        super().__init__("given", vectors.DIMENSIONS)
        self._rows = np.load(folder / QUERIES)

    def embed_query(self, text: str) -> vectors.Matrix:
        """Return the same vector for the same question."""
        row = zlib.crc32(text.encode()) % len(self._rows)
        vector: vectors.Matrix = self._rows[row : row + 1]
        return vector


def open_memory(folder: Path) -> Memory:
    """Open the memory in the folder of the benchmark; its notes are not compared with files."""
    return Memory(
        folder / HOME,
        workspace=folder / NOTES,
        embedders={"given": lambda: Given(folder)},
        settings={"sync.on_search": False},
    )


def main(way: str, folder: Path) -> None:
    """Search as the lines on standard input say."""
    queries = np.load(folder / QUERIES)
    memory = open_memory(folder) if way == "memwell" else None
    nearest = _ways(folder, memory)[way]()
    for query in queries[:_WARM]:
        nearest(query)
    questions = json.loads((folder / QUESTIONS).read_text(encoding="utf-8"))
    hybrid = [partial(memory.search, text, k=_K) for text in questions] if memory else []
    for ask in hybrid[:_WARM]:
        ask()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            print(_memory_share(), flush=True)
            continue
        answer: dict[str, Any] = {FOUND: [nearest(query) for query in queries]}
        answer[VECTORS] = _times([partial(nearest, query) for query in queries])
        if memory:
            filtered = _own(memory, WordQuery(filters=Filters(paths=(_PATHS,))))
            answer[FILTERED] = _times([partial(filtered, query) for query in queries])
            answer[HYBRID] = _times(hybrid)
            answer[READ] = min(_times([partial(_read, _segments(memory))]))
        print(json.dumps(answer), flush=True)


def _ways(folder: Path, memory: Memory | None) -> dict[str, Callable[[], Search]]:
    return {
        "memwell": lambda: _own(memory, WordQuery()),
        "numpy": lambda: vectors.search_numpy(np.load(folder / MATRIX, mmap_mode="r")),
        "vec0": lambda: vectors.search_vec0(vectors.open_vec0(folder / VEC0)),
        "lancedb": lambda: _lance(folder / LANCE),
    }


def _own(memory: Memory | None, asked: WordQuery) -> Search:
    assert memory is not None
    index = memory._index
    assert isinstance(index, SqliteIndex)
    with index.reading() as reader:
        space = reader.spaces.live()
    assert space is not None
    return vectors.search_index(index, space, asked)


def _lance(folder: Path) -> Search:
    import lancedb

    table = lancedb.connect(str(folder)).open_table("vectors")

    def search(query: vectors.Matrix) -> list[int]:
        found: list[int] = (
            table.search(query).select(["key", "_distance"]).limit(_K).to_arrow()["key"].to_pylist()
        )
        return found

    return search


def _segments(memory: Memory) -> list[Any]:
    """Return the files that a vector search scans, mapped as whole words."""
    index = memory._index
    assert isinstance(index, SqliteIndex)
    files = index.path.parent.glob("vectors-*.bin")
    return [np.memmap(file, mode="r")[: file.stat().st_size // 8 * 8].view("u8") for file in files]


def _read(files: list[Any]) -> None:
    """Read every byte, by the fastest operation of NumPy that looks at each."""
    for file in files:
        np.bitwise_or.reduce(file)


def _times(actions: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the processor time of each action, several times in turn."""
    taken: list[float] = []
    for _ in range(_ROUNDS):
        for action in actions if sum(taken) < _MOST_SECONDS else ():
            begun = time.process_time()
            action()
            taken.append(time.process_time() - begun)
    return taken


def _memory_share() -> float:
    """Return the share of this process in what is in memory (PSS), in megabytes."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    (found,) = re.findall(r"^Pss:\s*(\d+) kB", text, re.M)
    return int(found) * 1024 / 1e6


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
