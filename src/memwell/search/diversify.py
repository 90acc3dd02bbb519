"""Fewer hits that say the same. Pure functions over how alike two hits are, 0 to 1.

    near copies   a hit that is nearly another's copy is listed with it, always
    mmr           hits in the order of lambda x value - (1 - lambda) x (how like the one most alike
                  of those before it), Carbonell and Goldstein 1998; the value of the best is 1
    cluster       one hit for each group of hits that are alike, the others listed with it

Texts are as alike as the share of their words that they have in common, of scripts without spaces
their characters; vectors as their cosine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Similarity = Callable[[int, int], float]

_WORD = re.compile(r"[^\W_]+")
_ASCII_SEPARATORS = {code: " " for code in range(128) if not chr(code).isalnum()}
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)


def mmr(
    values: Sequence[float],
    alike: Similarity,
    k: int,
    balance: float = 0.7,
    least: float | None = None,
) -> list[tuple[int, float]]:
    """Return which `k` to show, in order, each with its worth; stop early below `least`."""
    nearest = [0.0] * len(values)
    left, chosen = [*range(len(values))], list[tuple[int, float]]()
    while left and len(chosen) < k:
        worth = {at: balance * values[at] - (1 - balance) * nearest[at] for at in left}
        best = max(left, key=lambda at: (worth[at], -at))
        if least is not None and worth[best] < least:
            break
        chosen.append((best, worth[best]))
        left.remove(best)
        for at in left:
            nearest[at] = max(nearest[at], alike(at, best))
    return chosen


def cluster(count: int, alike: Similarity, k: int, near: float) -> list[list[int]]:
    """Return groups of hits, each led by its best; no two leaders are as alike as `near`.

    The first `k` groups; what is like several leaders goes with the best of them.
    """
    groups: list[list[int]] = []
    for at in range(count):
        home = next((group for group in groups if alike(group[0], at) >= near), None)
        if home is not None:
            home.append(at)
        elif len(groups) < k:
            groups.append([at])
    return groups


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how much of what two texts hold they have in common, 0 to 1."""
    shared = len(one & other)
    together = len(one) + len(other) - shared
    return shared / together if together else 0.0


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, and the characters of scripts without spaces."""
    text = text.casefold()
    if text.isascii():
        return frozenset(text.translate(_ASCII_SEPARATORS).split())  # the same, faster
    return frozenset(_UNSPACED.findall(text)) | frozenset(_WORD.findall(_UNSPACED.sub(" ", text)))
