"""The meaning leg against sqlite-vec's vec0 and a plain numpy scan, in one run.

With LanceDB installed also by that backend, of the same vectors.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt
import sqlite_vec

from bench import data
from bench.measure import seconds
from bench.results import Row, at_least, at_most
from memwell.store.contract.query import WordQuery
from memwell.store.contract.values import FILLING, Space
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.vectors.backend import LANCEDB, BackendSetting

Matrix = npt.NDArray[np.float32]
DIMENSIONS = 384
_K = 10
_QUERIES = 40
_ROUNDS = 5
_BLOCK = 20_000
_PER_NOTE = 20
_REPOSITORY = Path(__file__).resolve().parent.parent


def run() -> list[Row]:
    """Ten thousand and a hundred thousand vectors, and the first query of a new process."""
    return [*_measured(10_000), *_measured(100_000)]


def _measured(count: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="memwell-vectors-") as folder:
        rows, queries = make_vectors(count)
        index, space = _index(Path(folder), rows)
        others = (
            [_index(Path(folder), rows, BackendSetting(LANCEDB))] if _has_lancedb(count) else []
        )
        vec0 = write_vec0(Path(folder) / "vec0.db", rows)
        plain = search_numpy(rows)
        ours = search_index(index, space)
        ways = {"memwell": ours, "numpy": plain, "vec0": vec0}
        for other in others:
            ways["lancedb"] = search_index(*other)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(_ROUNDS):
            for name, way in ways.items():
                few = queries[: _QUERIES // 4] if way is vec0 else queries
                times[name] += [seconds(partial(way, query)) for query in few]
        recall = {
            name: float(np.mean([len({*way(q)} & {*plain(q)}) / _K for q in queries]))
            for name, way in ways.items()
            if name in ("memwell", "lancedb")
        }
        first = _first_query(index, queries[0]) if count == 100_000 else None
        for opened, _ in ((index, space), *others):
            opened.close()
    typical = {name: median(taken) for name, taken in times.items()}
    detail = {name: [1000 * second for second in taken] for name, taken in times.items()}
    faster = at_least(5) if count >= 100_000 else None
    result = [
        Row(
            f"vec0 / memwell, {count:,} vectors",
            typical["vec0"] / typical["memwell"],
            "times",
            faster,
            detail,
        ),
        Row(
            f"memwell / numpy, {count:,} vectors",
            typical["memwell"] / typical["numpy"],
            "times",
            at_most(1),
        ),
        Row("  memwell", 1000 * typical["memwell"], "ms"),
        Row("  numpy", 1000 * typical["numpy"], "ms"),
        Row("  vec0", 1000 * typical["vec0"], "ms"),
        Row("  recall@10 against exact", recall["memwell"], "", at_least(0.99)),
    ]
    if "lancedb" in typical:
        result += [
            Row(
                f"lancedb / memwell, {count:,} vectors",
                typical["lancedb"] / typical["memwell"],
                "times",
            ),
            Row("  lancedb", 1000 * typical["lancedb"], "ms"),
            Row("  recall@10 of lancedb against exact", recall["lancedb"], ""),
        ]
    if first is not None:
        result.append(
            Row("first query of a new process, 100,000 vectors", first, "s", at_most(0.3))
        )
    return result


# -- the vectors -----------------------------------------------------------------------------------


def make_vectors(count: int) -> tuple[Matrix, Matrix]:
    """Make vectors that lie as real ones do: near real ones, or near centres where there are none.

    The queries are further vectors of the same kind.
    """
    chance = np.random.default_rng(1)
    centres = _centres(chance)
    total = count + _QUERIES
    rows = np.empty((total, DIMENSIONS), dtype=np.float32)
    for start in range(0, total, _BLOCK):
        size = min(_BLOCK, total - start)
        first, second = chance.integers(0, len(centres), (2, size))
        noise = 0.02 * chance.standard_normal((size, DIMENSIONS), dtype=np.float32)
        block = centres[first] + 0.5 * centres[second] + noise
        rows[start : start + size] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return rows[:count], rows[count:]


def _centres(chance: np.random.Generator) -> Matrix:
    try:
        sets = [data.find(name) for name in ("scifact", "cosqa-code", "cranfield", "locomo-turn-a")]
        found = [np.load(folder / "vectors-minilm.npz")["documents"] for folder in sets]
        return np.concatenate(found).astype(np.float32)
    except data.MissingData:
        lengths = np.arange(1, DIMENSIONS + 1, dtype=np.float32) ** -0.55  # about as real ones
        centres = lengths * chance.standard_normal((15_000, DIMENSIONS), dtype=np.float32)
        return np.asarray(centres / np.linalg.norm(centres, axis=1, keepdims=True))


# -- the three -------------------------------------------------------------------------------------


def _has_lancedb(count: int) -> bool:
    return count <= 100_000 and find_spec("lancedb") is not None


def _index(
    folder: Path, rows: Matrix, backend: BackendSetting | None = None
) -> tuple[SqliteIndex, Space]:
    """Put the vectors into an index, as chunks of twenty to a note, without their words."""
    index = SqliteIndex(folder / (backend or BackendSetting()).name / "index.db", backend)
    with index.writing_spaces() as spaces:
        new = Space(0, "bench", "test", "bench", DIMENSIONS, "{}", FILLING, "2026-01-01")
        space = spaces.open(new)
    index.move_vectors(space)
    for start in range(0, len(rows), _BLOCK):
        block = range(start + 1, min(start + _BLOCK, len(rows)) + 1)
        with index.database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO workspaces (id, root) VALUES (1, 'bench')")
            connection.executemany(_NOTE, ((key,) for key in block if key % _PER_NOTE == 1))
            connection.executemany(_CHUNK, ((key, _note_of(key), key) for key in block))
        index.put_vectors(space, ((key, rows[key - 1 : key]) for key in block))
    index.compact("bench", even_if_little_changed=True)
    with index.reading() as reader:
        filled = reader.spaces.live()
    assert filled is not None
    return index, filled


_NOTE = """
    INSERT INTO notes (id, workspace_id, path, size, mtime_ns, read_ns, hash, recipe, title, names,
                       meta)
    VALUES (?1, 1, ?1 || '.md', 0, 0, 0, '', '', '', '', '{}')
"""
_CHUNK = """
    INSERT INTO chunks (id, note_id, seq, start_line, end_line, heading, overlap, text)
    VALUES (?, ?, ?, 1, 1, '', 0, '')
"""


def _note_of(chunk: int) -> int:
    return chunk - (chunk - 1) % _PER_NOTE


def search_index(
    index: SqliteIndex, space: Space, asked: WordQuery | None = None
) -> Callable[[Matrix], list[int]]:
    """Return a search of the ten nearest chunks of an index."""

    def search(query: Matrix) -> list[int]:
        with index.reading() as reader:
            found = reader.vectors.nearest(space, query, asked or WordQuery(), _K)
            return [match.chunk_id for match in found]

    return search


def search_numpy(rows: Matrix) -> Callable[[Matrix], list[int]]:
    """Return a search of the ten nearest rows of a matrix."""

    def search(query: Matrix) -> list[int]:
        scores = rows @ query
        best = np.argpartition(-scores, _K)[:_K]
        return [int(row) + 1 for row in best[np.argsort(-scores[best])]]

    return search


def write_vec0(file: Path, rows: Matrix) -> Callable[[Matrix], list[int]]:
    """Write a vec0 table, and return its search."""
    connection = open_vec0(file)
    connection.execute(
        f"CREATE VIRTUAL TABLE v USING vec0(e float[{DIMENSIONS}] distance_metric=cosine)"
    )
    with connection:
        connection.executemany("INSERT INTO v (rowid, e) VALUES (?, ?)", _blobs(rows))

    return search_vec0(connection)


def open_vec0(file: Path) -> apsw.Connection:
    """Open a database with sqlite-vec."""
    connection = apsw.Connection(str(file))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    return connection


def search_vec0(connection: apsw.Connection) -> Callable[[Matrix], list[int]]:
    """Return a search of the ten nearest rows of a vec0 table."""

    def search(query: Matrix) -> list[int]:
        found: Any = connection.execute(
            "SELECT rowid FROM v WHERE e MATCH ? AND k = ?", (query.tobytes(), _K)
        )
        return [key for (key,) in found]

    return search


def _blobs(rows: Matrix) -> Iterator[tuple[int, bytes]]:
    return ((number, row.tobytes()) for number, row in enumerate(rows, 1))


def _first_query(index: SqliteIndex, query: Matrix) -> float:
    """Return how long a new process takes to open the index and answer, imports included."""
    code = _FIRST.format(path=str(index.path), query=json.dumps(query.tolist()))
    taken = []
    for _ in range(5):
        child = subprocess.run(
            [sys.executable, "-c", code],
            cwd=_REPOSITORY,
            check=True,
            capture_output=True,
            text=True,
        )
        taken.append(float(child.stdout))
    return median(taken)


_FIRST = """
import time
started = time.perf_counter()
from pathlib import Path
import numpy as np
from memwell.store.contract.query import WordQuery
from memwell.store.sqlite.index import SqliteIndex
index = SqliteIndex(Path({path!r}))
with index.reading() as reader:
    space = reader.spaces.live()
    found = reader.vectors.nearest(space, np.array({query}, dtype=np.float32), WordQuery(), 10)
assert len(found) == 10
print(time.perf_counter() - started)
"""
