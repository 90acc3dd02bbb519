"""Embed a batch although the provider fails now and then, or cannot handle one of the texts.

1. If the provider fails, the same batch is sent again after a pause (`net.retry`).
2. If it refuses a batch, each half is sent, down to the single text that it refuses.
3. If it answers a batch wrongly every time, each half is sent as well.
4. Before a text is blamed, the probe text is sent. If the probe fails too, or if every text of a
   batch is answered wrongly, the provider is at fault.

A batch of n texts becomes at most 2n - 1 batches, itself included. Each costs at most `attempts`
requests, and the probe costs one more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memwell.embed.base import Embedder
from memwell.errors import (
    BatchRefused,
    EmbeddingError,
    ProviderFailing,
    ProviderUnavailable,
    WrongAnswer,
)
from memwell.net.retry import JITTER, RetryPolicy, Sleep

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

DEFAULT_RETRY = RetryPolicy()
PROBE_TEXT = "A plain sentence in plain words."
"""Every provider takes this text."""
_ATTEMPTS_HALVED = 2
"""Attempts for each half of a batch that was answered wrongly every time."""


@dataclass(frozen=True, slots=True)
class RefusedText:
    """Stands in for the vectors of a text that the provider does not take."""

    reason: str


def embed_batch(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    sleep: Sleep = time.sleep,
    retry: RetryPolicy = DEFAULT_RETRY,
    jitter: random.Random = JITTER,
) -> list[Matrix | RefusedText]:
    """Return the vectors of each text, or why the provider does not take it."""
    batch = BatchEmbedder(embedder, sleep, retry, jitter)
    outcomes = batch.run(texts, retry.attempts)
    if 1 < len(texts) == len(batch.wrong):
        raise ProviderFailing(f"{embedder.name} answered wrongly for every text: {batch.wrong[0]}")
    return outcomes


@dataclass(slots=True)
class BatchEmbedder:
    """The work on one batch."""

    embedder: Embedder
    sleep: Sleep
    retry: RetryPolicy
    jitter: random.Random
    probe_succeeded: bool = False
    wrong: list[str] = field(default_factory=list)
    """The error of each text that was answered wrongly every time."""

    def run(self, texts: Sequence[str], attempts: int) -> list[Matrix | RefusedText]:
        """Embed a batch whole, or else its halves."""
        if not texts:
            return []
        try:
            return list(
                self.retry.run(
                    lambda: self.embedder.embed_documents(texts),
                    attempts=attempts,
                    sleep=self.sleep,
                    jitter=self.jitter,
                )
            )
        except BatchRefused as refusal:
            return self._halves(texts, attempts, refusal)
        except WrongAnswer as failure:
            self._probe()
            if len(texts) == 1:
                self.wrong.append(str(failure))
            return self._halves(texts, min(attempts, _ATTEMPTS_HALVED), failure)

    def _halves(
        self, texts: Sequence[str], attempts: int, error: EmbeddingError
    ) -> list[Matrix | RefusedText]:
        if len(texts) == 1:
            self._probe()
            return [RefusedText(str(error))]
        middle = len(texts) // 2
        return self.run(texts[:middle], attempts) + self.run(texts[middle:], attempts)

    def _probe(self) -> None:
        """Make sure, once, that the provider is not at fault."""
        if self.probe_succeeded:
            return
        try:
            self.embedder.embed_documents([PROBE_TEXT])
        except BatchRefused as refusal:
            refused = f"{self.embedder.name} refuses every text: {refusal}"
            raise ProviderUnavailable(refused, "Check its model and settings") from None
        except WrongAnswer as failure:
            raise ProviderFailing(failure.what, failure.remedy) from None
        self.probe_succeeded = True
