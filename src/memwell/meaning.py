"""The meaning half of a memory: which provider, which space, filling it, asking it.

The first member of ``embedding.chain`` that can be used fills a space; that space answers as
soon as it is full. Until then, and whenever its provider fails, whatever other space can be asked
answers, and the words always do.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.config import Config
from memwell.embed.base import (
    Embedder,
    EmbeddingError,
    ProviderFailing,
    ProviderUnavailable,
)
from memwell.embed.providers import Factory, make
from memwell.errors import MemwellError, NotFoundError
from memwell.ingest.sync import Progress, unwatched
from memwell.model import FillReport, Leg, ProviderStatus, SpaceStatus
from memwell.search.pipeline import MEANING, Asked
from memwell.store.index import Index, Reader
from memwell.store.rests import Rest
from memwell.store.spaces import LIVE, RETIRED, Space
from memwell.store.sqlite import BUSY_TIMEOUT_MS

if TYPE_CHECKING:
    from memwell.store.cache import VectorCache

_KEEPS_FILES = ("minilm", "gguf")
_IMPATIENT_MS = 200
"""How long a search waits to record that a provider failed."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the chain: a provider and what it is made from."""

    name: str
    settings: dict[str, Any]
    """Everything that decides its vectors; kept with the space."""
    private: dict[str, Any]
    """What else it needs: a key, a folder. Kept nowhere."""


class Meaning:
    """The vectors of one agent's memory."""

    def __init__(
        self, index: Index, home: Path, settings: Config,
        embedders: Mapping[str, Factory] | None = None, cache: Path | None = None,
    ) -> None:  # fmt: skip
        self._index = index
        self._home = home
        self._settings = settings
        self._factories = embedders
        self._cache_file = cache or index.path.with_name("embeddings.db")
        self._made: dict[str, Embedder] = {}
        self._making = threading.Lock()

    @cached_property
    def chain(self) -> tuple[Member, ...]:
        """The providers to try, in order."""
        return tuple(self._member(*_named(text)) for text in self._settings["embedding.chain"])

    @property
    def _chain_as_text(self) -> str:
        return " ".join(self._settings["embedding.chain"])

    @cached_property
    def cache(self) -> VectorCache:
        """Vectors by text."""
        from memwell.store.cache import VectorCache

        most = int(self._settings["embedding.cache_mb"] * 1e6)
        return VectorCache(self._cache_file, most)

    def close(self) -> None:
        """Let go of the cache."""
        if "cache" in self.__dict__:
            self.cache.close()

    # -- which provider ------------------------------------------------------------------------

    def _member(self, name: str, model: str | None) -> Member:
        prefix = f"embedding.{name}."
        settings: dict[str, Any] = {
            key.removeprefix(prefix): value
            for key, value in self._settings.values.items()
            if key.startswith(prefix)
        }
        settings |= {"model": model} if model else {}
        private: dict[str, Any] = {
            key: settings.pop(key) for key in ("key", "folder") if key in settings
        }
        if name in _KEEPS_FILES:
            private["folder"] = Path(private.get("folder") or self._home / "models").expanduser()
        return Member(name, settings, private)

    def _embedder(self, member: Member) -> Embedder:
        """Make a provider once; `ProviderUnavailable` if it cannot be used."""
        identity = f"{member.name} {sorted(member.settings.items())}"
        with self._making:
            if identity not in self._made:
                self._made[identity] = make(
                    member.name, {**member.settings, **member.private}, self._factories
                )
            return self._made[identity]

    def _usable(self, reader: Reader) -> Iterator[tuple[Member, Embedder | None, str]]:
        """Yield each member of the chain with its provider, or with why it cannot be used."""
        for member in self.chain:
            try:
                embedder = self._embedder(member)
            except ProviderUnavailable as error:
                yield member, None, str(error)
                continue
            rest = reader.rests.of(embedder.fingerprint, time.time())
            if rest and rest.unavailable:
                yield member, None, rest.reason
            else:
                yield member, embedder, ""

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
        with self._alone() as alone:
            if not alone:
                return FillReport(notes=("Another process is embedding",))
            if again:
                self._forget_rests()
            return self._fill(progress, stop or threading.Event(), started)

    def _fill(self, progress: Progress, stop: threading.Event, started: float) -> FillReport:
        from memwell.ingest.fill import fill

        notes: list[str] = []
        while True:
            member, embedder, problems = self._first()
            notes += [problem for problem in problems if problem not in notes]
            if member is None or embedder is None:
                return FillReport(notes=tuple(notes), left=self._count_chunks())
            space = self._open(member, embedder)
            if rest := self._resting(embedder):
                notes.append(f"{member.name} is left alone for now: {rest.reason}")
                return FillReport(member.name, space.model, left=self._left(space),
                                  notes=tuple(notes))  # fmt: skip
            done = fill(self._index, embedder, space, self.cache, progress, stop, _now)
            if done.stopped_by and not stop.is_set():
                self._rest(embedder, done.stopped_by, BUSY_TIMEOUT_MS)
                notes.append(f"{member.name}: {done.stopped_by}")
                if isinstance(done.stopped_by, ProviderUnavailable):
                    continue
            elif not done.stopped_by:
                self._answered(embedder)
            self._drop_old()
            return FillReport(
                member.name, space.model, done.embedded, done.from_cache, done.refused,
                done.left, time.perf_counter() - started, tuple(notes),
            )  # fmt: skip

    def catch_up(self, most: int) -> int:
        """Embed the few chunks that came since, if the model is on this machine.

        Returns how many still wait: a search must not be kept waiting for more than a moment.
        """
        with self._index.reading() as reader:
            space = reader.spaces.live()
            waiting = reader.spaces.count_waiting(space) if space else reader.total
        if 0 < waiting <= most:
            with suppress(MemwellError), self._alone() as alone:
                if alone:
                    return self._catch_up(space)
        return waiting

    def _catch_up(self, live: Space | None) -> int:
        from memwell.ingest.fill import fill

        if live:
            space, embedder = live, self._embedder_of(live)
        else:
            member, first, _ = self._first()
            if member is None or first is None:
                raise ProviderUnavailable("no member of the chain can be used")
            space, embedder = self._open(member, first), first
        if embedder.remote or self._resting(embedder):
            return self._left(space)
        done = fill(self._index, embedder, space, self.cache, unwatched, threading.Event(), _now)
        if done.stopped_by:
            self._rest(embedder, done.stopped_by, _IMPATIENT_MS)
        return done.left

    def _first(self) -> tuple[Member | None, Embedder | None, list[str]]:
        """Return the provider to fill with: that of the space the user chose, else the chain's."""
        problems: list[str] = []
        with self._index.reading() as reader:
            chosen = [s for s in reader.spaces.all() if s.pinned == self._chain_as_text]
            for space in chosen:
                with suppress(ProviderUnavailable):
                    member = Member(space.provider, dict(space.made_from), {})
                    return member, self._embedder_of(space), []
            for member, embedder, problem in self._usable(reader):
                if embedder:
                    return member, embedder, problems
                problems.append(f"{member.name}: {problem}")
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
                embedder.fingerprint, member.name, embedder.model, embedder.dimensions,
                member.settings, _now(),
            )  # fmt: skip

    def _resting(self, embedder: Embedder) -> Rest | None:
        with self._index.reading() as reader:
            return reader.rests.of(embedder.fingerprint, time.time())

    def _left(self, space: Space) -> int:
        with self._index.reading() as reader:
            return reader.spaces.count_waiting(space)

    def _count_chunks(self) -> int:
        with self._index.reading() as reader:
            return reader.total

    def _drop_old(self) -> None:
        """Delete spaces that were retired longer ago than they are to be kept."""
        days = self._settings["embedding.keep_days"]
        before = (dt.datetime.now(dt.UTC) - dt.timedelta(days=days)).isoformat(timespec="seconds")
        with self._index.reading() as reader:
            old = [s for s in reader.spaces.all() if s.retired_at and s.retired_at < before]
        if old:
            with self._index.writing_spaces() as spaces:
                for space in old:
                    spaces.drop(space)
            self._index.tidy_snapshots()

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether no other process is filling; two would do the same work twice."""
        from memwell.store.filesystem import locked

        with locked(self._index.path.with_name("filling.lock"), wait=False) as alone:
            yield alone

    # -- asking --------------------------------------------------------------------------------

    def ask(self, text: str, reader: Reader) -> tuple[Asked | None, Leg | None]:
        """Embed a query in the first space that can be asked, and say how that went."""
        if not self.chain:
            return None, None
        reasons: list[str] = []
        for space in reader.spaces.all():
            if not reader.spaces.has_vectors(space):
                continue
            try:
                asked = self._ask(text, space, reader)
            except EmbeddingError as error:
                reasons.append(f"{space.provider}: {error.what}")
                continue
            if asked is None:
                reasons.append(f"{space.model} does not know the language of the query")
                break
            return asked, Leg(MEANING, True, detail=f"{space.model} ({space.provider})")
        nothing = "no passage has been embedded yet: run `memwell index`"
        return None, Leg(MEANING, False, "; ".join(reasons) or nothing)

    def _ask(self, text: str, space: Space, reader: Reader) -> Asked | None:
        rest = reader.rests.of(space.fingerprint, time.time())
        if rest:
            raise ProviderFailing(f"left alone for now: {rest.reason}")
        embedder = self._embedder_of(space)
        try:
            vector = embedder.embed_query(text)
        except EmbeddingError as error:
            self._rest(embedder, error, _IMPATIENT_MS)
            raise
        return Asked(space, vector[0]) if len(vector) else None

    def _embedder_of(self, space: Space) -> Embedder:
        """Return the provider of a space; a remote one only if the chain names it."""
        name = space.provider
        named = next((member for member in self.chain if member.name == name), None)
        member = Member(name, dict(space.made_from), (named or self._member(name, None)).private)
        embedder = self._embedder(member)
        if embedder.remote and not named:
            raise ProviderUnavailable(f"{name} is no longer in embedding.chain")
        if embedder.fingerprint != space.fingerprint:
            raise ProviderUnavailable(f"{space.model} is no longer what it was")
        return embedder

    def _rest(self, embedder: Embedder, error: EmbeddingError, wait_ms: int) -> None:
        unavailable = isinstance(error, ProviderUnavailable)
        at_least = getattr(error, "retry_after", None) or 0.0
        with suppress(MemwellError), self._index.writing_rests(wait_ms) as rests:
            rests.failed(
                embedder.fingerprint, str(error), time.time(),
                unavailable=unavailable, at_least=at_least,
            )  # fmt: skip

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
            for member, embedder, problem in self._usable(reader):
                rest = reader.rests.of(embedder.fingerprint, time.time()) if embedder else None
                if rest:
                    wait = dt.datetime.fromtimestamp(rest.until, dt.UTC).isoformat("T", "seconds")
                    problem = f"left alone until {wait}: {rest.reason}"
                detail = problem or (embedder.model if embedder else "")
                found.append(ProviderStatus(member.name, not problem, detail))
        return tuple(found)

    def spaces(self) -> tuple[SpaceStatus, ...]:
        """Return every space, the live one first."""
        with self._index.reading() as reader:
            return tuple(_status(space, *reader.spaces.coverage(space))
                         for space in reader.spaces.all())  # fmt: skip

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
            spaces.pin(space, self._chain_as_text)
        return next(status for status in self.spaces() if status.id == number)

    def drop(self, number: int) -> None:
        """Delete a space; not the one that answers."""
        space = self._numbered(number)
        if space.state == LIVE:
            raise MemwellError(
                f"Space {number} is live", "Switch to another one first: `memwell spaces switch N`"
            )
        with self._index.writing_spaces() as spaces:
            spaces.drop(space)
        self._index.tidy_snapshots()

    def _numbered(self, number: int) -> Space:
        with self._index.reading() as reader:
            spaces = reader.spaces.all()
        found = next((space for space in spaces if space.id == number), None)
        if found is None:
            known = ", ".join(str(space.id) for space in spaces) or "none"
            raise NotFoundError(f"There is no space {number}", f"Known spaces: {known}")
        return found


def _named(text: str) -> tuple[str, str | None]:
    """Read a member of the chain: ``provider`` or ``provider:model``."""
    name, colon, model = text.partition(":")
    return name.strip(), (model.strip() or None) if colon else None


def _status(space: Space, embedded: int, chunks: int) -> SpaceStatus:
    return SpaceStatus(
        space.id, space.provider, space.model, space.dimensions, space.state, embedded, chunks,
        space.opened_at, space.retired_at, space.random_mean, space.random_deviation,
        space.fingerprint,
    )  # fmt: skip


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
