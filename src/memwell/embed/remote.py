"""An embedding provider behind a vendor's HTTP protocol: the parts that all of them share."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from memwell.embed.base import Limits
from memwell.embed.windows import empty_rows, split_rows, text_windows
from memwell.errors import ProviderUnavailable
from memwell.net.client import JsonClient
from memwell.net.responses import Endpoint, SettingNames
from memwell.net.vendors import Vendor

if TYPE_CHECKING:
    from memwell.embed.base import Matrix


class RemoteEmbedder(ABC):
    """A model on a server; each protocol says what to send and where the vectors are."""

    name: ClassVar[str]
    vendor: ClassVar[Vendor]
    window: ClassVar[int]
    """Tokens, estimated."""
    max_inputs: ClassVar[int]
    """Texts of one request; the server refuses more."""
    limits: ClassVar[Limits]
    remote = True

    def __init__(
        self, *, model: str, dimensions: int, base_url: str, key: str = "", timeout: float = 60.0
    ) -> None:
        """Ask the server at `base_url` for vectors of so many `dimensions`."""
        self.model = model
        self.dimensions = dimensions
        settings = SettingNames(f"embedding.{self.name}", self.vendor.variable)
        self._client = JsonClient(base_url, key, self.vendor, settings, timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, dimensions={self.dimensions})"

    @property
    def fingerprint(self) -> str:
        """Everything that changes a vector. The same model at another address gives the same."""
        return f"{self.name} {self.model} {self.dimensions} windows of {self.window}"

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        windows = [self._windows(text) for text in texts]
        rows = self._embed([window for group in windows for window in group], query=False)
        return split_rows(rows, [len(group) for group in windows])

    def embed_query(self, text: str) -> Matrix:
        """Embed the first window of a query."""
        return self._embed(self._windows(text)[:1], query=True)

    def _windows(self, text: str) -> list[str]:
        """Cut a text into windows, without blank ones, which servers refuse."""
        return [window for window in text_windows(text, self.window) if window.strip()]

    def _embed(self, texts: list[str], *, query: bool) -> Matrix:
        """Embed texts that each fit a window, in as many requests as they need."""
        import numpy as np

        starts = range(0, len(texts), self.max_inputs)
        batches = [texts[start : start + self.max_inputs] for start in starts]
        rows = (
            to_unit_vectors(
                self._client.endpoint,
                self._request(batch, query=query),
                len(batch),
                self.dimensions,
            )
            for batch in batches
        )
        return np.concatenate([empty_rows(self.dimensions), *rows])

    @abstractmethod
    def _request(self, texts: list[str], *, query: bool) -> list[Any]:
        """Return the vectors of one request, in the order of its texts, as the server sent them."""


def to_unit_vectors(
    endpoint: Endpoint, vectors: Sequence[object], count: int, dimensions: int
) -> Matrix:
    """Return a server's vectors as unit vectors; check their number and their length."""
    import numpy as np

    if len(vectors) != count:
        raise endpoint.wrong_answer(f"answered with {len(vectors)} vectors to {count} texts")
    numbers = [_numbers(endpoint, vector) for vector in vectors]
    _check_lengths(endpoint, {len(vector) for vector in numbers}, dimensions)
    rows = np.array(numbers, dtype=np.float64)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not np.isfinite(rows).all() or not largest.all():
        raise endpoint.wrong_answer("answered with a vector of zeros, NaN or infinity")
    rows /= largest  # The squares of very large or very small numbers overflow or vanish.
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def _check_lengths(endpoint: Endpoint, lengths: set[int], dimensions: int) -> None:
    if lengths == {dimensions}:
        return
    if len(lengths) > 1 or 0 in lengths:
        raise endpoint.wrong_answer("answered with vectors of different lengths or without numbers")
    (length,) = lengths
    raise ProviderUnavailable(
        f"{endpoint.host} answered with vectors of {length} numbers, not of {dimensions}",
        f"Set {endpoint.settings.section}.dimensions to {length}, or name another model",
    )


def _numbers(endpoint: Endpoint, vector: object) -> Sequence[float]:
    """Read a vector: a list of numbers, or base64 of little-endian float32."""
    import numpy as np

    try:
        if isinstance(vector, str):
            return [*np.frombuffer(base64.b64decode(vector, validate=True), "<f4").astype(float)]
        if isinstance(vector, list) and set(map(type, vector)) <= {int, float}:
            return [float(number) for number in vector]
    except (ValueError, OverflowError):
        pass
    raise endpoint.wrong_answer("answered with something other than numbers")
