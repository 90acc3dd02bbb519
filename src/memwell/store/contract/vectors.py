"""What an index is asked of its vectors: spaces, what waits, resting providers, vectors by text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.sqlite.cooldowns import Cooldown
    from memwell.store.sqlite.spaces import Space, WaitingChunk

    Take = Callable[[Space, int], list[WaitingChunk]]
    """Takes up to so many chunks without a vector in a space, those of the newest notes first.

    Nobody else is given them; none means that there are none, or that others have the rest.
    """


class Spaces(Protocol):
    """The vectors of all spaces."""

    def all(self) -> list[Space]:
        """Return every space: the live one, those being filled, those retired last."""

    def live(self) -> Space | None:
        """Return the space that answers, if there is one."""

    def find(self, fingerprint: str) -> Space | None:
        """Return the space of a fingerprint."""

    def open(
        self,
        fingerprint: str,
        provider: str,
        model: str,
        dimensions: int,
        settings: Mapping[str, Any],
        at: str,
    ) -> Space:
        """Return the space of a fingerprint to be filled; the first of all is live at once."""

    def go_live(self, space: Space, at: str) -> None:
        """Let a space answer from now on; the one before is kept, retired."""

    def retire(self, space: Space, at: str) -> None:
        """Stop filling a space; its vectors are kept."""

    def pin(self, space: Space, chain: str) -> None:
        """Record that the user chose a space, whatever the chain would choose."""

    def coverage(self, space: Space) -> tuple[int, int]:
        """Return how many chunks were embedded in a space, and how many there are."""

    def has_vectors(self, space: Space) -> bool:
        """Whether anything can be found in a space."""

    def count_waiting(self, space: Space) -> int:
        """Return how many chunks have no vector in a space yet."""

    def waiting(self, space: Space, limit: int) -> list[WaitingChunk]:
        """Return chunks without a vector in a space, those of the newest notes first."""

    def mark_complete(self, space: Space, mean: float | None, deviation: float | None) -> None:
        """Record that every chunk there is now has its vectors."""

    def set_baseline(self, space: Space, mean: float, deviation: float) -> None:
        """Record the cosine that the model gives to a question and an unrelated passage."""


class Cooldowns(Protocol):
    """The list of providers that are left alone."""

    def get(self, provider: str) -> Cooldown | None:
        """Return how a provider failed last, if it has not answered since."""

    def record_failure(
        self,
        provider: str,
        reason: str,
        now: float,
        *,
        unavailable: bool = False,
        at_least: float = 0.0,
    ) -> None:
        """Leave a provider alone: twice as long with each failure in a row."""

    def clear(self, provider: str) -> None:
        """Forget the failures of a provider that answers, or that the user wants tried again."""

    def clear_all(self) -> None:
        """Let every provider be tried again."""


class VectorCache(Protocol):
    """Vectors by text, for one agent."""

    def get(self, fingerprint: str, dimensions: int, texts: Sequence[str]) -> dict[str, Matrix]:
        """Return the vectors of those texts that were embedded before."""

    def put(self, fingerprint: str, vectors: Iterable[tuple[str, Matrix]]) -> None:
        """Keep vectors, or record that they were used again."""

    def forget(self, digests: Iterable[bytes]) -> bool:
        """Delete the vectors of texts, every trace of them; False while a reader holds some."""

    def trim(self) -> None:
        """Delete what was not used for longest, where there is too much."""

    def close(self) -> None:
        """Let go of it."""
