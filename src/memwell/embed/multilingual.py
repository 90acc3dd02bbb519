"""The default provider: memwell's own model, int8 ONNX, part of the package.

It reads about twenty languages, and a question in one finds notes in another (docs/model.md). A
text in a script that it was not trained on gets no vector rather than a meaningless one.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.embed.base import Limits
from memwell.embed.onnx_session import open_session
from memwell.embed.requirements import require
from memwell.embed.windows import windows
from memwell.embed.wordpiece import MULTILINGUAL
from memwell.errors import ProviderUnavailable
from memwell.net.background import call_in_thread
from memwell.scripts import IDEOGRAPHIC

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

SHA256 = "bb5cc713e9b52de7e2d68ef3c895811a81ce662752d1c448c32320369910d405"
"""The digest of data/model.onnx, which `training.export` prints."""
WINDOW = 510
"""Tokens of a window, without the two that mark its beginning and its end."""
MAX_SHREDDED = 0.6
"""If the words that are cut into tokens of hardly one letter have a larger share of a text's
letters, the model does not know the language. The share is below 0.3 in languages that it was
trained on, and 0.8 to 1 in Hebrew, Thai, Tamil, Georgian, Armenian, Kazakh and Mongolian."""
_IDEOGRAPHIC = re.compile(f"[{IDEOGRAPHIC}]")


class Multilingual:
    """memwell's own model on onnxruntime."""

    name = "memwell"
    remote = False
    model = "memwell-multilingual-1"
    dimensions = 384
    window = WINDOW
    # Two callers with one thread each are twice as fast as one caller with two threads.
    limits = Limits(parallel=os.cpu_count() or 1)
    fingerprint = f"memwell {SHA256[:16]} {dimensions} windows of {WINDOW}"

    def __init__(self) -> None:
        require("onnxruntime", install="memwell")
        self._opening = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        return [
            self._rows(windows(tokens, WINDOW) if tokens else [])
            for tokens in map(readable_tokens, texts)
        ]

    def embed_query(self, text: str) -> Matrix:
        """Embed the first window of a query."""
        tokens = readable_tokens(text)[:WINDOW]
        return self._rows([tokens] if tokens else [])

    def _rows(self, token_windows: Sequence[Sequence[int]]) -> Matrix:
        import numpy as np

        rows = np.zeros((len(token_windows), self.dimensions), dtype=np.float32)
        for number, window in enumerate(token_windows):
            rows[number] = self._vector(window)
        return rows

    def _vector(self, window: Sequence[int]) -> Matrix:
        """Return the vector of one window, normalised.

        Each run takes one window: padding a batch costs more than the batch saves.
        """
        import numpy as np

        begin, end = MULTILINGUAL.marks
        tokens = np.array([[begin, *window, end]], dtype=np.int64)
        with self._opening:
            session = self._session
        vector: Matrix = session.run(None, {"tokens": tokens})[0][0, 0]
        return vector / np.linalg.norm(vector)

    @cached_property
    def _session(self) -> Any:
        with as_file(files("memwell.embed").joinpath("data/model.onnx")) as file:
            checked = call_in_thread(lambda: _check(file))
            try:
                return open_session(str(file))
            finally:  # a damaged file is named, also if it cannot be opened
                checked.result()


def readable_tokens(text: str) -> list[int]:
    """Return the tokens of a text, or none if the model does not know its language."""
    words = MULTILINGUAL.split(text)
    tokens = [token for word in words for token in MULTILINGUAL.cut(word)]
    if text.isascii():
        return tokens
    spelled = [word for word in words if not _IDEOGRAPHIC.search(word)]
    letters = sum(map(len, spelled))
    shredded = sum(len(word) for word in spelled if _is_shredded(word))
    return [] if shredded > MAX_SHREDDED * letters else tokens


def _is_shredded(word: str) -> bool:
    """Return whether a word is unknown, or was cut into tokens of hardly one letter."""
    tokens = MULTILINGUAL.cut(word)
    if word.isascii() or not any(map(str.isalpha, word)):
        return False
    return MULTILINGUAL.unknown in tokens or 1 < len(tokens) > len(word) / 2


def _check(file: Path) -> None:
    """Raise `ProviderUnavailable` if the file of the model is damaged."""
    with file.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != SHA256:
            raise ProviderUnavailable(
                f"{file} is damaged: its digest is not the expected one",
                "pip install --force-reinstall memwell",
            )
