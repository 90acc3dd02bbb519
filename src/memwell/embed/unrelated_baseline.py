"""The scale of a model's cosines: the cosine of a question and an unrelated passage.

Every model has a scale of its own: 0.4 means "similar" for one model, and is the cosine of any two
texts for another. The texts in data/unrelated_texts.json are fixed and unrelated, so the baseline
depends on the model only, not on the notes. If it were measured on the notes, every passage of a
workspace about one subject would look unrelated.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memwell.embed.base import Embedder

_FILE = files("memwell.embed").joinpath("data/unrelated_texts.json")
_TEXTS: dict[str, list[str]] = json.loads(_FILE.read_bytes())
QUESTIONS, PASSAGES = _TEXTS["questions"], _TEXTS["passages"]


def unrelated_cosines(embedder: Embedder) -> tuple[float, float] | None:
    """Return mean and deviation of the cosine of a question and an unrelated passage."""
    import numpy as np

    passages = [rows[0] for rows in embedder.embed_documents(PASSAGES) if len(rows)]
    questions = [rows[0] for rows in map(embedder.embed_query, QUESTIONS) if len(rows)]
    if not passages or not questions:
        return None
    cosines = np.array(questions) @ np.array(passages).T
    mean, deviation = float(cosines.mean()), float(cosines.std())
    return (mean, deviation) if deviation > 0 else None
