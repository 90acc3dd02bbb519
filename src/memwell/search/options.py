"""The options of a search: from the settings, and from the arguments that override them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from memwell.config.sections import SearchSettings
from memwell.errors import MemwellError
from memwell.search.decay import Decay
from memwell.search.dedupe import DIVERSITIES, Diversity
from memwell.search.fuse import FUSIONS, Fusion
from memwell.search.pipeline import CONTEXTS, GROUPS, NO_CONTEXT, Options
from memwell.search.retrieve import MODES

MAX_HITS = 100_000


def search_options(
    settings: SearchSettings,
    *,
    k: int | None = None,
    min_score: float | None = None,
    mode: str | None = None,
    fusion: str | None = None,
    diversity: str | None = None,
    context: str | None = None,
    group: str | None = None,
    explain: bool = False,
    today: dt.date | None = None,
) -> Options:
    """Return the options of a search; raise an error for an invalid value.

    Without `today` nothing decays.
    """
    options = Options(
        k=settings.k if k is None else k,
        min_score=settings.min_score if min_score is None else min_score,
        show_weak=min_score is None,
        mode=mode or settings.mode,
        fusion=Fusion(
            fusion or settings.fusion,
            settings.vector_weight,
            settings.text_weight,
            settings.rrf_k,
            settings.normaliser,
            settings.words_weight,
        ),
        diversity=Diversity(
            diversity or settings.diversity,
            settings.mmr_lambda,
            settings.similarity,
            settings.cluster_similarity,
        ),
        multiplier=settings.candidate_multiplier,
        decay=Decay(
            settings.decay,
            today,
            settings.half_life,
            settings.decay_floor,
            settings.evergreen,
        ),
        context=context or NO_CONTEXT,
        group=group or settings.group,
        explain=explain,
    )
    if not 1 <= options.k <= MAX_HITS:
        raise MemwellError(
            f"k = {options.k} is not a valid number of hits",
            f"Use a number from 1 to {MAX_HITS:,}",
        )
    if not 0 <= options.min_score <= 1:
        raise MemwellError(
            f"min_score = {options.min_score} is not between 0 and 1",
            "Use a number between 0 and 1",
        )
    _check_choice("mode", options.mode, MODES)
    _check_choice("fusion", options.fusion.method, FUSIONS)
    _check_choice("diversity", options.diversity.method, DIVERSITIES)
    _check_choice("context", options.context, CONTEXTS)
    _check_choice("group", options.group, GROUPS)
    return options


def _check_choice(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise MemwellError(f"{value!r} is not a {what}", f"Use one of {', '.join(known)}")
