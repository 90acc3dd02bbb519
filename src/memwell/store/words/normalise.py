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
from functools import cache
from itertools import pairwise

from memwell.scripts import ALPHABETIC, IDEOGRAPHIC

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""How FTS5 splits text. Mn and Mc keep words of Hindi, Thai and vowelled Arabic whole."""

WORDS_VERSION = 1
"""Increased whenever the functions below give other output; memwell then rebuilds the index."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
# Written so that the regex engine can skip to the rare letters: these two search all indexed text.
_FROM_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?=[A-Z][a-z]{2}))[A-Za-z0-9]*")
_VERSION = re.compile(r"[vV](?<![A-Za-z0-9][vV])(\d+(?:\.\d+)+)")


@cache
def _unspaced() -> re.Pattern[str]:
    """Compiled when it is first needed, which takes a millisecond or two."""
    return re.compile(f"[{IDEOGRAPHIC}]+|[{ALPHABETIC}]+")


def normalise(text: str) -> str:
    """Return `text` in NFKC, so that full-width and composed letters equal their plain forms."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def indexed_text(text: str) -> str:
    """Return the text that FTS5 indexes: bigrams for scripts without spaces, all else unchanged."""
    text = normalise(text)
    return text if text.isascii() else _unspaced().sub(_bigram_text, text)


def indexed_parts(text: str) -> str:
    """Return extra words that a search for `text` may use.

    These are the parts of camel-case identifiers, version numbers without their "v", and the last
    character of each run without spaces: no bigram begins with it, so it could not be found alone.
    """
    text = normalise(text)
    parts = [" ".join(camel_parts(word)) for word in _camel_words(text)]
    parts += _VERSION.findall(text)
    if not text.isascii():
        parts += [run[-1] for run in _unspaced().findall(text) if len(run) > 1]
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
    return [] if text.isascii() else _unspaced().findall(normalise(text))


def is_alphabetic(run: str) -> bool:
    """Whether a run without spaces is in an alphabet (Thai, Khmer), where a bigram says little."""
    return re.match(f"[{ALPHABETIC}]", run) is not None


def bigrams(run: str) -> list[str]:
    """Return the overlapping bigrams of a run without spaces; of one character, that character."""
    return [a + b for a, b in pairwise(run)] or [run]


def _bigram_text(match: re.Match[str]) -> str:
    return f" {' '.join(bigrams(match.group()))} "
