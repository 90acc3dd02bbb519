"""The contract of what belongs to vectors: spaces, cooldowns of providers, the vector cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from memwell.store.contract.values import FILLING, LIVE, RETIRED, Cooldown, Space, cooldown_seconds

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import WaitingChunk

    Take = Callable[[Space, int], list[WaitingChunk]]
    """Leases up to so many chunks without a vector in a space, those of the newest notes first.

    No other process gets the same chunks. An empty list means that no chunk waits, or that other
    processes have leased the rest.
    """


class Spaces(Protocol):
    """Vector spaces: the vectors of one model beside those of others.

    A fingerprint identifies a space. Exactly one space is live: searches use it. Others are being
    filled, or are retired.
    """

    def all(self) -> list[Space]:
        """Return every space: the live one, those being filled, then those retired."""

    def live(self) -> Space | None:
        """Return the live space, if there is one."""
        return next((space for space in self.all() if space.state == LIVE), None)

    def find(self, fingerprint: str) -> Space | None:
        """Return the space with a fingerprint."""
        return next((space for space in self.all() if space.fingerprint == fingerprint), None)

    def open(self, new: Space) -> Space:
        """Return the space with the fingerprint of `new`, ready to be filled.

        The first space is live at once.
        """
        self._lock()
        self._insert(replace(new, state=FILLING if self.live() else LIVE))
        space = self.find(new.fingerprint)
        assert space is not None
        return space

    def _lock(self) -> None:
        """Keep other processes from opening or switching spaces until this transaction ends."""

    def _insert(self, space: Space) -> None:
        """Insert a new space; a retired one with the same fingerprint gets the state instead."""

    def _change(self, space: Space, **columns: Any) -> None:
        """Change columns of a space."""

    def go_live(self, space: Space, at: str) -> None:
        """Make a space the live one and retire the one before."""
        self._lock()
        before = self.live()
        if before and before.id != space.id:
            self.retire(before, at)
        self._change(space, state=LIVE, retired_at=None)

    def retire(self, space: Space, at: str) -> None:
        """Stop filling a space; keep its vectors."""
        self._change(space, state=RETIRED, retired_at=at)

    def pin(self, space: Space, chain: str) -> None:
        """Record that the user chose a space instead of the one that the chain would choose."""
        for other in self.all():
            self._change(other, pinned=chain if other.id == space.id else None)

    def coverage(self, space: Space) -> tuple[int, int]:
        """Return how many chunks were embedded in a space, and how many chunks there are.

        Like all counts, it is of the chunks that the viewer sees.
        """

    def has_vectors(self, space: Space) -> bool:
        """Whether a space contains any vector."""

    def count_waiting(self, space: Space) -> int:
        """Return how many chunks have no vector in a space yet."""

    def waiting(self, space: Space, limit: int) -> list[WaitingChunk]:
        """Return chunks without a vector in a space, those of the newest notes first."""

    def mark_complete(self, space: Space, mean: float | None, deviation: float | None) -> None:
        """Record that every chunk has its vectors, and the cosine of two random vectors."""
        last = self._last_embedded(space)
        self._change(space, random_mean=mean, random_deviation=deviation, complete_to=last)

    def _last_embedded(self, space: Space) -> int:
        """Return the newest chunk if all chunks have their vectors."""

    def set_baseline(self, space: Space, mean: float, deviation: float) -> None:
        """Record the cosine that the model gives to a query and an unrelated passage."""
        self._change(space, unrelated_mean=mean, unrelated_deviation=deviation)


class Cooldowns(Protocol):
    """Providers that failed and are not called for a while, by any process (a circuit breaker)."""

    def get(self, provider: str) -> Cooldown | None:
        """Return the last failure of a provider; None if it has succeeded since."""

    def record_failure(
        self,
        provider: str,
        reason: str,
        now: float,
        *,
        unavailable: bool = False,
        at_least: float = 0.0,
    ) -> None:
        """Start a cooldown: twice as long with each failure in a row."""
        before = self.get(provider)
        failures = before.failures + 1 if before else 1
        until = now + max(cooldown_seconds(failures), at_least)
        self.put(Cooldown(provider, until, failures, unavailable, reason))

    def put(self, cooldown: Cooldown) -> None:
        """Record the failures of a provider."""

    def clear(self, provider: str) -> None:
        """Delete the failures of a provider that succeeded, or that the user wants to retry."""

    def clear_all(self) -> None:
        """Delete the failures of every provider."""


class VectorCache(Protocol):
    """Vectors by text, for one agent, so that no text is embedded twice."""

    def get(self, fingerprint: str, dimensions: int, texts: Sequence[str]) -> dict[str, Matrix]:
        """Return the vectors of those texts that were embedded before."""

    def put(self, fingerprint: str, vectors: Iterable[tuple[str, Matrix]]) -> None:
        """Store vectors, or record that they were used again."""

    def forget(self, digests: Iterable[bytes]) -> bool:
        """Delete the vectors of texts by digest; False while a reader still sees some."""

    def trim(self) -> None:
        """Delete the vectors that were not used for longest, if the cache is too large."""

    def close(self) -> None:
        """Close every connection of the cache."""
