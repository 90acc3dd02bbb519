"""What windows are worth against cutting texts off after the first one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from bench import data
from bench.results import Row
from memwell import config
from memwell.embed.multilingual import Multilingual
from memwell.evaluate.runner import evaluate_memory
from memwell.search.fuse import MEANING
from memwell.search.retrieve import HYBRID

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

SETS = ("locomo-session-a", "scifact")
CACHE = Path(platformdirs.user_cache_dir("memwell-bench", appauthor=False)) / "embeddings.db"


class CutOff(Multilingual):
    """The default model, reading only the first window of a text."""

    name = "cut-off"
    fingerprint = f"{Multilingual.fingerprint} first only"

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed the first window of each text."""
        return [matrix[:1] for matrix in super().embed_documents(texts)]


def run() -> list[Row]:
    """Evaluate both on long documents; vectors are kept between runs."""
    return [
        Row(f"{name}, {mode}, {provider}", _ndcg(name, mode, provider), "nDCG@10")
        for name in SETS
        for mode in (MEANING, HYBRID)
        for provider in ("memwell", "cut-off")
    ]


def _ndcg(name: str, mode: str, provider: str) -> float:
    environment = {
        "MEMWELL_CONFIG": str(CACHE.parent),
        "MEMWELL_EMBEDDING_CHAIN": provider,
        "MEMWELL_EMBEDDING_CACHE_MB": "2000",
    }
    result = evaluate_memory(
        data.labelled_set(name),
        config.load(None, environment),
        mode,
        CACHE,
        embedders={"cut-off": CutOff},
    )
    return result.overall["ndcg@10"]
