"""How long it takes to index a workspace, against FTS5 alone with the same chunks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import fmean, median

import apsw

from bench import data
from bench.measure import seconds, temporary_home
from bench.results import Row, at_most
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.memory import Memory

_ROUNDS = 7
_BARE_PER_ROUND = 8
"""Bare runs to one of memwell, so that both take about as long and meet the same disturbances."""


def run() -> list[Row]:
    """Index k8s-en both ways, by turns."""
    root = data.workspace("k8s-en")
    texts = [part.text for _, note in data.notes(root, ChunkSettings()) for part in note.chunks]
    rounds = [_round(root, texts) for _ in range(_ROUNDS)]
    whole, bare = [pair[0] for pair in rounds], [pair[1] for pair in rounds]
    ratio = median(map(truediv, whole, bare))
    detail = {
        "chunks": len(texts),
        "memwell_s": whole,
        "bare_s": bare,
        "ratio_of_fastest": min(whole) / min(bare),
    }
    return [
        Row("indexing k8s-en, memwell / bare FTS5", ratio, "times", at_most(8), detail),
        Row("  memwell", median(whole), "s"),
        Row("  bare FTS5", median(bare), "s"),
        Row("  memwell, chunks a second", len(texts) / median(whole), "1/s"),
    ]


def _round(root: Path, texts: Sequence[str]) -> tuple[float, float]:
    """Return how long memwell takes, and how long bare FTS5 does on average, from nothing."""
    with temporary_home() as folder:
        whole = seconds(lambda: _index(root))
        files = [folder / f"bare-{number}.db" for number in range(_BARE_PER_ROUND)]
        return whole, fmean(seconds(partial(_insert, file, texts)) for file in files)


def _index(root: Path) -> None:
    with Memory() as memory:
        memory.index(root)


def _insert(file: Path, texts: Sequence[str]) -> None:
    connection = apsw.Connection(str(file))
    connection.pragma("journal_mode", "WAL")
    connection.pragma("synchronous", "NORMAL")
    connection.execute("CREATE VIRTUAL TABLE bare USING fts5(content, tokenize='porter unicode61')")
    with connection:
        connection.executemany("INSERT INTO bare (content) VALUES (?)", ((text,) for text in texts))
    connection.close()
