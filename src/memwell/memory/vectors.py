"""The meaning half of a memory: which provider, which space, filling it, asking it.

The first member of ``embedding.chain`` that can be used fills a space; that space answers as
soon as it is full. Until then, and whenever its provider fails, whatever other space can be asked
answers, and the words always do.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.config.load import Config
from memwell.embed.base import (
    Embedder,
    EmbeddingError,
    ProviderFailing,
    ProviderUnavailable,
)
from memwell.embed.providers import Factory
from memwell.errors import MemwellError, NotFoundError
from memwell.ingest.sync import Progress, unwatched
from memwell.memory.providers import Chain, Member, resting
from memwell.model import HYPOTHETICAL, Leg
from memwell.reports import FillReport, ProviderStatus, SpaceStatus
from memwell.search.fuse import MEANING
from memwell.search.retrieve import Answer, Asked, wordlessly
from memwell.store.contract.index import WAIT_MS, Index, Reader
from memwell.store.sqlite.cooldowns import Rest
from memwell.store.sqlite.spaces import LIVE, RETIRED, Space

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.vectors import Take, VectorCache

_IMPATIENT_MS = 200
"""How long a search waits to record that a provider failed."""


class Meaning:
    """The vectors of one agent's memory."""

    def __init__(
        self,
        index: Index,
        home: Path,
        settings: Config,
        embedders: Mapping[str, Factory] | None = None,
        cache: Path | None = None,
    ) -> None:
        self._index = index
        self._settings = settings
        self._cache_file = cache
        self.chain = Chain(settings, home, embedders)

    @cached_property
    def cache(self) -> VectorCache:
        """Vectors by text."""
        most = int(self._settings["embedding.cache_mb"] * 1e6)
        if self._cache_file is None:
            return self._index.cache(most)
        from memwell.store.sqlite import cache

        return cache.VectorCache(self._cache_file, most)

    def close(self) -> None:
        """Let go of the cache."""
        if "cache" in self.__dict__:
            self.cache.close()

    # -- filling -------------------------------------------------------------------------------

    def fill(
        self,
        progress: Progress = unwatched,
        stop: threading.Event | None = None,
        *,
        again: bool = False,
    ) -> FillReport:
        """Embed what waits, by the first provider that can be used.

        With `again` providers that were left alone for a while are tried all the same.
        """
        started = time.perf_counter()
        if not self.chain:
            return FillReport()
        with self._index.filling() as take:
            if take is None:
                return FillReport(notes=("Another process is embedding",))
            if again:
                self._forget_rests()
            return self._fill(take, progress, stop or threading.Event(), started)

    def _fill(
        self, take: Take, progress: Progress, stop: threading.Event, started: float
    ) -> FillReport:
        from memwell.memory.embed_pending import fill

        notes: list[str] = []
        while True:
            member, embedder, problems = self._first()
            notes += [problem for problem in problems if problem not in notes]
            if member is None or embedder is None:
                return FillReport(notes=tuple(notes), left=self._unembedded())
            space = self._open(member, embedder)
            if rest := self._resting(embedder):
                notes.append(f"{member.name} is left alone for now: {rest.reason}")
                return FillReport(
                    member.name, space.model, left=self._left(space), notes=tuple(notes)
                )
            done = fill(self._index, take, embedder, space, self.cache, progress, stop, _now)
            if done.stopped_by and not stop.is_set():
                self._rest(embedder, done.stopped_by, WAIT_MS)
                notes.append(f"{member.name}: {done.stopped_by}")
                if isinstance(done.stopped_by, ProviderUnavailable):
                    continue
            elif not done.stopped_by:
                self._answered(embedder)
            self._drop_old()
            return FillReport(
                member.name,
                space.model,
                done.embedded,
                done.from_cache,
                done.refused,
                done.left,
                time.perf_counter() - started,
                tuple(notes),
            )

    def catch_up(self, most: int) -> int:
        """Embed the few chunks that came since, if the model is on this machine.

        Returns how many still wait: a search must not be kept waiting for more than a moment.
        """
        waiting = self._unembedded()
        if 0 < waiting <= most:
            with suppress(MemwellError), self._index.filling() as take:
                if take is not None:
                    return self._catch_up(take)
        return waiting

    def _catch_up(self, take: Take) -> int:
        from memwell.memory.embed_pending import fill

        with self._index.reading() as reader:
            live = reader.spaces.live()
        if live:
            space, embedder = live, self.chain.embedder_of(live)
        else:
            member, first, _ = self._first()
            if member is None or first is None:
                raise ProviderUnavailable("no member of the chain can be used")
            space, embedder = self._open(member, first), first
        if embedder.remote or self._resting(embedder):
            return self._left(space)
        done = fill(
            self._index,
            take,
            embedder,
            space,
            self.cache,
            unwatched,
            threading.Event(),
            _now,
            in_passing=True,
        )
        if done.stopped_by:
            self._rest(embedder, done.stopped_by, _IMPATIENT_MS)
        return done.left

    def _first(self) -> tuple[Member | None, Embedder | None, list[str]]:
        """Return the provider to fill with: that of the space the user chose, else the chain's."""
        problems: list[str] = []
        with self._index.reading() as reader:
            chosen = [space for space in reader.spaces.all() if space.pinned == str(self.chain)]
            for space in chosen:
                with suppress(ProviderUnavailable):
                    return self.chain.maker(space), self.chain.embedder_of(space), []
            for usable in self.chain.usable(reader.rests):
                if usable.embedder:
                    return usable.member, usable.embedder, problems
                problems.append(f"{usable.member.name}: {usable.problem}")
        return None, None, problems

    def _open(self, member: Member, embedder: Embedder) -> Space:
        """Return the space of a provider, made or taken up again where needed.

        A space that another one was to replace, and now will not, is retired.
        """
        with self._index.reading() as reader:
            known = reader.spaces.named(embedder.fingerprint)
            others = [s for s in reader.spaces.all() if s.fingerprint != embedder.fingerprint]
        abandoned = [space for space in others if space.state not in (LIVE, RETIRED)]
        if known and known.state != RETIRED and not abandoned:
            return known
        with self._index.writing_spaces() as spaces:
            for space in abandoned:
                spaces.retire(space, _now())
            return spaces.open(
                embedder.fingerprint,
                member.name,
                embedder.model,
                embedder.dimensions,
                member.settings,
                _now(),
            )

    def _resting(self, embedder: Embedder) -> Rest | None:
        with self._index.reading() as reader:
            return resting(embedder.fingerprint, reader.rests)

    def _left(self, space: Space) -> int:
        with self._index.reading() as reader:
            return reader.spaces.count_waiting(space)

    def _unembedded(self) -> int:
        """Count the chunks that cannot be found by meaning as things are."""
        with self._index.reading() as reader:
            live = reader.spaces.live()
            return reader.spaces.count_waiting(live) if live else reader.total

    def _drop_old(self) -> None:
        """Delete spaces that were retired longer ago than they are to be kept."""
        days = self._settings["embedding.keep_days"]
        before = (dt.datetime.now(dt.UTC) - dt.timedelta(days=days)).isoformat(timespec="seconds")
        with self._index.reading() as reader:
            old = [s for s in reader.spaces.all() if s.retired_at and s.retired_at < before]
        for space in old:
            self._index.drop_space(space)

    # -- asking --------------------------------------------------------------------------------

    def ask(self, text: str, reader: Reader) -> Callable[[], Answer]:
        """Begin to embed a query in the first space that can be asked; what is returned waits."""
        if not self.chain:
            return wordlessly(text, reader)
        spaces = [space for space in reader.spaces.all() if reader.spaces.has_vectors(space)]
        begun = None
        if spaces and not resting(spaces[0].fingerprint, reader.rests):
            begun = _Begun(lambda: self.chain.embedder_of(spaces[0]).embed_query(text))
        return lambda: self._answer(text, spaces, begun, reader)

    def ask_by(self, passage: str, text: str, reader: Reader) -> Callable[[], Answer]:
        """Ask by the vector of a passage; by that of the text where it cannot be had."""
        asked = self.embedded(passage, reader)
        if asked is None:
            return self.ask(text, reader)
        return lambda: (asked, Leg(MEANING, True, detail=HYPOTHETICAL))

    def embedded(self, text: str, reader: Reader) -> Asked | None:
        """Embed a text as a passage in the space that answers; None if that cannot be had now."""
        space = reader.spaces.live()
        if space is None or resting(space.fingerprint, reader.rests):
            return None
        with suppress(EmbeddingError):
            (rows,) = self.chain.embedder_of(space).embed_documents([text])
            return Asked(space, rows[0]) if len(rows) == 1 else None
        return None

    def _answer(
        self, text: str, spaces: Sequence[Space], begun: _Begun | None, reader: Reader
    ) -> Answer:
        reasons: list[str] = []
        for number, space in enumerate(spaces):
            try:
                asked = self._ask(text, space, reader, begun if number == 0 else None)
            except EmbeddingError as error:
                reasons.append(f"{space.provider}: {error.what}")
                continue
            if asked is None:
                reasons.append(f"{space.model} does not know the language of the query")
                break
            return asked, Leg(MEANING, True, detail=f"{space.model} ({space.provider})")
        nothing = "no passage has been embedded yet: run `memwell index`"
        return None, Leg(MEANING, False, "; ".join(reasons) or nothing)

    def _ask(self, text: str, space: Space, reader: Reader, begun: _Begun | None) -> Asked | None:
        if rest := resting(space.fingerprint, reader.rests):
            raise ProviderFailing(f"left alone for now: {rest.reason}")
        try:
            vector = begun.result() if begun else self.chain.embedder_of(space).embed_query(text)
        except EmbeddingError as error:
            self._rest(self.chain.embedder_of(space), error, _IMPATIENT_MS)
            raise
        if reader.rests.of(space.fingerprint):
            self._answered(self.chain.embedder_of(space))
        return Asked(space, vector[0]) if len(vector) else None

    def _rest(self, embedder: Embedder, error: EmbeddingError, wait_ms: int) -> None:
        unavailable = isinstance(error, ProviderUnavailable)
        at_least = getattr(error, "retry_after", None) or 0.0
        with suppress(MemwellError), self._index.writing_rests(wait_ms) as rests:
            rests.failed(
                embedder.fingerprint,
                str(error),
                time.time(),
                unavailable=unavailable,
                at_least=at_least,
            )

    def _answered(self, embedder: Embedder) -> None:
        with suppress(MemwellError), self._index.writing_rests(_IMPATIENT_MS) as rests:
            rests.answered(embedder.fingerprint)

    def _forget_rests(self) -> None:
        with suppress(MemwellError), self._index.writing_rests() as rests:
            rests.all_over()

    # -- for people ----------------------------------------------------------------------------

    def providers(self) -> tuple[ProviderStatus, ...]:
        """Return the members of the chain, and whether each can be used."""
        found = []
        with self._index.reading() as reader:
            for usable in self.chain.usable(reader.rests):
                embedder, problem = usable.embedder, usable.problem
                rest = resting(embedder.fingerprint, reader.rests) if embedder else None
                if rest:
                    wait = dt.datetime.fromtimestamp(rest.until, dt.UTC).isoformat("T", "seconds")
                    problem = f"left alone until {wait}: {rest.reason}"
                detail = problem or (embedder.model if embedder else "")
                found.append(ProviderStatus(usable.member.name, not problem, detail))
        return tuple(found)

    def spaces(self) -> tuple[SpaceStatus, ...]:
        """Return every space, the live one first."""
        with self._index.reading() as reader:
            return tuple(
                _status(space, *reader.spaces.coverage(space)) for space in reader.spaces.all()
            )

    def state(self) -> str:
        """Say in a line what answers by meaning."""
        if not self.chain:
            return "off (embedding.chain is empty)"
        live = next((space for space in self.spaces() if space.state == LIVE), None)
        if live is None:
            return "no passage has been embedded yet: run `memwell index`"
        share = live.embedded / live.chunks if live.chunks else 1.0
        return f"{live.model} ({live.provider}), {share:.0%} of {live.chunks} passages"

    def switch(self, number: int) -> SpaceStatus:
        """Let a space answer from now on."""
        space = self._numbered(number)
        with self._index.writing_spaces() as spaces:
            spaces.go_live(space, _now())
            spaces.pin(space, str(self.chain))
        return next(status for status in self.spaces() if status.id == number)

    def drop(self, number: int) -> None:
        """Delete a space; not the one that answers."""
        space = self._numbered(number)
        if space.state == LIVE:
            raise MemwellError(
                f"Space {number} is live", "Switch to another one first: `memwell spaces switch N`"
            )
        self._index.drop_space(space)

    def _numbered(self, number: int) -> Space:
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


class _Begun:
    """Work that goes on in the background until its result is asked for."""

    def __init__(self, work: Callable[[], Matrix]) -> None:
        self._work = work
        self._found: Matrix | Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._work()
        except Exception as error:
            self._found = error

    def result(self) -> Matrix:
        """Wait for it, and return it or raise what it raised."""
        self._thread.join()
        if isinstance(self._found, Exception):
            raise self._found
        assert self._found is not None
        return self._found


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
