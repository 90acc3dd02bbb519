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
from dataclasses import dataclass
from itertools import pairwise

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""How FTS5 splits text. Mn and Mc keep Hindi, Thai and vowelled Arabic in one piece."""

WORDS_VERSION = 1
"""Raised whenever the functions below give other output; an older index is then rebuilt."""

# Scripts whose text has no spaces between words. Korean has them, but its particles stick to
# the noun (회의 + 를), so pairs find there what whole words miss.
_IDEOGRAPHIC = (
    "\u3005-\u3007\u3021-\u3029\u3041-\u3096\u3099-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48c\uf900-\ufaff"
    "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3\U00020000-\U0003ffff"
)
_ALPHABETIC = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u0f40-\u0fbc\u1000-\u103f\u1050-\u108f"
    "\u1780-\u17d3\u1950-\u1974\u1980-\u19c9\u1a20-\u1a7c\u1b00-\u1b4b\ua980-\ua9c0\uaa60-\uaa7f"
    "\uaa80-\uaadf"
)
_UNSPACED = re.compile(f"[{_IDEOGRAPHIC}]+|[{_ALPHABETIC}]+")
_ALPHABETIC_RUN = re.compile(f"[{_ALPHABETIC}]")

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


@dataclass(frozen=True, slots=True)
class WordRow:
    """What the keyword index is given of one chunk."""

    chunk_id: int
    text: str
    heading: str
    names: str
    path: str

    def columns(self) -> tuple[int, str, str, str, str]:
        """Return the row as FTS5 indexes it; the same again to delete it."""
        heading = "\n".join(dict.fromkeys([*self.names.split("\n"), *self.heading.split("\n")]))
        everything = f"{self.text}\n{heading}\n{self.path}"
        return (
            self.chunk_id,
            indexed_text(self.text),
            indexed_text(heading),
            indexed_text(self.path),
            indexed_parts(everything),
        )


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
