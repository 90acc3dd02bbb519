"""The passages, questions and vectors of a set, as files that need no package to be read.

`inputs` writes them with memwell; a driver reads them in the environment of its peer.
"""

from __future__ import annotations

import json
from array import array
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

DIMENSIONS = 384
_BYTES = 4 * DIMENSIONS

Vector = Any
"""bytes, a list of floats or a row of a numpy matrix, as the driver asks."""


class Text(NamedTuple):
    """A passage or a question, and the row of its vector."""

    id: str
    text: str
    row: int


class Passages:
    """A folder with one set; everything is read when it is first asked for."""

    def __init__(self, folder: Path, vectors_as: str) -> None:
        self.folder = folder
        self._vectors_as = vectors_as

    @property
    def notes(self) -> Path:
        """The same texts as Markdown files, for memwell."""
        return self.folder / "notes"

    @cached_property
    def chunks(self) -> list[Text]:
        """The passages."""
        return self._read_texts("chunks")

    @cached_property
    def questions(self) -> list[Text]:
        """The questions."""
        return self._read_texts("questions")

    @cached_property
    def chunk_vectors(self) -> Any:
        """The vectors of all passages, in their order."""
        every = self._read_vectors()
        rows = [every[chunk.row] for chunk in self.chunks]
        if self._vectors_as != "matrix":
            return [self._convert(row) for row in rows]
        import numpy as np

        return np.frombuffer(b"".join(rows), dtype=np.float32).reshape(-1, DIMENSIONS)

    @cached_property
    def all_vectors(self) -> dict[str, Vector]:
        """The vector of every text that memwell embeds, also of the items of lists."""
        texts = json.loads((self.folder / "texts.json").read_bytes())
        return dict(zip(texts, map(self._convert, self._read_vectors()), strict=True))

    def vector(self, row: int) -> Vector:
        """Return one vector."""
        with open(self.folder / "vectors.f32", "rb") as file:
            file.seek(_BYTES * row)
            return self._convert(file.read(_BYTES))

    def _read_vectors(self) -> list[bytes]:
        data = (self.folder / "vectors.f32").read_bytes()
        return [data[start : start + _BYTES] for start in range(0, len(data), _BYTES)]

    def _convert(self, row: bytes) -> Vector:
        if self._vectors_as == "bytes":
            return row
        if self._vectors_as == "lists":
            return array("f", row).tolist()
        import numpy as np

        return np.frombuffer(row, dtype=np.float32)

    def _read_texts(self, name: str) -> list[Text]:
        return [Text(*row) for row in json.loads((self.folder / f"{name}.json").read_bytes())]
