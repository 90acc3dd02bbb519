"""Names for the regions of the map: two or three words that are common in one and rare elsewhere.

A word's value in a region is the share of the region's passages that contain it, times the
logarithm of how much larger this share is than in all regions (as TF-IDF does with documents).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

from memwell.store.words.function_words import find_function_words

_WORD = re.compile(r"[^\W\d_]{3,24}")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]{2,}")
"""Scripts without spaces: pairs of their characters count as words."""
_WORDS = 3
_PAIR = 2
_RARE = 2
"""A word of fewer passages tells nothing about a region."""


def name_regions(regions: Sequence[Sequence[str]], titles: Sequence[str]) -> list[str]:
    """Return a name for each region, from the texts of its passages; else its title."""
    counted = [Counter(word for text in texts for word in _words(text)) for texts in regions]
    total = Counter(word for words in counted for word in words.elements())
    passages = sum(map(len, regions)) or 1
    spelling = _spellings(text for texts in regions for text in texts)
    names = []
    for words, texts, title in zip(counted, regions, titles, strict=True):
        size = len(texts) or 1
        values = {
            word: (count / size) * log((count / size) / (total[word] / passages))
            for word, count in words.items()
            if count >= min(_RARE, size) and count / size > total[word] / passages
        }
        best = sorted(values, key=lambda word: (-values[word], word))
        chosen = _without_variants(best)[:_WORDS]
        names.append(" · ".join(spelling.get(word, word) for word in chosen) or title)
    return names


def _words(text: str) -> set[str]:
    """Return the words of a passage that may name it, each once."""
    runs = _UNSPACED.findall(text)
    pairs = {run[at : at + _PAIR] for run in runs for at in range(len(run) - 1)}
    words = {word.casefold() for word in _WORD.findall(_UNSPACED.sub(" ", text))}
    return (pairs | words) - find_function_words(pairs | words)


def _without_variants(words: Sequence[str]) -> list[str]:
    """Drop words that share their beginning ("order", "orders"), or a character of a pair."""
    kept: list[str] = []
    for word in words:
        if not any(_is_variant(word, other) for other in kept):
            kept.append(word)
    return kept


def _is_variant(word: str, other: str) -> bool:
    if len(word) == len(other) == _PAIR:
        return not {*word}.isdisjoint(other)
    return other.startswith(word[: max(4, len(word) - 3)]) or word.startswith(other[:5])


def _spellings(texts: Iterable[str]) -> dict[str, str]:
    """Return each word as it is mostly written."""
    forms: dict[str, Counter[str]] = {}
    for text in texts:
        for word in _WORD.findall(text):
            forms.setdefault(word.casefold(), Counter())[word] += 1
    return {word: counts.most_common(1)[0][0] for word, counts in forms.items()}
