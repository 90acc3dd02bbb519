"""What ordering 200 candidates costs once the legs have found them: all that follows retrieval."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np

from bench import data
from bench.measure import seconds
from bench.results import Row, at_most
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.model import Hit
from memwell.search import dedupe as select
from memwell.search import pipeline
from memwell.search.decay import RELATIVE, Decay
from memwell.search.dedupe import MMR, Diversity
from memwell.search.diversify import mmr
from memwell.search.fuse import MEANING, WORDS, Evidence, fuse
from memwell.search.pipeline import Options, parse_query, rank, select_hits
from memwell.search.retrieve import EmbeddedQuery, Retrieval
from memwell.search.time_filter import TimedQuery
from memwell.store.contract.query import Place
from memwell.store.contract.values import FILLING, SourceFile, Space
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.sqlite.notes import SqliteChunks
from memwell.store.sqlite.reader import SqliteReader

_SEED = 4
_EACH = 100
"""Candidates that each leg brings; the legs have none in common."""
_ROUNDS = 400
_ALL = "ordering 200 candidates, without retrieval"
_READ = "the same, texts and dates from the file"
_DEFAULT = "the same, diversity off (the default)"
_QUERY = "how does a pod get its IP address when the cluster network is configured"
_FIRST_DAY = dt.date(2025, 1, 1)
_OPTIONS = Options(
    k=6,
    diversity=Diversity(MMR),
    multiplier=4,
    decay=Decay(RELATIVE, _FIRST_DAY + dt.timedelta(400)),
    explain=True,
)
"""All steps that there are, and no threshold: nothing is spared by dropping candidates."""
_NOT_DIVERSE = replace(_OPTIONS, diversity=Diversity())


class _FromMemory(SqliteReader):
    """A reader that has some chunks and their dates in memory, so that no file is read."""

    def __init__(self, reader: SqliteReader, chunk_ids: Sequence[int]) -> None:
        vars(self).update(vars(reader))
        self.in_memory = self.chunks = _ChunksInMemory(reader, chunk_ids)


class _ChunksInMemory(SqliteChunks):
    def __init__(self, reader: SqliteReader, chunk_ids: Sequence[int]) -> None:
        vars(self).update(vars(reader.chunks))
        self._places = reader.chunks.places(chunk_ids)
        hits = reader.chunks.hits([(chunk_id, 0.0) for chunk_id in chunk_ids])
        self.passages = dict(zip(chunk_ids, hits, strict=True))

    def places(self, chunk_ids: Sequence[int]) -> dict[int, Place]:
        """Return the path and the date of each chunk's note, and its number in the note."""
        return self._places

    def hits(self, matches: Sequence[tuple[int, float]]) -> Iterator[Hit]:
        """Turn chunk ids into hits."""
        return (self.passages[chunk] for chunk, _ in matches)


def run() -> list[Row]:
    """Order the same candidates again and again, as a whole and step by step, by turns."""
    with tempfile.TemporaryDirectory(prefix="memwell-ranking-") as folder:
        index = SqliteIndex(Path(folder) / "index.db")
        try:
            _fill(index)
            with index.reading() as reader:
                retrieval = _retrieval(reader)
                in_memory = _FromMemory(reader, [*retrieval.evidence[0].scores])
                lengths = [len(hit.text) for hit in in_memory.in_memory.passages.values()]
                with patch.object(pipeline, "_retrieve", lambda *_: retrieval):
                    times = _times(
                        {
                            _ALL: lambda: _ordered(retrieval, in_memory),
                            _READ: lambda: _ordered(retrieval, reader),
                            _DEFAULT: lambda: _ordered(retrieval, in_memory, _NOT_DIVERSE),
                            **_steps(retrieval, in_memory),
                        }
                    )
        finally:
            index.close()
    typical = {name: median(taken) for name, taken in times.items()}
    return [
        Row(_ALL, typical.pop(_ALL), "ms", at_most(3), times),
        Row("  the fastest", min(times[_ALL]), "ms"),
        *(Row(f"  {name}", taken, "ms") for name, taken in typical.items()),
        Row("  length of a candidate, median", median(lengths), "letters"),
    ]


def _times(ways: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the milliseconds that each way takes, each time."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            times[name].append(1000 * seconds(way))
    return times


# -- the candidates --------------------------------------------------------------------------------


def _fill(index: SqliteIndex) -> None:
    """Write real notes, each with a date: all of them age."""
    with index.writing() as tables:
        workspace = tables.workspace("k8s-en")
        for number, (path, note) in enumerate(
            data.notes(data.workspace("k8s-en"), ChunkSettings())
        ):
            date = str(_FIRST_DAY + dt.timedelta(number % 365))
            file = SourceFile(path, 0, 0, 0, "", str(ChunkSettings()))
            tables.put(workspace, file, replace(note, date=date))
    with index.writing_spaces() as spaces:
        spaces.open(Space(0, "made up", "test", "words", 1, "{}", FILLING, ""))


def _retrieval(reader: SqliteReader) -> Retrieval:
    """Return what retrieval leaves: the best 200 by words, half of them brought by each leg.

    As in a search, each leg has been asked about what the other brought. The cosines are made up.
    """
    parsed = parse_query(_QUERY)
    matches = reader.keywords.search(parsed.query, 2 * _EACH)
    words = {match.chunk_id: match.score for match in matches}
    chance = random.Random(_SEED)
    cosines = {chunk: chance.uniform(0.1, 0.6) for chunk in words}
    by_words, by_meaning = [*words][::2], [*words][1::2]
    by_meaning.sort(key=lambda chunk: -cosines[chunk])
    found = Retrieval(parsed, reader, _EACH)
    covered = {match.chunk_id: match.covered for match in matches}
    found.evidence = [
        Evidence(WORDS, words, by_words, covered=covered),
        Evidence(MEANING, cosines, by_meaning),
    ]
    (space,) = reader.spaces.all()
    found.embedded_query = EmbeddedQuery(space, np.zeros(1, dtype=np.float32))
    return found


# -- what is timed ---------------------------------------------------------------------------------


def _ordered(retrieval: Retrieval, reader: SqliteReader, options: Options = _OPTIONS) -> list[Hit]:
    """Run all of a search that comes after retrieval and before words are marked."""
    ranked = rank(retrieval.parsed, options, reader)
    chosen = select_hits(ranked, options, reader)
    return [one.to_hit(options.min_score, explain=True) for one in chosen]


def _steps(retrieval: Retrieval, reader: SqliteReader) -> dict[str, Callable[[], object]]:
    """Return the steps of it, each with what those before it have come to."""
    found = fuse(retrieval.evidence, _OPTIONS.fusion)
    candidates = retrieval.candidates(found)
    places = reader.chunks.places([candidate.chunk_id for candidate in candidates])
    ranked = rank(retrieval.parsed, _OPTIONS, reader)
    timed = TimedQuery(retrieval.parsed)
    choice = replace(_NOT_DIVERSE, k=_OPTIONS.k * _OPTIONS.multiplier)
    distinct = select_hits(ranked, choice, reader)
    scores = [one.candidate.score for one in distinct]
    alike = select._similarity(distinct, _OPTIONS.diversity, reader, None)
    chosen = select_hits(ranked, _OPTIONS, reader)
    return {
        "fusion": lambda: fuse(retrieval.evidence, _OPTIONS.fusion),
        "calibration": lambda: retrieval.candidates(found),
        "decay": lambda: pipeline._apply_decay(candidates, _OPTIONS.decay, timed, places),
        "sorting": lambda: sorted(ranked.candidates, key=attrgetter("order"), reverse=True),
        "near copies, until there are 24 others": lambda: select_hits(ranked, choice, reader),
        "diversity (mmr), 6 of 24": lambda: mmr(scores, alike, _OPTIONS.k),
        "explanation": lambda: [one.to_hit(_OPTIONS.min_score, explain=True) for one in chosen],
    }
