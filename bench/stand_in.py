"""Vectors that cost nothing, where those of a model would take an hour and change nothing."""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from memwell.embed.multilingual import Multilingual
from memwell.embed.testing import WordCounts

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_WIDTHS = np.arange(1, Multilingual.dimensions + 1, dtype=np.float32) ** -0.5


class WordSums(WordCounts):
    """Sums of a vector for each word: as long as the default model's, and as uneven in width."""

    def __init__(self) -> None:
        super().__init__(dimensions=Multilingual.dimensions)

    def vector(self, text: str) -> Matrix:
        """Return the sum of the words' vectors, normalised."""
        words = text.lower().split() or [""]
        total = np.sum([_of_word(word) for word in words], axis=0)
        whole: Matrix = (total / np.linalg.norm(total))[None]
        return whole


@cache
def _of_word(word: str) -> Matrix:
    chance = np.random.default_rng(zlib.crc32(word.encode()))
    return chance.standard_normal(Multilingual.dimensions, dtype=np.float32) * _WIDTHS
