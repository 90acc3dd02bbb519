"""Text that reads like real text: runs of sentences taken at random from a collection."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from itertools import accumulate

_BOUNDARY = re.compile(r"(?<=[.!?])\s+|\n+")
_SHORTEST, _LONGEST = 200, 1600
_LONGEST_RUN = 4


class Collection:
    """The texts of one source, each as its sentences."""

    def __init__(self, texts: Iterable[str]) -> None:
        split = ([part for part in _BOUNDARY.split(text) if part.strip()] for text in texts)
        self._texts = [sentences for sentences in split if sentences]
        self._up_to = [*accumulate(map(len, self._texts))]

    @property
    def size(self) -> int:
        """How many sentences there are."""
        return self._up_to[-1]

    def sample(self, chance: random.Random) -> str:
        """Return runs of sentences, together about as long as a chunk."""
        length = chance.randint(_SHORTEST, _LONGEST)
        runs: list[str] = []
        missing = length
        while missing > 0:
            runs.append(self._run(chance))
            missing -= len(runs[-1]) + 1
        text = "\n".join(runs)
        end = text.rfind(" ", _SHORTEST, length)
        return text[: end if end > 0 else length]

    def _run(self, chance: random.Random) -> str:
        """Return a few sentences in a row from one text."""
        (sentences,) = chance.choices(self._texts, cum_weights=self._up_to)
        start = chance.randrange(len(sentences))
        return " ".join(sentences[start : start + chance.randint(1, _LONGEST_RUN)])
