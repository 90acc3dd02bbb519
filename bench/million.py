"""A million passages: times, memory of four processes and disk, against other ways in one run.

The passages are generated, with vectors that lie as real ones do, and no model is run. memwell is
also asked by words and vectors together. Each way is searched by four processes at once: only the
first is measured, and the others show how much of their memory they share.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

from bench import corpus, search, vectors
from bench.data import MissingData
from bench.measure import seconds, temporary_home
from bench.million_worker import (
    FILTERED,
    FOUND,
    HOME,
    HYBRID,
    LANCE,
    MATRIX,
    NOTES,
    QUERIES,
    QUESTIONS,
    READ,
    VEC0,
    VECTORS,
    open_memory,
)
from bench.results import Row, at_least, at_most
from memwell.memory import Memory
from memwell.memory.embed_pending import random_cosines
from memwell.store.contract.values import FILLING, LIVE, Space
from memwell.store.sqlite.index import SqliteIndex

_COUNT = 1_000_000
_ADDED = 1_000
_WORKERS = 4
_BLOCK = 20_000
_SAMPLE = 2_000
_REPOSITORY = Path(__file__).resolve().parent.parent


def run() -> list[Row]:
    """Build the index and its rivals, and measure one after the other."""
    if not Path("/proc/self/smaps_rollup").exists():
        raise MissingData("memory that processes share is measured on Linux only")
    with temporary_home("given") as folder:
        return _run(folder)


def _run(folder: Path) -> list[Row]:
    rows, queries = vectors.make_vectors(_COUNT + _ADDED)
    rows, added = rows[:_COUNT], rows[_COUNT:].copy()
    np.save(folder / QUERIES, queries)
    (folder / QUESTIONS).write_text(json.dumps(search.questions()), encoding="utf-8")
    best = np.array([vectors.search_numpy(rows)(query) for query in queries])
    build = seconds(partial(_build, folder, rows))
    np.save(folder / MATRIX, rows)
    vectors.write_vec0(folder / VEC0, rows)
    ways = ["memwell", "numpy", "vec0"]
    if find_spec("lancedb"):
        _write_lance(folder / LANCE, rows)
        ways.append("lancedb")
    del rows
    found = {way: _measure(folder, way) for way in ways}
    result = [*_own_rows(found["memwell"]), Row("  built in", build, "s")]
    result += _append(folder, added)
    for way in ways:
        result += _rows(way, found[way], _disk(folder, way), best)
    return result


# -- building --------------------------------------------------------------------------------------


def _build(folder: Path, rows: vectors.Matrix) -> None:
    """Write the passages and their vectors, as indexing and embedding would."""
    (folder / NOTES).mkdir()
    with open_memory(folder) as memory:
        index, root = _index(memory), str(folder / NOTES)
        corpus.write_notes(index, root, corpus.generated(_COUNT))
        new = Space(0, "test given 384", "given", "given", vectors.DIMENSIONS, "{}", FILLING, "")
        with index.writing_spaces() as spaces:
            space = spaces.open(new)
        for start in range(0, _COUNT, _BLOCK):
            block = range(start + 1, start + _BLOCK + 1)
            index.put_vectors(space, [(key, rows[key - 1 : key]) for key in block])
        index.compact(space.fingerprint)
        with index.reading() as reader:
            mean, deviation = random_cosines(reader.vectors.sample(space, _SAMPLE))
        with index.writing_spaces() as spaces:
            spaces.mark_complete(space, mean, deviation)
            spaces.set_baseline(space, mean or 0.0, deviation or 1.0)


def _index(memory: Memory) -> SqliteIndex:
    assert isinstance(memory._index, SqliteIndex)
    return memory._index


def _write_lance(folder: Path, rows: vectors.Matrix) -> None:
    import lancedb
    import pyarrow as pa

    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), vectors.DIMENSIONS)
    table = pa.table({"key": np.arange(1, len(rows) + 1), "vector": lists})
    lancedb.connect(str(folder)).create_table("vectors", table)


def _append(folder: Path, added: vectors.Matrix) -> list[Row]:
    """Add passages, and see which files are written."""
    with open_memory(folder) as memory:
        index = _index(memory)
        with index.reading() as reader:
            space = reader.spaces.live()
        assert space is not None
        assert space.state == LIVE
        notes = ((f"added/{path}", note) for path, note in corpus.generated(_ADDED))
        corpus.write_notes(index, str(folder / NOTES), notes)
        block = range(_COUNT + 1, _COUNT + _ADDED + 1)
        rows = [(key, added[number : number + 1]) for number, key in enumerate(block)]

        def put() -> None:
            index.put_vectors(space, rows)
            index.compact(space.fingerprint)

        taken = seconds(put)
        with index.reading() as reader:
            now = reader.spaces.live()
        assert now is not None
        folder_of = index.path.parent
        new = [folder_of / name for name in now.segments if name not in space.segments]
        size = sum(file.stat().st_size for file in new)
    return [
        Row(f"vectors of {_ADDED:,} new passages: written to files", size / 1e6, "MB", at_most(2)),
        Row("  with their rows in the index", taken, "s"),
    ]


# -- measuring -------------------------------------------------------------------------------------


def _measure(folder: Path, way: str) -> dict[str, Any]:
    """Return what the first of four processes measured, and the memory of all."""
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(folder, way)) for _ in range(_WORKERS)]
        memory = sum(float(_ask(worker, "memory")) for worker in workers)
        found: dict[str, Any] = json.loads(_ask(workers[0], "measure"))
    return {**found, "memory": memory}


@contextmanager
def _worker(folder: Path, way: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that has searched once for everything, and end it."""
    command = [sys.executable, "-m", "bench.million_worker", way, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=_REPOSITORY, stdin=pipe, stdout=pipe, text=True) as worker:
        try:
            _expect(worker.stdout)
            yield worker
        finally:
            worker.kill()


def _ask(worker: subprocess.Popen[str], question: str) -> str:
    assert worker.stdin is not None
    print(question, file=worker.stdin, flush=True)
    return _expect(worker.stdout)


def _expect(answers: IO[str] | None) -> str:
    line = answers.readline() if answers else ""
    if not line:
        raise RuntimeError("a process of the benchmark ended early")
    return line


def _disk(folder: Path, way: str) -> float:
    """Return the bytes of disk of a passage."""
    place = folder / {"memwell": HOME, "numpy": MATRIX, "vec0": VEC0, "lancedb": LANCE}[way]
    files = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / _COUNT


# -- the figures -----------------------------------------------------------------------------------


def _own_rows(found: dict[str, Any]) -> list[Row]:
    own, read = _quantiles(found[VECTORS]), _quantiles([found[READ]])[0]
    hybrid, filtered = _quantiles(found[HYBRID]), _quantiles(found[FILTERED])
    return [
        Row("1,000,000 passages, hybrid search, p50", hybrid[0], "ms", at_most(100)),
        Row("  p99", hybrid[1], "ms"),
        Row("vector search / reading its file once", own[0] / read, "times", at_most(2)),
        Row("  reading the file once", read, "ms"),
        Row("  vector search with a filter on paths, p50", filtered[0], "ms"),
    ]


def _rows(way: str, found: dict[str, Any], disk: float, best: Any) -> list[Row]:
    middle, worst = _quantiles(found[VECTORS])
    same = [len({*mine} & {*exact}) for mine, exact in zip(found[FOUND], best, strict=True)]
    recall = float(np.mean(same)) / best.shape[1]
    what = "words, texts and vectors" if way == "memwell" else "vectors"
    target = at_least(0.99) if way == "memwell" else None
    return [
        Row(f"{way}: vector search, p50", middle, "ms"),
        Row("  p99", worst, "ms"),
        Row("  recall@10 against exact", recall, "", target),
        Row("  memory of four processes, what they share once", found["memory"], "MB"),
        Row(f"  disk of a passage ({what})", disk, "bytes"),
    ]


def _quantiles(taken: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile of processor times, in milliseconds."""
    middle, worst = np.quantile(1000 * np.array(taken), [0.5, 0.99])
    return float(middle), float(worst)
