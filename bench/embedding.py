"""How fast the default model embeds, against MiniLM here and by sentence-transformers.

The passages are those that `memwell index` makes of a folder of notes. Every way reads all of a
passage, but for sentence-transformers, which cuts it after 256 tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from tests.support.local_models import sentence_transformers_folder

from bench import data
from bench.measure import seconds
from bench.results import Row, at_least
from memwell.embed.base import Embedder
from memwell.embed.minilm import MiniLM
from memwell.embed.multilingual import Multilingual
from memwell.ingest.chunk_settings import ChunkSettings

_PASSAGES = 400
_ROUNDS = 3


def run() -> list[Row]:
    """Embed passages of `til` in every way, by turns."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise data.MissingData("sentence-transformers is not installed (make torch)") from None
    texts = _texts()
    own, minilm = Multilingual(), MiniLM()
    with tempfile.TemporaryDirectory() as folder:
        other = SentenceTransformer(
            str(sentence_transformers_folder(Path(folder))), local_files_only=True, device="cpu"
        )
        ways: dict[str, Callable[[Sequence[str]], object]] = {
            "memwell": lambda some: _by_two(own, some),
            "minilm": lambda some: _by_two(minilm, some),
            "sentence-transformers": lambda some: other.encode(
                [*some], batch_size=32, normalize_embeddings=True, show_progress_bar=False
            ),
        }
        rounds = [
            {name: len(texts) / seconds(partial(way, texts)) for name, way in ways.items()}
            for _ in range(_ROUNDS)
        ]
    speeds = {name: median(taken[name] for taken in rounds) for name in ways}
    detail = {name: [taken[name] for taken in rounds] for name in ways}
    return [
        Row(
            "embedding, memwell / minilm",
            speeds["memwell"] / speeds["minilm"],
            "times",
            at_least(4),
            detail,
        ),
        Row(
            "embedding, memwell / sentence-transformers",
            speeds["memwell"] / speeds["sentence-transformers"],
            "times",
            at_least(2),
        ),
        *(Row(f"  {name}", speed, "1/s") for name, speed in speeds.items()),
    ]


def _texts() -> list[str]:
    """Return passages of all lengths, spread over the notes."""
    notes = data.notes(data.workspace("til"), ChunkSettings())
    texts = [part.text for _, note in notes for part in note.chunks]
    return texts[:: len(texts) // _PASSAGES][:_PASSAGES]


def _by_two(model: Embedder, texts: Sequence[str]) -> None:
    """Embed as `memwell index` does: as many callers as the model takes."""
    callers = model.limits.parallel
    parts = [texts[start::callers] for start in range(callers)]
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(model.embed_documents, parts))
