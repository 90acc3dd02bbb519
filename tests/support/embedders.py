"""Providers for tests: the shipped word counter, with faults that can be switched on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from memwell.embed.base import Limits
from memwell.embed.multilingual import Multilingual
from memwell.embed.testing import WordCounts
from memwell.embed.unrelated_baseline import PASSAGES, QUESTIONS
from memwell.errors import EmbeddingError

if TYPE_CHECKING:
    from memwell.embed.base import Matrix


_VECTORS: dict[str, Matrix] = {}
"""The vectors of the default model of each text, for all tests of this process."""


@contextmanager
def embedding_once() -> Iterator[None]:
    """Let the default model embed each text once a session: many tests index the example notes."""
    embed = Multilingual.embed_documents

    def embed_documents(self: Multilingual, texts: Sequence[str]) -> list[Matrix]:
        new = [text for text in dict.fromkeys(texts) if text not in _VECTORS]
        _VECTORS.update(zip(new, embed(self, new), strict=True))
        return [_VECTORS[text] for text in texts]

    with mock.patch.object(Multilingual, "embed_documents", embed_documents):
        yield


class Faulty(WordCounts):
    """Counts words until `fault` is set, and records the texts and queries that it gets."""

    def __init__(
        self,
        model: str = "words",
        dimensions: int = 64,
        *,
        remote: bool = False,
        batch_texts: int = 256,
        hang_after: int | None = None,
    ) -> None:
        super().__init__(model, dimensions)
        self.remote = remote
        self.limits = Limits(texts=batch_texts, parallel=2)
        self.hang_after = hang_after
        """After so many texts it waits for `may_go`, as if its model hung."""
        self.may_go = threading.Event()
        self.fault: EmbeddingError | None = None
        self.queries = 0
        self.texts: list[str] = []
        self._lock = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        with self._lock:
            is_new = not {*texts} <= {*PASSAGES}
            limit = self.hang_after
            hangs = is_new and limit is not None and len(self.texts) >= limit
            self.texts += [text for text in texts if text not in PASSAGES]
        if hangs:
            self.may_go.wait()
        if self.fault:
            raise self.fault
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Matrix:
        self.queries += text not in QUESTIONS
        if self.fault:
            raise self.fault
        return self.vector(text)
