"""OpenAI's embeddings, and those of any server that speaks its protocol.

Ollama, LM Studio, vLLM and llama-server do; give their address as `base_url`.
"""

from __future__ import annotations

from typing import Any

from memwell.embed.base import Limits
from memwell.embed.remote import RemoteEmbedder
from memwell.net.responses import get_objects
from memwell.net.vendors import OPENAI

_SHORTENABLE = "text-embedding-3-"
"""Models whose names begin so can give shorter vectors."""


class OpenAI(RemoteEmbedder):
    """A model behind ``/embeddings``."""

    name = "openai"
    vendor = OPENAI
    # The models take 8,191 of their own tokens, which are shorter in code and in tables.
    window = 6_000
    # https://platform.openai.com/docs/api-reference/embeddings/create
    max_inputs = 2_048
    limits = Limits()

    def _request(self, texts: list[str], *, query: bool) -> list[Any]:
        # base64 is a quarter of the size of decimals. A server that does not know it answers with
        # decimals.
        body: dict[str, object] = {"model": self.model, "input": texts, "encoding_format": "base64"}
        if self.model.startswith(_SHORTENABLE):
            body["dimensions"] = self.dimensions
        answer = self._client.post("/embeddings", body, interactive=query)
        vectors = get_objects(self._client.endpoint, answer, "data")
        indexes = [vector["index"] for vector in vectors if type(vector.get("index")) is int]
        if sorted(indexes) != [*range(len(vectors))]:
            raise self._client.endpoint.wrong_answer("numbered its vectors wrongly")
        vectors.sort(key=lambda vector: vector["index"])
        return [vector.get("embedding") for vector in vectors]
