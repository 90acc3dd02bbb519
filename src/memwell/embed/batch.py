"""How a batch is embedded in spite of a provider that fails now and then, or chokes on one text.

1. A provider that fails is tried again, each time after a longer pause or the one it asked for.
2. A batch that it refuses is halved, down to the text that it will not take: that is `Refused`.
3. So is a batch that it answers wrongly every time.
4. Before a text is blamed, a plain one is tried. If that fares no better, or if every text of a
   batch is answered wrongly, the provider is at fault.

A batch of n texts is cut into at most 2n - 1 batches, itself included. Each costs at most
`attempts` requests, and the plain text one more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memwell.embed.base import Embedder
from memwell.errors import (
    BatchRefused,
    EmbeddingError,
    ProviderFailing,
    ProviderUnavailable,
    WrongAnswer,
)

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

Sleep = Callable[[float], object]
"""Waits for so many seconds; returns True where the work should stop (`threading.Event.wait`)."""


@dataclass(frozen=True, slots=True)
class RefusedText:
    """Stands in for the vectors of a text that the provider does not take."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a batch is tried, and the seconds between."""

    attempts: int = 5
    attempts_halved: int = 2
    """Of each half of a batch that was answered wrongly every time."""
    first: float = 1.0
    """The longest first pause; each next one is up to twice as long."""
    longest: float = 60.0
    longest_asked: float = 120.0
    """A provider that asks for more is given up at once."""


DEFAULT_RETRY = RetryPolicy()
PROBE_TEXT = "A plain sentence in plain words."
"""What every provider takes."""
_CHANCE = random.Random()


def embed_batch(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    sleep: Sleep = time.sleep,
    patience: RetryPolicy = DEFAULT_RETRY,
    jitter: random.Random = _CHANCE,
) -> list[Matrix | RefusedText]:
    """Return for each text its vectors, or why the provider does not take it."""
    trial = BatchEmbedder(embedder, sleep, patience, jitter)
    outcomes = trial.run(texts, patience.attempts)
    if 1 < len(texts) == len(trial.wrong):
        raise ProviderFailing(f"{embedder.name} answered wrongly for every text: {trial.wrong[0]}")
    return outcomes


class BatchEmbedder:
    """One batch on its way."""

    def __init__(
        self, embedder: Embedder, sleep: Sleep, patience: RetryPolicy, jitter: random.Random
    ) -> None:
        self.embedder = embedder
        self.sleep = sleep
        self.patience = patience
        self.jitter = jitter
        self.plain_is_taken = False
        self.wrong: list[str] = []
        """What was wrong with each text that was answered wrongly to the end."""

    def run(self, texts: Sequence[str], attempts: int) -> list[Matrix | RefusedText]:
        """Embed a batch, or its halves where it cannot be had whole."""
        if not texts:
            return []
        try:
            return list(self._vectors(texts, attempts))
        except BatchRefused as refusal:
            return self._halves(texts, attempts, refusal)
        except WrongAnswer as fault:
            self._probe()
            if len(texts) == 1:
                self.wrong.append(str(fault))
            return self._halves(texts, min(attempts, self.patience.attempts_halved), fault)

    def _halves(
        self, texts: Sequence[str], attempts: int, fault: EmbeddingError
    ) -> list[Matrix | RefusedText]:
        if len(texts) == 1:
            self._probe()
            return [RefusedText(str(fault))]
        middle = len(texts) // 2
        return self.run(texts[:middle], attempts) + self.run(texts[middle:], attempts)

    def _probe(self) -> None:
        """Make sure, once, that it is not the provider's fault."""
        if self.plain_is_taken:
            return
        try:
            self.embedder.embed_documents([PROBE_TEXT])
        except BatchRefused as refusal:
            refused = f"{self.embedder.name} takes no text at all: {refusal}"
            raise ProviderUnavailable(refused, "Check its model and settings") from None
        except WrongAnswer as fault:
            raise ProviderFailing(fault.what, fault.remedy) from None
        self.plain_is_taken = True

    def _vectors(self, texts: Sequence[str], attempts: int) -> list[Matrix]:
        for attempt in range(attempts - 1):
            try:
                return self.embedder.embed_documents(texts)
            except ProviderFailing as fault:
                self._pause(attempt, fault)
        return self.embedder.embed_documents(texts)

    def _pause(self, attempt: int, fault: ProviderFailing) -> None:
        """Wait before the next attempt, unless there is none to wait for."""
        pause = fault.retry_after
        if pause is None:
            # The whole pause is left to chance, so that many callers do not come back together.
            longest = min(self.patience.longest, self.patience.first * 2**attempt)
            pause = self.jitter.uniform(0, longest)
        elif pause > self.patience.longest_asked:
            raise fault
        if self.sleep(pause) is True:
            raise ProviderFailing(f"Stopped before another attempt: {fault}") from None
