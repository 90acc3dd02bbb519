"""From what the legs say of a passage to its relevance, between 0 and 1. A pure function.

    relevance = 1 / (1 + e^-x), x the greatest of

        0.31 c + 1.8 b - 2.67       what both legs say together
        0.41 c - 2.05               what meaning says alone
        2.25 b - 2.12               what words say alone

    c   by how many deviations its cosine lies above that of two random passages of the space
    b   its BM25 over that of a passage of average length with every word of the query once

Both scales mean the same for every query, model and corpus, and so does relevance. The greatest,
so that no passage is the worse for what the other leg does not say of it. Logistic regression
on passages of which it is known whether they answer: docs/ranking.md.
"""

from __future__ import annotations

from math import exp

BOTH = (0.31, 1.8, -2.67)
MEANING_ALONE = (0.41, -2.05)
WORDS_ALONE = (2.25, -2.12)
_FURTHEST = 500.0


def relevance(above_chance: float | None, covered: float | None) -> float:
    """Return how likely a passage answers; None is a leg that does not know it."""
    said = [-_FURTHEST]
    if above_chance is not None:
        said.append(MEANING_ALONE[0] * above_chance + MEANING_ALONE[1])
    if covered is not None:
        said.append(WORDS_ALONE[0] * covered + WORDS_ALONE[1])
    if above_chance is not None and covered is not None:
        said.append(BOTH[0] * above_chance + BOTH[1] * covered + BOTH[2])
    return 1.0 / (1.0 + exp(-min(_FURTHEST, max(said))))
