"""Gemini's embeddings, through the developer API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from memwell.embed.base import Limits
from memwell.embed.remote import RemoteEmbedder
from memwell.net.responses import get_objects
from memwell.net.vendors import GEMINI


class Gemini(RemoteEmbedder):
    """A model behind ``:batchEmbedContents``."""

    name = "gemini"
    vendor = GEMINI
    # The model takes 2,048 of its own tokens and silently ignores the rest.
    window = 1_800
    max_inputs = 100
    limits = Limits(texts=max_inputs)

    def __init__(self, *, model: str, **settings: Any) -> None:
        """Take the model's name with or without the prefix that the API's lists give it."""
        super().__init__(model=model.removeprefix("models/"), **settings)

    def _request(self, texts: list[str], *, query: bool) -> list[Any]:
        task = "RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT"
        requests = [
            {
                "model": f"models/{self.model}",
                "content": {"parts": [{"text": text}]},
                "taskType": task,
                "outputDimensionality": self.dimensions,
            }
            for text in texts
        ]
        path = f"/models/{quote(self.model)}:batchEmbedContents"
        answer = self._client.post(path, {"requests": requests}, interactive=query)
        vectors = get_objects(self._client.endpoint, answer, "embeddings")
        return [vector.get("values") for vector in vectors]
