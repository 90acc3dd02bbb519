"""Static models in the model2vec format: each word has a vector, and a text has their mean.

One vector covers a text of any length, and ignores the order of its words. A text without any known
word gets no vector.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.embed.base import Limits
from memwell.embed.model_files import content_fingerprint
from memwell.embed.requirements import model_folder, require
from memwell.errors import ProviderUnavailable, WrongAnswer

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

FILES = ("config.json", "model.safetensors", "tokenizer.json")
_LONGEST_HEADER = 1 << 24


class Static:
    """A model2vec model from a folder."""

    name = "static"
    remote = False
    window = 1_000_000
    # It takes one batch at a time, and a thousand texts in milliseconds.
    limits = Limits(tokens=100_000, texts=1_024, parallel=1)

    def __init__(self, model: str) -> None:
        """Take the folder of the model."""
        require("model2vec", install="memwell[static]")
        self._folder = model_folder(model, self.name)
        self.model = self._folder.resolve().name
        for file in FILES:
            if not (self._folder / file).is_file():
                raise ProviderUnavailable(
                    f"There is no model2vec model in {model}: {file} is missing",
                    f"Give the path of a folder with {', '.join(FILES)}",
                )
        self.dimensions = _columns(self._folder / "model.safetensors")
        self._using = threading.Lock()

    @cached_property
    def fingerprint(self) -> str:
        """The model's files."""
        return (
            f"static {content_fingerprint(self._folder / file for file in FILES)} {self.dimensions}"
        )

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every text as one window."""
        import numpy as np

        if not texts:
            return []
        readable = [text.encode(errors="replace").decode() for text in texts]
        # Every call sets the tokenizer's limit and resets it, so two calls must not overlap.
        with self._using:
            means = self._loaded.encode(readable, max_length=None, use_multiprocessing=False)
        rows: Matrix = means.astype(np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise WrongAnswer(f"{self.model} returned a vector that is not finite")
        return [
            row[None] / length if length else row[None][:0]
            for row, length in zip(rows, lengths, strict=True)
        ]

    def embed_query(self, text: str) -> Matrix:
        """Embed a query like a document."""
        return self.embed_documents([text])[0]

    @cached_property
    def _loaded(self) -> Any:
        from model2vec import StaticModel

        try:
            return StaticModel.from_pretrained(self._folder)
        except Exception as error:
            raise ProviderUnavailable(
                f"model2vec cannot load {self._folder}: {error}", "Download the model again"
            ) from error


def _columns(file: Path) -> int:
    """Read the length of the vectors from the header of their file."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(min(length, _LONGEST_HEADER)))
        return int(header["embeddings"]["shape"][1])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ProviderUnavailable(
            f"{file} does not hold the vectors of a model2vec model", "Download the model again"
        ) from error
