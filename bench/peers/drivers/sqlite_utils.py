"""sqlite-utils for the texts and their FTS5 table, sqlite-vec for the vectors.

Neither fuses the two searches. This does it with the usual reciprocal ranks, and joins the words of
a question by OR: with AND, hardly any question finds anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import sqlite_vec
from sqlite_utils import Database

from bench.peers.passages import DIMENSIONS, Passages, Vector

VECTORS = "bytes"
READS = ("chunks", "chunk_vectors")
_RRF = 60
_DEPTH = 100


def build(folder: Path, passages: Passages) -> None:
    """Write the texts, their index and the vectors."""
    folder.mkdir(parents=True, exist_ok=True)
    database = _open(folder)
    table = database["passages"]
    table.insert_all({"id": chunk.id, "text": chunk.text} for chunk in passages.chunks)
    table.enable_fts(["text"], tokenize="porter")
    column = f"vector float[{DIMENSIONS}] distance_metric=cosine"
    database.execute(f"CREATE VIRTUAL TABLE vectors USING vec0({column})")
    with database.conn:
        database.conn.executemany(
            "INSERT INTO vectors (rowid, vector) VALUES (?, ?)",
            enumerate(passages.chunk_vectors, 1),
        )
    database.close()


def connect(folder: Path, passages: Passages) -> Callable[[str, Vector, int], list[str]]:
    """Open the file."""
    database = _open(folder)

    def search(text: str, vector: Vector, count: int) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text))
        by_words = "SELECT rowid FROM passages_fts WHERE passages_fts MATCH ? ORDER BY rank LIMIT ?"
        by_vector = "SELECT rowid FROM vectors WHERE vector MATCH ? AND k = ? ORDER BY distance"
        scores: dict[int, float] = {}
        for statement, asked in ((by_words, words), (by_vector, vector)):
            for rank, (row,) in enumerate(database.execute(statement, [asked, _DEPTH]), 1):
                scores[row] = scores.get(row, 0) + 1 / (_RRF + rank)
        best = sorted(scores, key=lambda row: -scores[row])[:count]
        marks = ", ".join("?" * len(best))
        read = database.execute(
            f"SELECT rowid, id, text FROM passages WHERE rowid IN ({marks})", best
        )
        ids = {row: name for row, name, _ in read}
        return [str(ids[row]) for row in best]

    return search


def _open(folder: Path) -> Database:
    database = Database(folder / "passages.db")
    database.conn.enable_load_extension(True)
    sqlite_vec.load(database.conn)
    return database
