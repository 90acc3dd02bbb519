"""What counts as a word, for the index and for queries alike.

SQLite's own tokenizer does most of it (``TOKENIZER``: English stems, folded case and
diacritics, combining marks kept inside their word). Two things it cannot do are done here,
on the text before FTS5 sees it, so that the index stays readable from any SQLite:

- scripts written without spaces become overlapping pairs of characters: 会议室 -> 会议 议室;
- identifiers are indexed by their parts as well: ``rankToScore`` -> rank to score.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from memwell.scripts import ALPHABETIC, IDEOGRAPHIC

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""How FTS5 splits text. Mn and Mc keep Hindi, Thai and vowelled Arabic in one piece."""

WORDS_VERSION = 1
"""Raised whenever the functions below give other output; an older index is then rebuilt."""

_UNSPACED = re.compile(f"[{IDEOGRAPHIC}]+|[{ALPHABETIC}]+")
_ALPHABETIC_RUN = re.compile(f"[{ALPHABETIC}]")

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
# Written so that the engine skips to the rare letters: these two run over all text there is.
_FROM_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?=[A-Z][a-z]{2}))[A-Za-z0-9]*")
_VERSION = re.compile(r"[vV](?<![A-Za-z0-9][vV])(\d+(?:\.\d+)+)")


def normalise(text: str) -> str:
    """Return `text` in NFKC, so that full-width and composed letters equal their plain forms."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def indexed_text(text: str) -> str:
    """Return what FTS5 indexes for `text`: unspaced scripts as pairs, all else as it is."""
    text = normalise(text)
    return text if text.isascii() else _UNSPACED.sub(_bigram_text, text)


def indexed_parts(text: str) -> str:
    """Return the extra words `text` is found by.

    The humps of camel-case identifiers, version numbers without their "v", and the last
    character of each unspaced run (as the start of no pair it could not be searched alone).
    """
    text = normalise(text)
    parts = [" ".join(camel_parts(word)) for word in _camel_words(text)]
    parts += _VERSION.findall(text)
    if not text.isascii():
        parts += [run[-1] for run in _UNSPACED.findall(text) if len(run) > 1]
    return "\n".join(parts)


def _camel_words(text: str) -> Iterator[str]:
    for match in _FROM_HUMP.finditer(text):
        start = match.start()
        while start and text[start - 1].isalnum():
            start -= 1
        yield text[start : match.end()]


def camel_parts(word: str) -> list[str]:
    """Split ``bm25RankToScore`` into bm25, Rank, To, Score."""
    return _HUMP.split(word)


def runs_without_spaces(text: str) -> list[str]:
    """Return the stretches of `text` that are written without spaces between words."""
    return [] if text.isascii() else _UNSPACED.findall(normalise(text))


def is_alphabetic(run: str) -> bool:
    """Whether an unspaced run is of letters (Thai, Khmer), where one pair says little."""
    return _ALPHABETIC_RUN.match(run) is not None


def bigrams(run: str) -> list[str]:
    """Return the overlapping pairs of characters of an unspaced run."""
    return [a + b for a, b in pairwise(run)] or [run]


def _bigram_text(match: re.Match[str]) -> str:
    return f" {' '.join(bigrams(match.group()))} "
