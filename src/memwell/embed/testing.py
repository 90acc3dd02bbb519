"""A provider whose vectors can be computed by hand, for tests and examples.

Each word has an axis, chosen by its letters. The vector of a text is the normalised sum of its
words. So the cosine of two texts is the share of their common words, on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memwell.embed.base import Limits

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_WORD = re.compile(r"\w+")


class WordCounts:
    """Counts words; another `model` gives them other axes."""

    name = "test"
    remote = False
    window = 1_000_000
    limits = Limits(parallel=2)

    def __init__(self, model: str = "words", dimensions: int = 64) -> None:
        self.model = model
        self.dimensions = dimensions
        self.embedded = 0
        """The number of embedded texts, for tests."""

    @property
    def fingerprint(self) -> str:
        """Everything that changes a vector."""
        return f"test {self.model} {self.dimensions}"

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Return one vector for each text, and none for a text without words."""
        self.embedded += len(texts)
        return [self.vector(text) for text in texts]

    def embed_query(self, text: str) -> Matrix:
        """Return the same vector as for a document with this text."""
        return self.vector(text)

    def vector(self, text: str) -> Matrix:
        """Return the normalised sum of the words' axes."""
        import numpy as np

        vector = np.zeros((1, self.dimensions), dtype=np.float32)
        for word in _WORD.findall(text.lower()):
            vector[0, self.axis(word)] += 1
        length = float(np.linalg.norm(vector))
        return vector / np.float32(length) if length else vector[:0]

    def axis(self, word: str) -> int:
        """Return the axis of a word."""
        import zlib

        return zlib.crc32(f"{self.model} {word}".encode()) % self.dimensions
