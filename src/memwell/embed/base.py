"""The contract of every embedding provider, on one screen.

A provider turns texts into unit vectors of one fixed length. Its `fingerprint` names everything
that changes a vector (model, dimensions, prefixes, windows): two vectors are compared only if
their fingerprints are the same. Creating a provider is cheap; it loads heavy packages when it is
first used. The errors that it may raise are in `memwell.errors`, below `EmbeddingError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from memwell.token_estimate import count_tokens

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]
    """Each row is a unit vector."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a provider takes in one batch."""

    tokens: int = 8_000
    """Estimated, of all texts of a batch together."""
    texts: int = 256
    parallel: int = 4
    """Batches that may be sent at the same time."""


def split_batches(
    items: Sequence[Item], limits: Limits, text_of: Callable[[Item], str] = str
) -> Iterator[list[Item]]:
    """Split texts, or what has a text, into batches within the limits of a provider."""
    batch: list[Item] = []
    weight = 0
    for item in items:
        tokens = count_tokens(text_of(item))
        if batch and (weight + tokens > limits.tokens or len(batch) >= limits.texts):
            yield batch
            batch, weight = [], 0
        batch.append(item)
        weight += tokens
    if batch:
        yield batch


class Embedder(Protocol):
    """An embedding provider; threads may share it."""

    name: str
    """Its name in ``embedding.chain``."""
    remote: bool
    """Whether texts leave this machine; memwell uses such a provider only if the user names it."""
    limits: Limits

    @property
    def model(self) -> str:
        """The model's name, for people."""

    @property
    def fingerprint(self) -> str:
        """Everything that changes a vector."""

    @property
    def dimensions(self) -> int:
        """The length of its vectors. Reading this or `window` may load the model."""

    @property
    def window(self) -> int:
        """Tokens that one vector covers. A longer text gets several vectors."""

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Return for each text a matrix with a vector for each of its windows.

        A blank text gets no row. Neither does a text that the model cannot read, because it is
        in a language that the model was not trained on.
        """

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a query as a matrix of one row, or of no row as above."""
