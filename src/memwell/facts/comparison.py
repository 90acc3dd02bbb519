"""Whether two texts are the same fact. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from itertools import takewhile

_NOT_LETTERS = re.compile(r"[\W_]+")
_ARTICLES = frozenset({"a", "an", "the"})
_SHORTEST_STEM = 4
"""Shorter words are often different ones with an ending: "new" and "news"."""
_ENDINGS = frozenset(
    map(frozenset, ({"", "s"}, {"", "es"}, {"", "ed"}, {"", "ing"}, {"s", "ed"}, {"s", "ing"}))
) | frozenset(map(frozenset, ({"ed", "ing"}, {"e", "ing"}, {"es", "ing"}, {"y", "ies"})))
_ENDINGS_AFTER_E = frozenset(map(frozenset, ({"", "d"}, {"s", "d"})))


def normalised(text: str) -> str:
    """Return the words of a text in lower case, without punctuation: equal texts are one fact."""
    return _NOT_LETTERS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts differ only in inflection, case, punctuation and articles.

    Texts with nearly equal vectors may differ in a weekday, a side, a name or a number. Such a word
    makes it another fact.
    """
    first, second = _words(one), _words(other)
    return len(first) == len(second) and all(map(_is_same_word, first, second))


def _words(text: str) -> list[str]:
    words = _NOT_LETTERS.sub(" ", unicodedata.normalize("NFKC", text)).split()
    return [word for word in words if word.casefold() not in _ARTICLES]


def _is_same_word(one: str, other: str) -> bool:
    """Whether two words are equal, or forms of one word. A capital may begin a name."""
    if one.casefold() == other.casefold():
        return True
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    size = sum(1 for _ in equal)
    if size < _SHORTEST_STEM or not (one.islower() and other.islower()):
        return False
    endings = frozenset((one[size:], other[size:]))
    return endings in _ENDINGS or (one[size - 1] == "e" and endings in _ENDINGS_AFTER_E)
