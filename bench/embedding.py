"""How fast the default model embeds, against sentence-transformers with the same weights."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
from tests.support.local_models import sentence_transformers_folder

from bench import data
from bench.measure import seconds
from bench.results import Row, at_least
from memwell.embed.minilm import WINDOW, MiniLM
from memwell.embed.wordpiece import encode

Matrix = npt.NDArray[np.float32]
_TEXTS = 300
_ROUNDS = 3


def run() -> list[Row]:
    """Embed abstracts of SciFact both ways, by turns; each text is cut to one window."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise data.MissingData("sentence-transformers is not installed (make torch)") from None
    texts = _texts()
    own = MiniLM()
    with tempfile.TemporaryDirectory() as folder:
        other = SentenceTransformer(
            str(sentence_transformers_folder(Path(folder))), local_files_only=True, device="cpu"
        )
        ways: dict[str, Callable[[Sequence[str]], Matrix]] = {
            "memwell": lambda some: _by_two(own, some),
            "sentence-transformers": lambda some: other.encode(
                [*some], batch_size=32, normalize_embeddings=True, show_progress_bar=False
            ),
        }
        difference = np.abs(_by_two(own, texts[:8]) - ways["sentence-transformers"](texts[:8]))
        rounds = [
            {name: len(texts) / seconds(partial(way, texts)) for name, way in ways.items()}
            for _ in range(_ROUNDS)
        ]
    speeds = {name: median(taken[name] for taken in rounds) for name in ways}
    detail = {name: [taken[name] for taken in rounds] for name in ways}
    return [
        Row(
            "embedding, memwell / sentence-transformers",
            speeds["memwell"] / speeds["sentence-transformers"],
            "times",
            at_least(1),
            detail,
        ),
        Row("  memwell", speeds["memwell"], "1/s"),
        Row("  sentence-transformers", speeds["sentence-transformers"], "1/s"),
        Row("  greatest difference of a number", float(difference.max()), ""),
    ]


def _texts() -> list[str]:
    """Return texts that fill a window at most, so that both do the same work."""
    documents = data.labelled_set("scifact").documents[: 2 * _TEXTS]
    texts = [f"{document.title}\n{document.text}" for document in documents]
    return [_cut(text) for text in texts][:_TEXTS]


def _cut(text: str) -> str:
    while len(encode(text)) > WINDOW:
        text = text[: len(text) * WINDOW // len(encode(text)) - 1]
    return text


def _by_two(
    model: MiniLM, texts: Sequence[str]
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Embed as a filling does: as many callers as the model takes."""
    callers = model.limits.parallel
    parts = [texts[start::callers] for start in range(callers)]
    with ThreadPoolExecutor(callers) as pool:
        found = [*pool.map(model.embed_documents, parts)]
    rows = np.zeros((len(texts), model.dimensions), dtype=np.float32)
    for start, part in enumerate(found):
        rows[start::callers] = np.concatenate(part)
    return rows
