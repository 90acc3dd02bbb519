"""Whether a prompt names a subject: something that a memory could be about.

"Yes, do it", "continue" and "commit this and push" do not. They consist of function words, of
acknowledgements and of orders about the work at hand, which order_words.txt lists by language.
"""

from __future__ import annotations

import re
from functools import cache

from memwell.scripts import HIRAGANA, IDEOGRAPHIC
from memwell.store.words.function_words import find_function_words, read_words_by_language

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_UNSPACED = re.compile(f"[{IDEOGRAPHIC}]")
_HIRAGANA = re.compile(f"[{HIRAGANA}]+")


@cache
def _order_words() -> frozenset[str]:
    return frozenset().union(*read_words_by_language("memwell.facts", "order_words.txt").values())


@cache
def _unspaced_orders() -> re.Pattern[str]:
    words = (word for word in _order_words() if _UNSPACED.search(word))
    return re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)))


def has_subject(prompt: str) -> bool:
    """Whether a prompt has a word besides those of its grammar, acknowledgements and orders."""
    words = _WORD.findall(prompt.casefold().replace("’", "'"))
    grammar = find_function_words(part for word in words for part in (word, *word.split("'")))
    return any(_is_subject(word, grammar) for word in words)


def _is_subject(word: str, grammar: frozenset[str]) -> bool:
    if _UNSPACED.search(word):
        rest = _HIRAGANA.sub("", _unspaced_orders().sub("", word))
        return len(rest) > 1
    known = _order_words() | grammar
    return word not in known and any(part not in known for part in re.split("['-]", word))
