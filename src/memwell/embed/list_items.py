"""A vector for each item of a list, besides those of the whole passage.

A MEMORY.md is often a list of unrelated facts. The vector of such a list is similar to every
question a little and to none clearly, while that of the right item is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

from memwell.embed.base import Embedder, split_batches

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_FINGERPRINT = ", list items"
_ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(?=\S)", re.M)
_FEWEST = 5
"""The vector of a shorter list is still similar to each of its items."""
_SHORTEST = 15
"""Characters; a shorter item ("- milk") says too little alone."""
_LONGEST_TITLE = 100


def without_items(fingerprint: str) -> str:
    """Return the fingerprint of the same provider without vectors of items, as it once was."""
    return fingerprint.removesuffix(_FINGERPRINT)


def list_items(text: str) -> list[str]:
    """Return the items of a passage that is mostly a list, each below the title of the list."""
    spans = item_spans(text)
    if not spans:
        return []
    lead = takewhile(lambda line: not _ITEM.match(line), text.splitlines())
    title = next((line.strip() for line in lead if line.strip()), "")
    above = f"{title}\n" if 0 < len(title) <= _LONGEST_TITLE else ""
    return [f"{above}{text[start:end]}" for start, end in spans]


def item_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of the items of a passage that is mostly a list, without their markers."""
    markers = [*_ITEM.finditer(text)]
    ends = [*(marker.start() for marker in markers[1:]), len(text)]
    spans = [
        (marker.end(), marker.end() + len(text[marker.end() : end].rstrip()))
        for marker, end in zip(markers, ends, strict=bool(markers))
    ]
    if len(spans) < _FEWEST or 2 * sum(end - start for start, end in spans) < len(text):
        return []
    return [(start, end) for start, end in spans if end - start >= _SHORTEST]


def most_similar_item(text: str, vectors: Matrix, query: Matrix) -> tuple[int, int] | None:
    """Return the span of the item whose vector is most similar to a query; None without items.

    The vectors are those of the passage, in which the items are the last ones.
    """
    import numpy as np

    spans = item_spans(text)
    if not 0 < len(spans) < len(vectors):
        return None
    return spans[int(np.vecdot(vectors[-len(spans) :], query).argmax())]


class ListItemEmbedder:
    """A provider whose passages that are lists have a vector for each item, too."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name = embedder.name
        self.remote = embedder.remote
        self.limits = embedder.limits

    @property
    def model(self) -> str:
        """The model's name, for people."""
        return self._embedder.model

    @property
    def fingerprint(self) -> str:
        """Everything that changes a vector."""
        return self._embedder.fingerprint + _FINGERPRINT

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        return self._embedder.dimensions

    @property
    def window(self) -> int:
        """Tokens that one vector covers."""
        return self._embedder.window

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Return the vectors of each text: first those of the whole, then those of its items."""
        groups = [[text, *list_items(text)] for text in texts]
        rows = [
            matrix
            for batch in split_batches([part for group in groups for part in group], self.limits)
            for matrix in self._embedder.embed_documents(batch)
        ]
        ends = [*accumulate(map(len, groups))]
        return [
            _stack(rows[end - len(group) : end]) for group, end in zip(groups, ends, strict=True)
        ]

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a query."""
        return self._embedder.embed_query(text)


def _stack(rows: Sequence[Matrix]) -> Matrix:
    if len(rows) == 1:
        return rows[0]
    import numpy as np

    return np.concatenate(rows)
