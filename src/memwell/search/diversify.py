"""Fewer hits that say the same: maximal marginal relevance. A pure function.

    mmr = lambda x relevance - (1 - lambda) x (greatest similarity to a hit that was chosen before)

(Carbonell and Goldstein 1998.) The similarity of two texts is the share of their words that they
have in common, of scripts without spaces their characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)


def mmr(
    relevances: Sequence[float],
    texts: Sequence[str],
    k: int,
    balance: float = 0.7,
    least: float | None = None,
) -> list[int]:
    """Return which `k` to show, in order; stop early where the best left is below `least`."""
    words = [signs(text) for text in texts]
    nearest = [0.0] * len(texts)
    left, chosen = list(range(len(texts))), list[int]()
    while left and len(chosen) < k:
        worth = {at: balance * relevances[at] - (1 - balance) * nearest[at] for at in left}
        best = max(left, key=lambda at: (worth[at], -at))
        if least is not None and worth[best] < least:
            break
        chosen.append(best)
        left.remove(best)
        for at in left:
            nearest[at] = max(nearest[at], jaccard(words[at], words[best]))
    return chosen


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how much of what two texts hold they have in common, 0 to 1."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0


def signs(text: str) -> frozenset[str]:
    """Return the words of a text, and the characters of scripts without spaces."""
    text = text.casefold()
    return frozenset(_UNSPACED.findall(text)) | frozenset(_WORD.findall(_UNSPACED.sub(" ", text)))
