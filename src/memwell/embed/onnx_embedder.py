"""An embedding model that onnxruntime runs on this machine, one window at a time."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memwell.embed.base import Limits
from memwell.embed.windows import windows

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.embed.wordpiece import WordPiece


class OnnxEmbedder(ABC):
    """The part that all such models share; a subclass names its model and opens it."""

    remote = False
    # Two callers with one thread each are twice as fast as one caller with two threads.
    limits = Limits(parallel=os.cpu_count() or 1)
    dimensions: int
    window: int
    tokenizer: WordPiece

    def __init__(self) -> None:
        self._opening = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        return [
            self._rows(windows(tokens, self.window) if tokens else [])
            for tokens in map(self._readable_tokens, texts)
        ]

    def embed_query(self, text: str) -> Matrix:
        """Embed the first window of a query."""
        tokens = self._readable_tokens(text)[: self.window]
        return self._rows([tokens] if tokens else [])

    @abstractmethod
    def _readable_tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, or none if the model does not know its language."""

    @abstractmethod
    def _open(self) -> Any:
        """Return the session of the model."""

    @abstractmethod
    def _pool(self, output: Matrix) -> Matrix:
        """Return the vector of a window from the output of the model."""

    @cached_property
    def _session(self) -> Any:
        return self._open()

    def _rows(self, token_windows: Sequence[Sequence[int]]) -> Matrix:
        import numpy as np

        rows = np.zeros((len(token_windows), self.dimensions), dtype=np.float32)
        for number, window in enumerate(token_windows):
            rows[number] = self._vector(window)
        return rows

    def _vector(self, window: Sequence[int]) -> Matrix:
        """Return the vector of one window, normalised.

        Each run takes one window. Padding a batch to its longest window costs more than the batch
        saves, and a vector must not depend on the other texts of its batch.
        """
        import numpy as np

        begin, end = self.tokenizer.marks
        tokens = np.array([[begin, *window, end]], dtype=np.int64)
        with self._opening:
            session = self._session
        (source,) = session.get_inputs()
        vector = self._pool(session.run(None, {source.name: tokens})[0][0])
        unit: Matrix = vector / np.linalg.norm(vector)
        return unit


def open_session(model: str | bytes) -> Any:
    """Return a session that runs the graph as it is, on the thread that calls it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
