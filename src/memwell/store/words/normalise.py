"""The text that the tokenizer gets, for the index and for queries alike.

SQLite's own tokenizer does most of the work (``TOKENIZER``: English stems, folded case and
diacritics, combining marks kept inside their word). This module does two things that it cannot do,
before FTS5 gets the text, so any SQLite can read the index:

- scripts written without spaces become overlapping bigrams of characters: 会议室 -> 会议 议室;
- identifiers are indexed by their parts as well: ``rankToScore`` -> rank to score.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""How FTS5 splits text. Mn and Mc keep words of Hindi, Thai and vowelled Arabic whole."""

WORDS_VERSION = 1
"""Increased whenever the functions below give other output; memwell then rebuilds the index."""

# Scripts without spaces between words. Korean has spaces, but its particles are attached to the
# noun (회의 + 를), so bigrams find what whole words miss.
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
# Written so that the regex engine can skip to the rare letters: these two search all indexed text.
_FROM_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?=[A-Z][a-z]{2}))[A-Za-z0-9]*")
_VERSION = re.compile(r"[vV](?<![A-Za-z0-9][vV])(\d+(?:\.\d+)+)")


def normalise(text: str) -> str:
    """Return `text` in NFKC, so that full-width and composed letters equal their plain forms."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def indexed_text(text: str) -> str:
    """Return the text that FTS5 indexes: bigrams for scripts without spaces, all else unchanged."""
    text = normalise(text)
    return text if text.isascii() else _UNSPACED.sub(_bigram_text, text)


def indexed_parts(text: str) -> str:
    """Return extra words that a search for `text` may use.

    These are the parts of camel-case identifiers, version numbers without their "v", and the last
    character of each run without spaces: no bigram begins with it, so it could not be found alone.
    """
    text = normalise(text)
    parts = [" ".join(camel_parts(word)) for word in _camel_words(text)]
    parts += _VERSION.findall(text)
    if not text.isascii():
        parts += [run[-1] for run in _UNSPACED.findall(text) if len(run) > 1]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class WordRow:
    """The texts of one chunk that the keyword index contains."""

    chunk_id: int
    text: str
    heading: str
    names: str
    path: str

    def columns(self) -> tuple[int, str, str, str, str]:
        """Return the columns of the FTS5 row; deleting the row needs the same values."""
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
    """Return the parts of `text` in scripts without spaces between words."""
    return [] if text.isascii() else _UNSPACED.findall(normalise(text))


def is_alphabetic(run: str) -> bool:
    """Whether a run without spaces is in an alphabet (Thai, Khmer), where a bigram says little."""
    return _ALPHABETIC_RUN.match(run) is not None


def bigrams(run: str) -> list[str]:
    """Return the overlapping bigrams of a run without spaces; of one character, that character."""
    return [a + b for a, b in pairwise(run)] or [run]


def _bigram_text(match: re.Match[str]) -> str:
    return f" {' '.join(bigrams(match.group()))} "
