"""Scores become relevance, between 0 and 1: about the probability that a passage answers.

    relevance of the best   1 / (1 + e^-x)      x = 0.42 c + 2.3 v - 3.15     both searches
                                                x = 0.58 c - 3.2              vector search alone
                                                x = 5.5 v - 3.4               keyword search alone
                                                x - 0.3, if no note holds a word of the query
    of every other          1 / (1 + e^-(x - slope d))

    c   how many deviations its cosine lies above the cosine of a question and an unrelated passage
        (embed/unrelated_baseline.py); among fewer than a thousand passages more, by m(1000) - m(n)
    m   sqrt(2 log n), about how far the best of n unrelated passages lies above their mean
    v   the share of the query's words that it holds, by their weight
    d   by how much its fused score is below that of the best; the slope depends on what was fused

c and v mean the same for every query, model and corpus, and so does relevance: the same cosine is
less likely to be a coincidence among twelve passages than among a thousand. Passages are in the
order of their fused scores, and so they are in the order of their relevance. The constants are
logistic regressions on labelled sets, each left out in turn: docs/ranking.md. Pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

BOTH = (0.42, 2.3, -3.15)
MEANING_ALONE = (0.58, -3.2)
WORDS_ALONE = (5.5, -3.4)
NO_WORD_KNOWN = -0.3
SLOPE_BOTH, SLOPE_MEANING, SLOPE_WORDS = 2.0, 0.58, 3.6
MANY = 1000
"""From so many passages on c does not depend on their number: the sets that the constants were
fitted on have 250 to 6,000."""
_FEW = 3
_LIMIT = 500.0


def best_of_unrelated(count: int) -> float:
    """Return m: by how many deviations the best of so many random scores exceeds their mean."""
    return sqrt(2 * log(max(count, _FEW)))


def small_corpus_gain(passages: int) -> float:
    """Return what c gains if a search compares fewer than `MANY` passages."""
    return max(0.0, best_of_unrelated(MANY) - best_of_unrelated(passages))


def logit(cosine_z: float | None, coverage: float | None, *, known: bool = True) -> float:
    """Return x of the best passage; None if a search has no score for it.

    `known`: whether any note holds a word of the query. If none does, it may be nonsense.
    """
    if not known:
        return NO_WORD_KNOWN + logit(cosine_z, coverage)
    if cosine_z is None:
        return -_LIMIT if coverage is None else WORDS_ALONE[0] * coverage + WORDS_ALONE[1]
    if coverage is None:
        return MEANING_ALONE[0] * cosine_z + MEANING_ALONE[1]
    return BOTH[0] * cosine_z + BOTH[1] * coverage + BOTH[2]


def relevance(x: float) -> float:
    """Return the probability for a logit."""
    return 1.0 / (1.0 + exp(-x)) if x > -_LIMIT else exp(-_LIMIT)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The relevance of all candidates of one query, from their fused scores."""

    x: float
    """The logit of the best candidate."""
    best: float
    """Its fused score."""
    slope: float

    def relevance(self, fused: float, gain: float = 0.0) -> float:
        """Return the relevance for a fused score, with what the logit gains."""
        return relevance(self.x - self.slope * max(0.0, self.best - fused) + gain)
