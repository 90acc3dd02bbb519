"""Fewer hits that say the same. Pure functions over the similarity of two hits, 0 to 1.

    near copies   always: a hit that is nearly a copy of another is listed with it
    mmr           order by lambda x value - (1 - lambda) x (the greatest similarity to a hit before
                  it), Carbonell and Goldstein 1998; the value of the best hit is 1
    cluster       one hit for each group of similar hits, the others listed with it

The similarity of two texts is the share of their words that they have in common, for scripts
without spaces the share of their characters. The similarity of two vectors is their cosine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from math import inf

from memwell.scripts import UNSPACED

Similarity = Callable[[int, int], float]

_WORD = re.compile(r"[^\W_]+")
_ASCII_WORDS = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
"""The ASCII characters, with a space for each that separates words."""


@cache
def _unspaced() -> re.Pattern[str]:
    """Compiled when it is first needed, which takes a millisecond or two."""
    return re.compile(f"[{UNSPACED}]")


def mmr(
    values: Sequence[float],
    alike: Similarity,
    k: int,
    balance: float = 0.7,
) -> list[tuple[int, float]]:
    """Return the indexes of the `k` best in order, each with its worth: the formula above."""
    nearest, compared = [0.0] * len(values), [0] * len(values)
    left, chosen = [*range(len(values))], list[tuple[int, float]]()

    def worth(at: int) -> float:
        return balance * values[at] - (1 - balance) * nearest[at]

    while left and len(chosen) < k:
        best, greatest = left[0], -inf
        for at in left:
            # A comparison can only lower the worth, so most hits need few of them.
            while compared[at] < len(chosen) and worth(at) > greatest:
                nearest[at] = max(nearest[at], alike(at, chosen[compared[at]][0]))
                compared[at] += 1
            if worth(at) > greatest:
                best, greatest = at, worth(at)
        chosen.append((best, greatest))
        left.remove(best)
    return chosen


def cluster(count: int, alike: Similarity, k: int, near: float) -> list[list[int]]:
    """Return the first `k` groups of similar hits, each with its best hit, the leader, first.

    Two leaders are less similar than `near`. A hit that is similar to several leaders joins the
    best of them.
    """
    groups: list[list[int]] = []
    for at in range(count):
        nearest = next((group for group in groups if alike(group[0], at) >= near), None)
        if nearest is not None:
            nearest.append(at)
        elif len(groups) < k:
            groups.append([at])
    return groups


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of two sets of words that is in both, 0 to 1."""
    shared = len(one & other)
    together = len(one) + len(other) - shared
    return shared / together if together else 0.0


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, and the characters of scripts without spaces."""
    text = text.casefold()
    if text.isascii():
        return frozenset(text.translate(_ASCII_WORDS).split())  # the same result, faster
    spaced = _unspaced().sub(" ", text)
    return frozenset(_unspaced().findall(text)) | frozenset(_WORD.findall(spaced))
