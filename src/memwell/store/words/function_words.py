"""The function words of a query: words of its grammar that say nothing about its subject.

"When does my passport expire" asks about a passport that expires. In a small workspace "when" and
"does" may be rarer than "passport", so document frequencies cannot tell them apart; a list can.

A word may belong to the grammar of one language and name a thing in another ("die", "war", "car").
So the list of one language counts: the language with the most function words in the query, if it
has at least two, otherwise English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from memwell.scripts import HIRAGANA

_ENGLISH, _CHINESE = "en", "zh"
_LEAST = 2
_HIRAGANA = re.compile(f"[{HIRAGANA}]+")


@cache
def read_words_by_language(package: str, name: str) -> Mapping[str, frozenset[str]]:
    """Read a list of words beside a module: `language: words` on each line, and # for comments."""
    lines = files(package).joinpath(name).read_text("utf-8").splitlines()
    entries = (line.split(":", 1) for line in lines if not line.startswith("#"))
    return {language: frozenset(words.split()) for language, words in entries}


def _languages() -> Mapping[str, frozenset[str]]:
    return read_words_by_language("memwell.store.words", "function_words.txt")


def find_function_words(words: Iterable[str]) -> frozenset[str]:
    """Return those of the words of a query, as it writes them, that are function words.

    Of scripts without spaces the words are bigrams. A bigram of hiragana alone is a particle or an
    ending in most cases.
    """
    words = frozenset(words)
    folded = {word.casefold() for word in words}
    counts = Counter({name: len(folded & known) for name, known in _languages().items()})
    # English first: the most common language wins a tie.
    best = max(counts, key=lambda name: (counts[name], name == _ENGLISH))
    language = best if counts[best] >= _LEAST else _ENGLISH
    known = _languages()[language] | _languages()[_CHINESE]
    return frozenset(
        word for word in words if word.casefold() in known or _HIRAGANA.fullmatch(word)
    )
