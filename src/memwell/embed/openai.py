"""OpenAI's embeddings, and those of any server that speaks its protocol.

Ollama, LM Studio, vLLM and llama-server do; give their address as `base_url`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memwell.config.providers import OPENAI_URL, OpenAIEmbeddingSettings
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

WINDOW = 6_000
"""Estimated tokens; the model takes 8,191 of its own, which are shorter in code and in tables."""
_SHORTENED = "text-embedding-3-"
"""How the names of models begin that can be asked for shorter vectors."""


class OpenAI:
    """A model behind ``/embeddings``."""

    name = "openai"
    remote = True
    window = WINDOW
    limits = Limits()

    def __init__(
        self,
        *,
        model: str = OpenAIEmbeddingSettings.model,
        dimensions: int = OpenAIEmbeddingSettings.dimensions,
        base_url: str = OPENAI_URL,
        key: str = "",
        timeout: float = 60.0,
    ) -> None:
        self.model = model
        self.dimensions = dimensions
        self._service = JsonClient(
            base_url,
            key,
            vendor=OPENAI_URL,
            header="Authorization",
            scheme="Bearer ",
            settings=SettingNames("embedding.openai", "OPENAI_API_KEY"),
            timeout=timeout,
        )

    def __repr__(self) -> str:
        return f"OpenAI(model={self.model!r}, dimensions={self.dimensions})"

    @property
    def fingerprint(self) -> str:
        """Everything that changes a vector; the same model elsewhere is the same."""
        return f"openai {self.model} {self.dimensions} windows of {self.window}"

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text in one request; a blank one is not sent."""
        cut = [prepare_windows(text, self.window) for text in texts]
        rows = self._rows([window for group in cut for window in group])
        return split_rows(rows, [len(group) for group in cut])

    def embed_query(self, text: str) -> Matrix:
        """Embed a query; of a very long one, its first window."""
        return self._rows(prepare_windows(text, self.window)[:1], hurry=True)

    def _rows(self, texts: list[str], *, hurry: bool = False) -> Matrix:
        if not texts:
            return empty_rows(self.dimensions)
        # A quarter of the size of decimals. A server that knows it not answers with decimals.
        body: dict[str, object] = {"model": self.model, "input": texts, "encoding_format": "base64"}
        if self.model.startswith(_SHORTENED):
            body["dimensions"] = self.dimensions
        vectors = self._in_order(self._service.post("/embeddings", body, hurry=hurry))
        return to_unit_vectors(self._service.server, vectors, len(texts), self.dimensions)

    def _in_order(self, answer: object) -> list[object]:
        """Return the vectors in the order of the texts, which each one's `index` tells."""
        found = entries(self._service.server, answer, "data")
        indexes = [entry["index"] for entry in found if type(entry.get("index")) is int]
        if sorted(indexes) != [*range(len(found))]:
            raise self._service.server.wrong_answer("numbered its vectors wrongly")
        return [entry.get("embedding") for entry in sorted(found, key=lambda entry: entry["index"])]
