"""/v1/models and /v1/embeddings: the providers of `embedding.chain` as OpenAI's interface has them.

One vector stands for one text. That of a text longer than the window of a model is the mean of the
vectors of its windows.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from memwell.embed.list_items import list_items
from memwell.embed.providers import Factory
from memwell.errors import MemwellError, NotFoundError
from memwell.memory import Memory
from memwell.memory.providers import ProviderChain
from memwell.surfaces.http.errors import FAILURES
from memwell.token_estimate import count_tokens

if TYPE_CHECKING:
    from memwell.embed.base import Embedder, Matrix

router = APIRouter(prefix="/v1", tags=["OpenAI: embeddings"], responses=FAILURES)

_Text = Annotated[str, Field(max_length=100_000)]


class Model(BaseModel):
    """A model that a request can name."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "memwell"


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[Model]


class EmbeddingRequest(BaseModel):
    """Texts to embed."""

    input: _Text | Annotated[list[_Text], Field(min_length=1, max_length=2048)]
    model: Annotated[str, Field(max_length=200)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None
    """Accepted and ignored."""


class Embedding(BaseModel):
    """The vector of a text: numbers, or their bytes (float32, little endian) in base 64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """An estimate of the tokens of the texts."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """The vectors of the texts, in their order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class EmbeddingModels:
    """The providers of a memory, each by its entry of `embedding.chain` or by its model."""

    def __init__(self, memory: Memory, embedders: Mapping[str, Factory] | None) -> None:
        self._chain = ProviderChain(memory.settings, memory.home, embedders)
        self.names = memory.settings.embedding.chain

    def find(self, name: str) -> Embedder:
        """Return the embedder that a name means."""
        for entry, spec in zip(self.names, self._chain.specs, strict=True):
            embedder = self._chain.embedder(spec)
            if name in (entry, embedder.model):
                return embedder
        known = ", ".join(self.names) or "none: embedding.chain is empty"
        raise NotFoundError(f"There is no model {name!r}", f"The models are {known}")


@router.get("/models", response_model=ModelList)
def list_models(request: Request) -> Any:
    """List the embedding models."""
    return ModelList(data=[Model(id=name) for name in _models(request).names])


@router.get("/models/{model:path}", response_model=Model)
def retrieve_model(model: str, request: Request) -> Any:
    """Return an embedding model."""
    _models(request).find(model)
    return Model(id=model)


@router.post("/embeddings", response_model=EmbeddingList)
def create_embeddings(body: EmbeddingRequest, request: Request) -> Any:
    """Return a vector for each text."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    embedder = _models(request).find(body.model)
    if body.dimensions not in (None, embedder.dimensions):
        raise MemwellError(
            f"dimensions = {body.dimensions}, but {body.model} has {embedder.dimensions}",
            "Leave dimensions out",
        )
    vectors = _embed(embedder, texts)
    tokens = sum(map(count_tokens, texts))
    return EmbeddingList(
        data=[
            Embedding(index=index, embedding=_encode(vector, body.encoding_format))
            for index, vector in enumerate(vectors)
        ],
        model=body.model,
        usage=Usage(prompt_tokens=tokens, total_tokens=tokens),
    )


def _models(request: Request) -> EmbeddingModels:
    models: EmbeddingModels = request.app.state.embedding_models
    return models


def _embed(embedder: Embedder, texts: Sequence[str]) -> list[Matrix]:
    import numpy as np

    vectors = []
    for text, rows in zip(texts, embedder.embed_documents(texts), strict=True):
        windows = rows[: len(rows) - len(list_items(text))]
        if not len(windows):
            raise MemwellError(
                f"input {text[:40]!r} has no vector: it is blank, or the model cannot read it",
                "Leave it out",
            )
        mean = windows.mean(axis=0)
        vectors.append(mean / (np.linalg.norm(mean) or 1))
    return vectors


def _encode(vector: Matrix, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return [float(number) for number in vector]
