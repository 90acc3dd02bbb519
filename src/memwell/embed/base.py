"""What every embedding provider is, on one screen.

A provider turns texts into unit vectors of one fixed length. Its `fingerprint` names everything
that changes a vector (model, dimensions, prefixes, windows): two vectors are compared only if
their fingerprints are the same. Making one is cheap; heavy packages load when it is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]
    """One unit vector a row."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a provider takes at a time."""

    tokens: int = 8_000
    """Of all texts of a batch together, estimated."""
    texts: int = 256
    parallel: int = 4
    """Batches under way at once."""


class Embedder(Protocol):
    """A provider of vectors; safe to share between threads."""

    name: str
    """What it is called in ``embedding.chain``."""
    remote: bool
    """Whether texts leave this machine: such a provider is used only when it is named."""
    limits: Limits

    @property
    def model(self) -> str:
        """The model's name, for people."""

    @property
    def fingerprint(self) -> str:
        """Everything that changes a vector."""

    @property
    def dimensions(self) -> int:
        """The length of its vectors; this and `window` may ask for the model to be loaded."""

    @property
    def window(self) -> int:
        """Tokens that one vector covers; a longer text gets several."""

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Return for each text a matrix with a vector for each of its windows.

        A text that is blank, or that the model cannot read (a language it was not trained on),
        gets no row.
        """

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a query as a matrix of one row, or of none as above."""
