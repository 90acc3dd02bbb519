"""The default provider: memwell's own model, int8 ONNX, part of the package.

It reads about twenty languages, and a question in one finds notes in another (docs/model.md). A
text in a script that it was not trained on gets no vector rather than a meaningless one.
"""

from __future__ import annotations

import hashlib
import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.embed.onnx_embedder import OnnxEmbedder, open_session
from memwell.embed.requirements import require
from memwell.embed.wordpiece import MULTILINGUAL
from memwell.errors import ProviderUnavailable
from memwell.net.background import call_in_thread
from memwell.scripts import IDEOGRAPHIC

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

SHA256 = "d5886a6ed91e3c4a77b4f55b9915ce32f36b001847791f17a46df40adbb97baf"
"""The digest of data/model.onnx, which `training.export` prints."""
WINDOW = 510
"""Tokens of a window, without the two that mark its beginning and its end."""
MAX_SHREDDED = 0.6
"""If the words that are cut into tokens of hardly one letter have a larger share of a text's
letters, the model does not know the language. The share is below 0.3 in languages that it was
trained on, and 0.8 to 1 in Hebrew, Thai, Tamil, Georgian, Armenian, Kazakh and Mongolian."""
_IDEOGRAPHIC = re.compile(f"[{IDEOGRAPHIC}]")


class Multilingual(OnnxEmbedder):
    """memwell's own model on onnxruntime."""

    name = "memwell"
    model = "memwell-multilingual-3"
    dimensions = 384
    window = WINDOW
    tokenizer = MULTILINGUAL
    fingerprint = f"memwell {SHA256[:16]} {dimensions} windows of {WINDOW}"

    def __init__(self) -> None:
        require("onnxruntime", install="memwell")
        super().__init__()

    def _readable_tokens(self, text: str) -> list[int]:
        return readable_tokens(text)

    def _open(self) -> Any:
        with as_file(files("memwell.embed").joinpath("data/model.onnx")) as file:
            checked = call_in_thread(lambda: _check(file))
            try:
                return open_session(str(file))
            finally:  # a damaged file is named, also if it cannot be opened
                checked.result()

    def _pool(self, output: Matrix) -> Matrix:
        first: Matrix = output[0]
        return first


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
