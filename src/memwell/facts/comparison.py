"""Whether two texts are the same fact. Pure functions."""

from __future__ import annotations

import re
import unicodedata

_NOT_LETTERS = re.compile(r"[\W_]+")
_NEGATION = re.compile(
    "not|no|never|none|without|t|cannot|nicht|kein|keine|nie|ne|pas|jamais|sin|nunca"
)


def normalised(text: str) -> str:
    """Return the words of a text in lower case, without punctuation: equal texts are one fact."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return _NOT_LETTERS.sub(" ", plain).strip()


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts with nearly equal vectors state the same fact.

    Vectors hardly show a different number, an added "not" or another order of the words. Each of
    these makes it another fact.
    """
    first, second = (normalised(text).split() for text in (one, other))
    shared, different = {*first} & {*second}, {*first} ^ {*second}
    if any(_NEGATION.fullmatch(word) or not word.isalpha() for word in different):
        return False
    return [word for word in first if word in shared] == [word for word in second if word in shared]
