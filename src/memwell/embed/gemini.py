"""Gemini's embeddings, of the developer API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from memwell.config.providers import GEMINI_URL, GeminiEmbeddingSettings
from memwell.embed.base import Limits
from memwell.embed.windows import split_rows
from memwell.net.client import JsonClient
from memwell.net.responses import (
    SettingNames,
    empty_rows,
    entries,
    prepare_windows,
    to_unit_vectors,
)

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

WINDOW = 1_800
"""Estimated tokens; the model takes 2,048 of its own and ignores the rest without a word."""
MOST = 100
"""Texts a request; with more the server refuses it."""
_DOCUMENT = "RETRIEVAL_DOCUMENT"
_QUERY = "RETRIEVAL_QUERY"


class Gemini:
    """A model behind ``:batchEmbedContents``."""

    name = "gemini"
    remote = True
    window = WINDOW
    limits = Limits(texts=MOST)

    def __init__(
        self,
        *,
        model: str = GeminiEmbeddingSettings.model,
        dimensions: int = GeminiEmbeddingSettings.dimensions,
        base_url: str = GEMINI_URL,
        key: str = "",
        timeout: float = 60.0,
    ) -> None:
        self.model = model.removeprefix("models/")
        self.dimensions = dimensions
        self._service = JsonClient(
            base_url,
            key,
            vendor=GEMINI_URL,
            header="x-goog-api-key",
            settings=SettingNames("embedding.gemini", "GEMINI_API_KEY"),
            timeout=timeout,
        )

    def __repr__(self) -> str:
        return f"Gemini(model={self.model!r}, dimensions={self.dimensions})"

    @property
    def fingerprint(self) -> str:
        """Everything that changes a vector."""
        return f"gemini {self.model} {self.dimensions} windows of {self.window}"

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text; a blank one is not sent."""
        cut = [prepare_windows(text, self.window) for text in texts]
        rows = self._rows([window for group in cut for window in group], _DOCUMENT)
        return split_rows(rows, [len(group) for group in cut])

    def embed_query(self, text: str) -> Matrix:
        """Embed a query; of a very long one, its first window."""
        return self._rows(prepare_windows(text, self.window)[:1], _QUERY)

    def _rows(self, texts: list[str], task: str) -> Matrix:
        """Ask for the vectors; texts of several windows may make more than a request's worth."""
        import numpy as np

        parts = [texts[start : start + MOST] for start in range(0, len(texts), MOST)]
        return np.concatenate(
            [empty_rows(self.dimensions), *(self._post_batch(part, task) for part in parts)]
        )

    def _post_batch(self, texts: list[str], task: str) -> Matrix:
        body = {"requests": [self._request(text, task) for text in texts]}
        path = f"/models/{quote(self.model)}:batchEmbedContents"
        answer = self._service.post(path, body, hurry=task == _QUERY)
        found = entries(self._service.server, answer, "embeddings")
        vectors = [entry.get("values") for entry in found]
        return to_unit_vectors(self._service.server, vectors, len(texts), self.dimensions)

    def _request(self, text: str, task: str) -> dict[str, object]:
        return {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": text}]},
            "taskType": task,
            "outputDimensionality": self.dimensions,
        }
