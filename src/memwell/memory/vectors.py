"""The vectors of a memory: choosing a provider, filling its vector space, embedding queries.

The first provider of ``embedding.chain`` that works fills a vector space. Queries use that space as
soon as it is full. Until then, and whenever its provider fails, queries use another space whose
provider works. Keyword search does not depend on any of this.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.config.settings import Settings
from memwell.embed.base import Embedder
from memwell.embed.providers import Factory
from memwell.errors import (
    EmbeddingError,
    MemwellError,
    NotFoundError,
    ProviderFailing,
    ProviderUnavailable,
)
from memwell.memory.providers import ProviderChain, ProviderSpec, cooldown
from memwell.memory.scope import utc_now
from memwell.model import HYPOTHETICAL, Leg
from memwell.net.background import call_in_thread
from memwell.progress import Progress, no_progress
from memwell.reports import FillReport, ProviderStatus, SpaceStatus
from memwell.search.fuse import MEANING
from memwell.search.retrieve import EmbeddedQuery, QueryEmbedding, no_vectors
from memwell.store.contract.index import WAIT_MS, Index, Reader
from memwell.store.contract.values import FILLING, LIVE, RETIRED, Cooldown, Space

if TYPE_CHECKING:
    from concurrent.futures import Future

    from memwell.embed.base import Matrix
    from memwell.store.contract.vectors import Take, VectorCache

_SEARCH_WAIT_MS = 200
"""A search waits this long to record that a provider failed."""


class VectorIndex:
    """The vectors of one agent's memory."""

    def __init__(
        self,
        index: Index,
        home: Path,
        settings: Settings,
        embedders: Mapping[str, Factory] | None = None,
        cache: Path | None = None,
    ) -> None:
        self._index = index
        self._settings = settings
        self._cache_file = cache
        self.chain = ProviderChain(settings, home, embedders)
        self._loaded = set[str]()
        """The local models in memory: to embed a query takes them as long as to start a thread."""

    @cached_property
    def cache(self) -> VectorCache:
        """Vectors of texts that were embedded before."""
        most = int(self._settings.embedding.cache_mb * 1e6)
        if self._cache_file is None:
            return self._index.cache(most)
        from memwell.store.sqlite import cache

        return cache.SqliteVectorCache(self._cache_file, most)

    def for_index(self, index: Index) -> VectorIndex:
        """Return the same vectors, counted as the viewer of an index sees them."""
        other = copy(self)
        other._index = index
        return other

    def close(self) -> None:
        """Close the cache."""
        if "cache" in self.__dict__:
            self.cache.close()

    # -- embedding -----------------------------------------------------------------------------

    def fill(
        self,
        progress: Progress = no_progress,
        stop: threading.Event | None = None,
        *,
        again: bool = False,
    ) -> FillReport:
        """Embed the chunks without a vector, by the first provider that works.

        With `again` cooldowns end, so that every provider is tried.
        """
        started = time.perf_counter()
        if not self.chain:
            return FillReport()
        with self._index.leasing() as take:
            if take is None:
                return FillReport(notes=("Another process is embedding",))
            if again:
                self._clear_cooldowns()
            return self._fill(take, progress, stop or threading.Event(), started)

    def _fill(
        self, take: Take, progress: Progress, stop: threading.Event, started: float
    ) -> FillReport:
        from memwell.memory.embed_pending import embed_pending

        notes: list[str] = []
        while True:
            spec, embedder, problems = self._choose_provider()
            notes += [problem for problem in problems if problem not in notes]
            if spec is None or embedder is None:
                return FillReport(notes=tuple(notes), left=self._count_unembedded())
            space = self._open(spec, embedder)
            if pause := self._cooldown(embedder):
                notes.append(f"{spec.name} is in its cooldown: {pause.reason}")
                return FillReport(
                    spec.name, space.model, left=self._count_waiting(space), notes=tuple(notes)
                )
            done = embed_pending(self._index, take, embedder, space, self.cache, progress, stop)
            if done.stopped_by and not stop.is_set():
                self._record_failure(embedder, done.stopped_by, WAIT_MS)
                notes.append(f"{spec.name}: {done.stopped_by}")
                if isinstance(done.stopped_by, ProviderUnavailable):
                    continue
            elif not done.stopped_by:
                self._record_success(embedder)
            self._drop_old_spaces()
            return FillReport(
                spec.name,
                space.model,
                done.embedded,
                done.from_cache,
                done.refused,
                done.left,
                time.perf_counter() - started,
                tuple(notes),
            )

    @staticmethod
    def find_slow_space(reader: Reader) -> Space | None:
        """Return the live space if searches cannot use the file that they scan."""
        live = reader.spaces.live()
        return live if live and reader.vectors.has_unusable_copy(live) else None

    def catch_up(self, most: int) -> None:
        """Embed new chunks if they are few and the model runs on this machine.

        A search must not wait long for them. It waits for a new file to scan, once.
        """
        with self._index.reading() as reader:
            slow = self.find_slow_space(reader)
        if slow:
            with suppress(MemwellError):
                self._index.compact(slow.fingerprint)
        if 0 < self._count_unembedded() <= most:
            with suppress(MemwellError), self._index.leasing() as take:
                if take is not None:
                    self._catch_up(take)

    def _catch_up(self, take: Take) -> None:
        from memwell.memory.embed_pending import embed_pending

        with self._index.reading() as reader:
            live = reader.spaces.live()
        if live:
            space, embedder = live, self.chain.embedder_for(live)
        else:
            spec, first, _ = self._choose_provider()
            if spec is None or first is None:
                raise ProviderUnavailable("no provider of embedding.chain can be used")
            space, embedder = self._open(spec, first), first
        if embedder.remote or self._cooldown(embedder):
            return
        done = embed_pending(
            self._index,
            take,
            embedder,
            space,
            self.cache,
            no_progress,
            threading.Event(),
            quick=True,
        )
        if done.stopped_by:
            self._record_failure(embedder, done.stopped_by, _SEARCH_WAIT_MS)

    def _choose_provider(self) -> tuple[ProviderSpec | None, Embedder | None, list[str]]:
        """Return the provider to fill with: that of the space the user chose, else the chain's."""
        problems: list[str] = []
        with self._index.reading() as reader:
            chosen = [space for space in reader.spaces.all() if space.pinned == str(self.chain)]
            for space in chosen:
                with suppress(ProviderUnavailable):
                    return self.chain.spec_for(space), self.chain.embedder_for(space), []
            for usable in self.chain.states(reader.cooldowns):
                if usable.embedder:
                    return usable.spec, usable.embedder, problems
                problems.append(f"{usable.spec.name}: {usable.problem}")
        return None, None, problems

    def _open(self, member: ProviderSpec, embedder: Embedder) -> Space:
        """Return the space of a provider, created or reopened where needed.

        A half-filled space of another provider is retired.
        """
        fingerprint = embedder.fingerprint
        with self._index.reading() as reader:
            known = reader.spaces.find(fingerprint)
            others = [space for space in reader.spaces.all() if space.fingerprint != fingerprint]
        abandoned = [space for space in others if space.state not in (LIVE, RETIRED)]
        if known and known.state != RETIRED and not abandoned:
            return known
        with self._index.writing_spaces() as spaces:
            for space in abandoned:
                spaces.retire(space, utc_now())
            name, settings = member.name, json.dumps(member.settings)
            model, dimensions, at = embedder.model, embedder.dimensions, utc_now()
            return spaces.open(
                Space(0, fingerprint, name, model, dimensions, settings, FILLING, at)
            )

    def _cooldown(self, embedder: Embedder) -> Cooldown | None:
        with self._index.reading() as reader:
            return cooldown(embedder.fingerprint, reader.cooldowns)

    def _count_waiting(self, space: Space) -> int:
        with self._index.reading() as reader:
            return reader.spaces.count_waiting(space)

    def _count_unembedded(self) -> int:
        with self._index.reading() as reader:
            return self.count_unembedded(reader)

    @staticmethod
    def count_unembedded(reader: Reader) -> int:
        """Count the chunks that vector search cannot find yet."""
        live = reader.spaces.live()
        return reader.spaces.count_waiting(live) if live else reader.keywords.total

    def _drop_old_spaces(self) -> None:
        """Delete spaces that were retired more than ``embedding.keep_days`` ago."""
        days = self._settings.embedding.keep_days
        before = (dt.datetime.now(dt.UTC) - dt.timedelta(days=days)).isoformat(timespec="seconds")
        with self._index.reading() as reader:
            old = [s for s in reader.spaces.all() if s.retired_at and s.retired_at < before]
        for space in old:
            self._index.drop_space(space)

    # -- queries -------------------------------------------------------------------------------

    def embed_query(self, text: str, reader: Reader) -> Callable[[], QueryEmbedding]:
        """Begin to embed a query in the first space with vectors; the result waits for it."""
        if not self.chain:
            return no_vectors(text, reader)
        spaces = [space for space in reader.spaces.all() if reader.spaces.has_vectors(space)]
        begun = None
        waits = spaces and spaces[0].fingerprint not in self._loaded
        if waits and not cooldown(spaces[0].fingerprint, reader.cooldowns):
            begun = call_in_thread(lambda: self.chain.embedder_for(spaces[0]).embed_query(text))
        return lambda: self._first_answer(text, spaces, begun, reader)

    def embed_query_as(
        self, passage: str, text: str, reader: Reader
    ) -> Callable[[], QueryEmbedding]:
        """Embed a passage in place of the query; embed the query itself if that fails."""
        asked = self.embed_passage(passage, reader)
        if asked is None:
            return self.embed_query(text, reader)
        return lambda: (asked, Leg(MEANING, True, detail=HYPOTHETICAL))

    def embed_passage(self, text: str, reader: Reader) -> EmbeddedQuery | None:
        """Embed a text as a passage in the live space; None if that is not possible now."""
        space = reader.spaces.live()
        if space is None or cooldown(space.fingerprint, reader.cooldowns):
            return None
        with suppress(EmbeddingError):
            (rows,) = self.chain.embedder_for(space).embed_documents([text])
            return EmbeddedQuery(space, rows[0]) if len(rows) == 1 else None
        return None

    def _first_answer(
        self, text: str, spaces: Sequence[Space], begun: Future[Matrix] | None, reader: Reader
    ) -> QueryEmbedding:
        reasons: list[str] = []
        for number, space in enumerate(spaces):
            try:
                asked = self._embed_in(text, space, reader, begun if number == 0 else None)
            except EmbeddingError as error:
                reasons.append(f"{space.provider}: {error}")
                continue
            if asked is None:
                reasons.append(f"{space.model} does not know the language of the query")
                break
            return asked, Leg(MEANING, True, detail=f"{space.model} ({space.provider})")
        if not spaces:
            reasons = ["no passage has been embedded yet: run `memwell index`"]
        elif not {spec.name for spec in self.chain.specs} & {space.provider for space in spaces}:
            reasons.append(f"run `memwell index` to embed with {self.chain}")
        return None, Leg(MEANING, False, "; ".join(reasons))

    def _embed_in(
        self, text: str, space: Space, reader: Reader, begun: Future[Matrix] | None
    ) -> EmbeddedQuery | None:
        if pause := cooldown(space.fingerprint, reader.cooldowns):
            raise ProviderFailing(f"in its cooldown: {pause.reason}")
        embedder = self.chain.embedder_for(space)
        try:
            vector = begun.result() if begun else embedder.embed_query(text)
        except EmbeddingError as error:
            self._record_failure(embedder, error, _SEARCH_WAIT_MS)
            raise
        if reader.cooldowns.get(space.fingerprint):
            self._record_success(embedder)
        if not embedder.remote:
            self._loaded.add(space.fingerprint)
        return EmbeddedQuery(space, vector[0]) if len(vector) else None

    def _record_failure(self, embedder: Embedder, error: EmbeddingError, wait_ms: int) -> None:
        unavailable = isinstance(error, ProviderUnavailable)
        at_least = getattr(error, "retry_after", None) or 0.0
        with suppress(MemwellError), self._index.writing_cooldowns(wait_ms) as cooldowns:
            cooldowns.record_failure(
                embedder.fingerprint,
                str(error),
                time.time(),
                unavailable=unavailable,
                at_least=at_least,
            )

    def _record_success(self, embedder: Embedder) -> None:
        with suppress(MemwellError), self._index.writing_cooldowns(_SEARCH_WAIT_MS) as cooldowns:
            cooldowns.clear(embedder.fingerprint)

    def _clear_cooldowns(self) -> None:
        with suppress(MemwellError), self._index.writing_cooldowns() as cooldowns:
            cooldowns.clear_all()

    # -- for people ----------------------------------------------------------------------------

    def providers(self) -> tuple[ProviderStatus, ...]:
        """Return the providers of the chain, and whether each can be used."""
        found = []
        with self._index.reading() as reader:
            for usable in self.chain.states(reader.cooldowns):
                embedder, problem = usable.embedder, usable.problem
                pause = cooldown(embedder.fingerprint, reader.cooldowns) if embedder else None
                if pause:
                    end = dt.datetime.fromtimestamp(pause.until, dt.UTC).isoformat("T", "seconds")
                    problem = f"in its cooldown until {end}: {pause.reason}"
                detail = problem or (embedder.model if embedder else "")
                found.append(ProviderStatus(usable.spec.name, not problem, detail))
        return tuple(found)

    def spaces(self) -> tuple[SpaceStatus, ...]:
        """Return every space, the live one first."""
        with self._index.reading() as reader:
            return tuple(
                _status(space, *reader.spaces.coverage(space)) for space in reader.spaces.all()
            )

    def describe(self) -> str:
        """Return one line about the space that queries use."""
        if not self.chain:
            return "off (embedding.chain is empty)"
        live = next((space for space in self.spaces() if space.state == LIVE), None)
        if live is None:
            return "no passage has been embedded yet: run `memwell index`"
        share = live.embedded / live.chunks if live.chunks else 1.0
        return f"{live.model} ({live.provider}), {share:.0%} of {live.chunks} passages"

    def switch(self, number: int) -> SpaceStatus:
        """Use a space for queries from now on."""
        space = self._find_space(number)
        with self._index.writing_spaces() as spaces:
            spaces.go_live(space, utc_now())
            spaces.pin(space, str(self.chain))
        return next(status for status in self.spaces() if status.id == number)

    def drop(self, number: int) -> None:
        """Delete a space that queries do not use."""
        space = self._find_space(number)
        if space.state == LIVE:
            raise MemwellError(
                f"Space {number} is live", "Switch to another one first: `memwell spaces switch N`"
            )
        self._index.drop_space(space)

    def _find_space(self, number: int) -> Space:
        with self._index.reading() as reader:
            spaces = reader.spaces.all()
        found = next((space for space in spaces if space.id == number), None)
        if found is None:
            known = ", ".join(str(space.id) for space in spaces) or "none"
            raise NotFoundError(f"There is no space {number}", f"Known spaces: {known}")
        return found


def _status(space: Space, embedded: int, chunks: int) -> SpaceStatus:
    return SpaceStatus(
        space.id,
        space.provider,
        space.model,
        space.dimensions,
        space.state,
        embedded,
        chunks,
        space.opened_at,
        space.retired_at,
        space.random_mean,
        space.random_deviation,
        space.fingerprint,
    )
