"""BERT's uncased WordPiece tokenizer: from a text to the numbers that a model was trained on.

It returns the same tokens as the package `tokenizers` (a test compares them), without its 41 MB.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from importlib.resources import files

UNKNOWN, BEGIN, END = 100, 101, 102
_LONGEST_WORD = 100


@cache
def vocabulary() -> dict[str, int]:
    """Return the number of each token; a token inside a word begins with ``##``."""
    lines = files("memwell.embed").joinpath("data/vocab.txt").read_text(encoding="utf-8")
    return {token: number for number, token in enumerate(lines.splitlines())}


def encode(text: str) -> list[int]:
    """Return the tokens of a text, without the marks for its beginning and its end."""
    return [number for word in _words(text) for number in _word_tokens(word)]


def _words(text: str) -> list[str]:
    """Lower-case, drop accents, and separate punctuation and CJK characters."""
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
    """Drop control characters, replace every space by a plain one, separate CJK characters."""
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if character in "\0\ufffd" or unicodedata.category(character).startswith("C"):
        return ""
    return f" {character} " if _is_cjk(ord(character)) else character


@lru_cache(maxsize=20_000)
def _split_punctuation(character: str) -> str:
    """Drop accents and separate punctuation."""
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
def _word_tokens(word: str) -> tuple[int, ...]:
    """Cut a word into tokens: from its beginning on, always the longest that is known."""
    if len(word) > _LONGEST_WORD:
        return (UNKNOWN,)
    known = vocabulary()
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
            return (UNKNOWN,)
    return tuple(tokens)
