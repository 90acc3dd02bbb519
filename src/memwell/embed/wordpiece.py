"""WordPiece tokenizers: from a text to the numbers that a model was trained on.

They return the same tokens as the package `tokenizers` (a test compares them), without its 41 MB.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import groupby

_LONGEST_WORD = 100
_CACHED_WORDS = 50_000
_ASCII_SYMBOLS = "!-/:-@\\[-`{-~"
_ASCII_WORD = re.compile(f"[^\\s{_ASCII_SYMBOLS}]+|[{_ASCII_SYMBOLS}]+")
_ASCII_CONTROLS = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}


class WordPiece:
    """A vocabulary, and how a text is split into the words that are cut into its tokens."""

    def __init__(self, file: str, split: Callable[[str], list[str]]) -> None:
        """Read the vocabulary from a file of the package when it is first needed."""
        self._file = file
        self.split = split
        self.cut = lru_cache(maxsize=_CACHED_WORDS)(self._cut)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """The number of each token; a token inside a word begins with ``##``."""
        text = files("memwell.embed").joinpath("data", self._file).read_text(encoding="utf-8")
        tokens = text.rstrip("\n").split("\n")
        return dict(zip(tokens, range(len(tokens)), strict=True))

    @cached_property
    def unknown(self) -> int:
        """The token of a word that cannot be cut into known tokens."""
        return self.vocabulary["[UNK]"]

    @cached_property
    def marks(self) -> tuple[int, int]:
        """The tokens before and after a text."""
        return self.vocabulary["[CLS]"], self.vocabulary["[SEP]"]

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without the marks for its beginning and its end."""
        return [number for word in self.split(text) for number in self.cut(word)]

    def _cut(self, word: str) -> tuple[int, ...]:
        """Cut a word into tokens: from its beginning on, always the longest that is known."""
        if len(word) > _LONGEST_WORD:
            return (self.unknown,)
        known = self.vocabulary
        tokens: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = known.get(prefix + word[start:end])
                if number is not None:
                    tokens.append(number)
                    start = end
                    break
            else:
                return (self.unknown,)
        return tuple(tokens)


def split_uncased(text: str) -> list[str]:
    """Lower-case, drop accents, and separate each punctuation mark and CJK character."""
    if text.isascii():
        return text.lower().translate(_ascii_table()).split()
    cleaned = "".join(map(_clean, text))
    stripped = unicodedata.normalize("NFD", cleaned.lower())
    return "".join(map(_split_punctuation, stripped)).split()


def split_multilingual(text: str) -> list[str]:
    """Lower-case, keep accents, and separate runs of punctuation and each CJK character."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower().translate(_ASCII_CONTROLS))
    cleaned = "".join(map(_clean_lower, unicodedata.normalize("NFKC", text)))
    return [part for word in cleaned.split() for part in _split_runs(word)]


def _split_runs(word: str) -> Iterator[str]:
    if word.isalnum():
        yield word
    else:
        for _, run in groupby(word, _is_punctuation):
            yield "".join(run)


@cache
def _ascii_table() -> dict[int, str]:
    return {code: _split_punctuation(_clean(chr(code))) for code in range(128)}


@lru_cache(maxsize=20_000)
def _clean(character: str) -> str:
    """Drop control characters, replace every space by a plain one, separate CJK characters."""
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if character in "\0\ufffd" or unicodedata.category(character).startswith("C"):
        return ""
    return f" {character} " if _is_cjk(ord(character)) else character


@lru_cache(maxsize=20_000)
def _clean_lower(character: str) -> str:
    """Clean and lower-case one character, whatever stands beside it."""
    return _clean(character).lower()


@lru_cache(maxsize=20_000)
def _split_punctuation(character: str) -> str:
    """Drop accents and separate punctuation."""
    if len(character) != 1:
        return character
    if unicodedata.category(character) == "Mn":
        return ""
    return f" {character} " if _is_punctuation(character) else character


@lru_cache(maxsize=20_000)
def _is_punctuation(character: str) -> bool:
    code = ord(character)
    symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return symbol or unicodedata.category(character).startswith("P")


def _is_cjk(code: int) -> bool:
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


UNCASED = WordPiece("vocab.txt", split_uncased)
"""BERT's tokenizer, which MiniLM uses."""
MULTILINGUAL = WordPiece("vocabulary.txt", split_multilingual)
"""That of memwell's own model."""
