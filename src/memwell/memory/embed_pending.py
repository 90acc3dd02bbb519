"""Fill a vector space: embed the chunks without a vector, those of the newest notes first.

Several batches are embedded at a time, and each is written in its own transaction when it returns.
A process that is killed loses only unfinished batches; the next run continues from there. Where a
store leases chunks to several processes, each embeds its own and then waits for the others.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from memwell.embed.base import Embedder, split_batches
from memwell.embed.batch import RefusedText, embed_batch
from memwell.embed.list_items import list_items, without_items
from memwell.embed.unrelated_baseline import unrelated_cosines
from memwell.embed.windows import empty_rows
from memwell.errors import EmbeddingError
from memwell.memory.scope import utc_now
from memwell.progress import Progress
from memwell.store.contract.values import FILLING, Space, WaitingChunk

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.index import Index
    from memwell.store.contract.vectors import Take, VectorCache

    Batch = Sequence[WaitingChunk]
    Embedded = Sequence[Matrix | RefusedText]
    Work = Callable[[Batch], Embedded]

_POOL = 1_000
"""Chunks that are leased at a time."""
_COUNTED = 20
"""Leases after which the waiting chunks are counted again. That reads the ids of all chunks."""
_MUCH = 0.02
"""The mean cosine is measured again when a run has embedded this share of the chunks, or when their
number grew by it since it was measured."""
_SAMPLE = 2_000
"""Vectors that the mean cosine is measured on."""
_LAST_BATCH_SECONDS = 5.0
"""The most that a stopped run waits for a model on this machine; a batch takes about one second."""
_OTHERS_SECONDS = 0.5
"""A process that waits for others checks this often whether they are done."""


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """The result of one run."""

    embedded: int = 0
    from_cache: int = 0
    refused: tuple[str, ...] = ()
    """Why texts have no vector: the provider refused them."""
    left: int = 0
    """Chunks that still have no vector."""
    stopped_by: EmbeddingError | None = None


def embed_pending(
    index: Index,
    take: Take,
    embedder: Embedder,
    space: Space,
    cache: VectorCache,
    progress: Progress,
    stop: threading.Event,
    *,
    quick: bool = False,
) -> EmbedResult:
    """Embed until no chunk is left, the provider fails or `stop` is set; a full space goes live.

    With `quick`, a person waits for something else: the run does not wait for other processes.
    """
    index.move_vectors(space)
    with index.reading() as reader:
        space = reader.spaces.find(space.fingerprint) or space
    work = EmbedRun(index, embedder, space, cache, progress, stop)
    work.run(take, alone=quick)
    if work.total and not work.done.stopped_by and not stop.is_set():
        work.ensure_baseline()  # of a space that was filled before there were baselines
    cache.trim()
    with index.reading() as reader:
        left = reader.spaces.count_waiting(space)
    if not left:
        new = work.done.embedded + work.done.from_cache
        grew = _growth_step(work.total - new) != _growth_step(work.total)
        _finish_space(index, space, measure=grew or new > _MUCH * work.total)
    index.compact(space.fingerprint)
    return replace(work.done, left=left)


@dataclass(slots=True)
class EmbedRun:
    """One run of embedding, and its counts."""

    index: Index
    embedder: Embedder
    space: Space
    cache: VectorCache
    progress: Progress
    stop: threading.Event
    done: EmbedResult = field(default_factory=EmbedResult)
    total: int = 0
    """All chunks, embedded or not."""
    goal: int = 0
    """Chunks that this run may embed: other processes embed the rest."""
    has_baseline: bool = field(init=False)

    def __post_init__(self) -> None:
        self.has_baseline = self.space.unrelated_mean is not None

    def ensure_baseline(self) -> None:
        """Measure the cosines of unrelated texts; if the provider fails, the next run does it."""
        if self.has_baseline:
            return
        with suppress(EmbeddingError):
            if cosines := unrelated_cosines(self.embedder):
                with self.index.writing_spaces() as spaces:
                    spaces.set_baseline(self.space, *cosines)
            self.has_baseline = True

    def run(self, take: Take, *, alone: bool) -> None:
        """Embed what can be leased; unless `alone`, wait until other processes are done, too."""
        pools = 0
        while not self.stop.is_set() and self.done.stopped_by is None:
            pool = take(self.space, _POOL)
            if not pool or pools % _COUNTED == 0:
                waiting = self._count_waiting()
            pools += 1
            if pool:
                # Before the first vector: a run that is stopped after it would leave scores of
                # another scale until the next run.
                self.ensure_baseline()
                self._embed_all(pool)
                self.index.compact(self.space.fingerprint)
            elif alone or not waiting:
                return
            else:
                self.stop.wait(_OTHERS_SECONDS)

    def _count_waiting(self) -> int:
        """Return how many chunks wait for a vector; set the total and the goal of the run."""
        with self.index.reading() as reader:
            is_there = reader.spaces.find(self.space.fingerprint) is not None
            waiting = reader.spaces.count_waiting(self.space) if is_there else 0
            self.total = reader.keywords.total
        self.goal = self.count + waiting
        return waiting

    def _embed_all(self, pool: Sequence[WaitingChunk]) -> None:
        known = self._get_cached([item.text for item in pool])
        cached = [(item, known[item.text]) for item in pool if item.text in known]
        if cached:
            self._write(cached)
            self.done = replace(self.done, from_cache=self.done.from_cache + len(cached))
        rest = [item for item in pool if item.text not in known]
        self._report()
        batches = [*split_batches(rest, self.embedder.limits, lambda item: item.text)]
        most, may_hang = self.embedder.limits.parallel, self.embedder.remote
        for batch, answer in run_batches(self._embed, batches, most, may_hang=may_hang):
            if isinstance(answer, EmbeddingError):
                self.done = replace(self.done, stopped_by=answer)
                return
            self._store_batch(batch, answer)
            self._report()
            if self.stop.is_set():
                return

    def _get_cached(self, texts: Sequence[str]) -> dict[str, Matrix]:
        """Return the vectors that the cache has, also those from before lists had more of them."""
        fingerprint, dimensions = self.space.fingerprint, self.space.dimensions
        known = self.cache.get(fingerprint, dimensions, texts)
        plain = [text for text in texts if text not in known and not list_items(text)]
        return known | self.cache.get(without_items(fingerprint), dimensions, plain)

    def _embed(self, batch: Batch) -> Embedded:
        """Embed a batch; its retries end when the run is stopped."""
        return embed_batch(self.embedder, [item.text for item in batch], sleep=self.stop.wait)

    def _store_batch(self, batch: Batch, answer: Embedded) -> None:
        embedded, refused = [], []
        for item, part in zip(batch, answer, strict=True):
            if isinstance(part, RefusedText):
                refused.append((item, part.reason))
            else:
                embedded.append((item, part))
        self._write(embedded, [item for item, _ in refused])
        self.done = replace(
            self.done,
            embedded=self.done.embedded + len(embedded),
            refused=(*self.done.refused, *(reason for _, reason in refused)),
        )

    def _write(
        self, vectors: Sequence[tuple[WaitingChunk, Matrix]], without: Sequence[WaitingChunk] = ()
    ) -> None:
        """Write a batch in one transaction; `without` are chunks that get no vector."""
        nothing = empty_rows(self.space.dimensions)
        rows = [(item.chunk_id, matrix) for item, matrix in vectors]
        rows += [(item.chunk_id, nothing) for item in without]
        self.index.retrying(lambda: self.index.put_vectors(self.space, rows))
        self.cache.put(self.space.fingerprint, ((item.text, matrix) for item, matrix in vectors))

    @property
    def count(self) -> int:
        """Chunks that this run has finished."""
        return self.done.embedded + self.done.from_cache + len(self.done.refused)

    def _report(self) -> None:
        self.progress(self.count, max(self.goal, self.count))


def run_batches(
    work: Work, batches: Sequence[Batch], most: int, *, may_hang: bool = False
) -> Iterator[tuple[Batch, Embedded | EmbeddingError]]:
    """Yield each batch with its result; a single one that cannot hang needs no thread."""
    if may_hang or len(batches) != 1:
        yield from run_parallel(work, batches, most, may_hang=may_hang)
        return
    answer: Embedded | EmbeddingError
    try:
        answer = work(batches[0])
    except EmbeddingError as error:
        answer = error
    yield batches[0], answer


def run_parallel(
    work: Work, batches: Sequence[Batch], most: int, *, may_hang: bool = False
) -> Iterator[tuple[Batch, Embedded | EmbeddingError]]:
    """Yield each batch with its result as it finishes; leaving early drops the others.

    The threads are daemons: a request may hang for a minute, and the process must be able to end.
    A model on this machine may finish its batch: one that embeds aborts an interpreter that ends.
    """
    todo: SimpleQueue[Batch | None] = SimpleQueue()
    done: SimpleQueue[tuple[Batch, Embedded | Exception]] = SimpleQueue()
    over = threading.Event()

    def run() -> None:
        while (batch := todo.get()) is not None and not over.is_set():
            try:
                done.put((batch, work(batch)))
            except Exception as error:
                done.put((batch, error))

    remaining = iter(batches)
    threads = [threading.Thread(target=run, daemon=True) for _ in batches[:most]]
    for thread in threads:
        todo.put(next(remaining))
        thread.start()
    try:
        for _ in batches:
            batch, answer = done.get()
            todo.put(next(remaining, None))
            if isinstance(answer, Exception) and not isinstance(answer, EmbeddingError):
                raise answer
            yield batch, answer
    finally:
        over.set()
        for _ in threads:
            todo.put(None)
        until = time.monotonic() + (0 if may_hang else _LAST_BATCH_SECONDS)
        for thread in threads:
            thread.join(max(0, until - time.monotonic()))


def _finish_space(index: Index, space: Space, *, measure: bool) -> None:
    """Record that a space is full and let it answer, in one transaction."""
    mean, deviation = space.random_mean, space.random_deviation
    if mean is None or measure:
        with index.reading() as reader:
            mean, deviation = random_cosines(reader.vectors.sample(space, _SAMPLE))
    with index.writing_spaces() as spaces:
        if spaces.count_waiting(space) == 0:  # else notes came meanwhile: the next run embeds them
            spaces.mark_complete(space, mean, deviation)
            now = spaces.find(space.fingerprint)
            if now and now.state == FILLING:  # another process may have made it live or retired it
                spaces.go_live(space, utc_now())


def _growth_step(count: int) -> int:
    """Return a number that grows by one each time `count` has grown by the share `_MUCH`."""
    return int(math.log(max(count, 1), 1 + _MUCH))


def random_cosines(vectors: Sequence[tuple[int, bytes]]) -> tuple[float | None, float | None]:
    """Return mean and deviation of the cosine of two vectors of different notes.

    Every such pair counts, so that the order of the vectors does not matter. The sums over all
    pairs follow from the sum of the vectors and of their squares, less the pairs within a note.
    """
    import numpy as np

    by_note: dict[int, list[bytes]] = {}
    for note, vector in vectors:
        by_note.setdefault(note, []).append(vector)
    if len(by_note) < 2:
        return None, None
    groups = [
        np.frombuffer(b"".join(rows), dtype="<f4").reshape(len(rows), -1).astype(float)
        for rows in by_note.values()
    ]
    every = np.concatenate(groups)
    within = [group @ group.T for group in groups]
    pairs = len(every) ** 2 - sum(part.size for part in within)
    total = np.square(every.sum(axis=0)).sum() - sum(part.sum() for part in within)
    squares = np.square(every.T @ every).sum() - sum(np.square(part).sum() for part in within)
    mean = total / pairs
    return float(mean), math.sqrt(max(squares / pairs - mean**2, 0.0))
