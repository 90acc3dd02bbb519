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
from functools import cache, lru_cache
from pathlib import Path

from memwell.scripts import HIRAGANA
from memwell.store.words.normalise import runs_without_spaces

_ENGLISH, _CHINESE = "en", "zh"
_LEAST = 2
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_JOINT = re.compile("['-]")
_HIRAGANA = re.compile(f"[{HIRAGANA}]+")


@cache
def read_words_by_language(file: Path) -> Mapping[str, frozenset[str]]:
    """Read a list of words: `language: words` on each line, and # for comments."""
    lines = file.read_text("utf-8").splitlines()
    entries = (line.split(":", 1) for line in lines if not line.startswith("#"))
    return {language: frozenset(words.split()) for language, words in entries}


@cache
def read_words(file: Path) -> frozenset[str]:
    """Read the words of all languages of such a list."""
    return frozenset().union(*read_words_by_language(file).values())


def _languages() -> Mapping[str, frozenset[str]]:
    return read_words_by_language(Path(__file__).with_name("function_words.txt"))


def function_words_of(language: str) -> frozenset[str]:
    """Return the function words of a language, by its two-letter code; {} if it has no list."""
    return _languages().get(language, frozenset())


def guess_language(words: Iterable[str]) -> str:
    """Return the language with the most function words among these; English if in doubt."""
    return _guess_language(frozenset(words))


@lru_cache(maxsize=64)
def _guess_language(words: frozenset[str]) -> str:
    """Remember the words of the last queries, for which several steps ask."""
    folded = {word.casefold() for word in words}
    counts = Counter({name: len(folded & known) for name, known in _languages().items()})
    best = max(counts, key=lambda name: (counts[name], name == _ENGLISH))
    return best if counts[best] >= _LEAST else _ENGLISH


def find_function_words(words: Iterable[str]) -> frozenset[str]:
    """Return those of the words of a query, as it writes them, that are function words.

    Of scripts without spaces the words are bigrams. A bigram of hiragana alone is a particle or an
    ending in most cases.
    """
    words = frozenset(words)
    known, chinese = _languages()[guess_language(words)], _languages()[_CHINESE]
    return frozenset(
        word
        for word in words
        if (folded := word.casefold()) in known or folded in chinese or _HIRAGANA.fullmatch(word)
    )


def has_other_words(text: str, ignored: frozenset[str]) -> bool:
    """Whether a text has a word besides function words and those to ignore, in lower case."""
    return count_content_words(text, ignored)[1] > 0


def count_content_words(text: str, ignored: frozenset[str]) -> tuple[int, int]:
    """Count the words besides function words, and those of them that are not to be ignored.

    In scripts without spaces every character counts. The ignored words are parts of the text, and
    so is every hiragana.
    """
    words = _WORD.findall(text.casefold().replace("’", "'"))
    grammar = find_function_words(part for word in words for part in (word, *_JOINT.split(word)))
    content = others = 0
    for word in words:
        if runs_without_spaces(word):
            content += len(_HIRAGANA.sub("", word))
            rest = len(_HIRAGANA.sub("", _unspaced_parts(ignored).sub("", word)))
            others += rest if rest > 1 else 0
        elif not _is_known(word, grammar):
            content += 1
            others += not _is_known(word, ignored | grammar)
    return content, others


def _is_known(word: str, known: frozenset[str]) -> bool:
    return word in known or all(part in known for part in _JOINT.split(word))


@cache
def _unspaced_parts(words: frozenset[str]) -> re.Pattern[str]:
    unspaced = (word for word in words if runs_without_spaces(word))
    return re.compile("|".join(sorted(map(re.escape, unspaced), key=len, reverse=True)))
