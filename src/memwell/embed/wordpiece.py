"""BERT's uncased WordPiece: text to the numbers a model was trained on.

The same pieces as the `tokenizers` package gives (a test compares them), without its 41 MB.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from importlib.resources import files

UNKNOWN, BEGIN, END = 100, 101, 102
_LONGEST_WORD = 100


@cache
def vocabulary() -> dict[str, int]:
    """Return the number of each piece; those inside a word begin with ``##``."""
    lines = files("memwell.embed").joinpath("data/vocab.txt").read_text(encoding="utf-8")
    return {piece: number for number, piece in enumerate(lines.splitlines())}


def encode(text: str) -> list[int]:
    """Return the pieces of a text, without the marks for its beginning and end."""
    return [number for word in _words(text) for number in _pieces(word)]


def _words(text: str) -> list[str]:
    """Lower-case, drop accents, and set punctuation and CJK characters apart."""
    if text.isascii():
        return text.lower().translate(_ascii_table()).split()
    cleaned = "".join(_clean(character) for character in text)
    stripped = unicodedata.normalize("NFD", cleaned.lower())
    return "".join(_split_punctuation(character) for character in stripped).split()


@cache
def _ascii_table() -> dict[int, str]:
    return {code: _split_punctuation(_clean(chr(code))) for code in range(128)}


@lru_cache(maxsize=20_000)
def _clean(character: str) -> str:
    """Drop control characters, make every space a plain one, set CJK apart."""
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if character in "\0\ufffd" or unicodedata.category(character).startswith("C"):
        return ""
    return f" {character} " if _is_cjk(ord(character)) else character


@lru_cache(maxsize=20_000)
def _split_punctuation(character: str) -> str:
    """Drop accents and set punctuation apart."""
    if len(character) != 1:
        return character
    category = unicodedata.category(character)
    if category == "Mn":
        return ""
    code = ord(character)
    symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return f" {character} " if symbol or category.startswith("P") else character


def _is_cjk(code: int) -> bool:
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


@lru_cache(maxsize=50_000)
def _pieces(word: str) -> tuple[int, ...]:
    """Cut a word into the longest pieces there are, from its beginning on."""
    if len(word) > _LONGEST_WORD:
        return (UNKNOWN,)
    known = vocabulary()
    found: list[int] = []
    start = 0
    while start < len(word):
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            number = known.get(mark + word[start:end])
            if number is not None:
                found.append(number)
                start = end
                break
        else:
            return (UNKNOWN,)
    return tuple(found)
