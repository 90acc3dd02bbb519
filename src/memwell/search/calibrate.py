"""From what the legs say of a passage to its relevance, between 0 and 1. A pure function.

    relevance = 1 / (1 + e^-x), x the greatest of

        0.31 c + 2.7 b - 3.8        what both legs say together
        0.48 c - 3.15               what meaning says alone
        5 b - 4                     a passage with nearly all the words is found, whatever it means
        3.7 b - 1.8                 what words say alone, where meaning says nothing of it

    c   by how many deviations its cosine lies above that of a question and a passage which has
        nothing to do with it (embed/yardstick.py)
    b   its BM25 over that of a passage of average length with every word of the query once

Both scales mean the same for every query, model and corpus, and so does relevance. The greatest,
so that no passage is the worse for what the other leg does not say of it. Logistic regression
on first hits of which it is known whether they answer: docs/ranking.md.
"""

from __future__ import annotations

from math import exp

BOTH = (0.31, 2.7, -3.8)
MEANING_ALONE = (0.48, -3.15)
NEARLY_ALL_WORDS = (5.0, -4.0)
WORDS_ALONE = (3.7, -1.8)
_FURTHEST = 500.0


def relevance(above_chance: float | None, covered: float | None) -> float:
    """Return how likely a passage answers; None is a leg that does not know it."""
    if above_chance is None:
        x = -_FURTHEST if covered is None else WORDS_ALONE[0] * covered + WORDS_ALONE[1]
    else:
        x = MEANING_ALONE[0] * above_chance + MEANING_ALONE[1]
        if covered is not None:
            both = BOTH[0] * above_chance + BOTH[1] * covered + BOTH[2]
            x = max(x, both, NEARLY_ALL_WORDS[0] * covered + NEARLY_ALL_WORDS[1])
    return 1.0 / (1.0 + exp(min(_FURTHEST, max(-_FURTHEST, -x))))
