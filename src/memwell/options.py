"""What a search is asked for, from the settings and what a call says otherwise."""

from __future__ import annotations

from memwell.config import Config
from memwell.errors import MemwellError
from memwell.search.fuse import FUSIONS, Fusion
from memwell.search.pipeline import DIVERSITIES, MODES, Options


def search_options(
    settings: Config,
    *,
    k: int | None = None,
    min_score: float | None = None,
    mode: str | None = None,
    fusion: str | None = None,
    diversity: str | None = None,
    explain: bool = False,
) -> Options:
    """Return the options of a search, or say which value makes no sense."""
    options = Options(
        k=settings["search.k"] if k is None else k,
        min_score=settings["search.min_score"] if min_score is None else min_score,
        mode=mode or settings["search.mode"],
        fusion=Fusion(
            fusion or settings["search.fusion"],
            settings["search.vector_weight"],
            settings["search.text_weight"],
            settings["search.rrf_k"],
            settings["search.normaliser"],
        ),
        diversity=diversity or settings["search.diversity"],
        mmr_lambda=settings["search.mmr_lambda"],
        explain=explain,
    )
    if options.k < 1:
        raise MemwellError(f"k = {options.k} asks for no hits", "Ask for at least 1")
    if not 0 <= options.min_score <= 1:
        raise MemwellError(
            f"min_score = {options.min_score} is not a relevance", "Use a number between 0 and 1"
        )
    if options.mode not in MODES:
        raise MemwellError(f"{options.mode!r} is no mode", f"Use one of {', '.join(MODES)}")
    if options.fusion.method not in FUSIONS:
        raise MemwellError(
            f"{options.fusion.method!r} is no fusion", f"Use one of {', '.join(FUSIONS)}"
        )
    if options.diversity not in DIVERSITIES:
        raise MemwellError(
            f"{options.diversity!r} is no diversity", f"Use one of {', '.join(DIVERSITIES)}"
        )
    return options
