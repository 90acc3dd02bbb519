"""The legs' scores of a passage become its relevance, between 0 and 1. A pure function.

    relevance = 1 / (1 + e^-x), x the greatest of

        0.31 c + 2.7 b - 3.8        both legs together
        0.48 c - 3.15               vector search alone
        5 b - 4                     a passage with nearly all words is relevant at any cosine
        3.7 b - 1.8                 keyword search alone, for a passage without a cosine

    c   how many deviations its cosine lies above the cosine of a question and an unrelated passage
        (embed/unrelated_baseline.py)
    b   its BM25 over that of a passage of average length with every word of the query once

Both scales mean the same for every query, model and corpus, and so does relevance. The greatest,
so that a low score of one leg never lowers the relevance. Logistic regression on first hits that
are known to answer or not: docs/ranking.md.
"""

from __future__ import annotations

from math import exp

BOTH = (0.31, 2.7, -3.8)
MEANING_ALONE = (0.48, -3.15)
NEARLY_ALL_WORDS = (5.0, -4.0)
WORDS_ALONE = (3.7, -1.8)
_LIMIT = 500.0


def relevance(cosine_z: float | None, coverage: float | None) -> float:
    """Return the probability that a passage answers; None if a leg has no score for it."""
    if cosine_z is None:
        x = -_LIMIT if coverage is None else WORDS_ALONE[0] * coverage + WORDS_ALONE[1]
    else:
        x = MEANING_ALONE[0] * cosine_z + MEANING_ALONE[1]
        if coverage is not None:
            both = BOTH[0] * cosine_z + BOTH[1] * coverage + BOTH[2]
            x = max(x, both, NEARLY_ALL_WORDS[0] * coverage + NEARLY_ALL_WORDS[1])
    return 1.0 / (1.0 + exp(min(_LIMIT, max(-_LIMIT, -x))))
