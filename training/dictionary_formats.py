"""The formats of free dictionaries: each function yields the entries of one."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

Entry = tuple[str, str, str]
"""Language, English, and the same in that language."""

ALTERNATIVES = 3
"""As many English meanings of a word are one line."""
_REMARK = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|<[^>]*>|/[^/]*/")
_SHORTHAND = {
    "jdn.": "jemanden",
    "jdm.": "jemandem",
    "jds.": "jemandes",
    "etw.": "etwas",
    "sb.": "somebody",
    "sth.": "something",
}
_GRAMMAR = re.compile(r"\s*\((?:noun|adj|adv|verb|expr|Ichidan|Godan|pre-noun|intj)")
_NUMBERED = re.compile(r"^\s*\d+\.\s*")
_TRAILING_NUMBER = re.compile(r"\s\d+\.\s*$")
_STRESS = "\u0301"
_LONGEST_MEANING = 4
"""Words of a meaning in FreeDict. What is longer is an explanation."""
_LATIN = re.compile(r"[A-Za-z]")
_PHRASE = re.compile(r"^([A-Za-z][A-Za-z' ,()-]+?) ((?:[«\"(]?[а-яёА-ЯЁ]).*)$")
_LABEL = re.compile(r"_[\w-]+\.?|\bтж\.|\bили\b(?=[^;]*\))")
_SENSE = re.compile(r"(?:^|(?<=\s))\d+[.)](?=\s)")
FREEDICT = {
    "fra": "fr",
    "spa": "es",
    "ita": "it",
    "por": "pt",
    "rus": "ru",
    "nld": "nl",
    "pol": "pl",
    "tur": "tr",
    "swe": "sv",
    "ces": "cs",
}
_CLDR = (
    "ar bg ca cs da de el es et fa fi fr he hi hu id it ja ko lt nl pl pt ro ru"
    " sk sr sv th tr uk vi zh"
)
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def clean(text: str) -> str:
    """Drop remarks in brackets, write shorthand out, and use single spaces."""
    text = _REMARK.sub(" ", text).replace(_STRESS, "")
    return " ".join(_SHORTHAND.get(word, word) for word in text.split()).strip(" ,;.")


def join_meanings(meanings: Iterable[str]) -> str:
    """Return the first few meanings as one text."""
    kept = [meaning for meaning in map(clean, meanings) if meaning]
    return ", ".join(kept[:ALTERNATIVES])


def read_german(file: Path) -> Iterator[Entry]:
    """Yield the entries of Ding: ``word; synonym | phrase :: meaning; meaning | meaning``."""
    for line in file.read_text(encoding="utf-8").splitlines():
        german, separator, english = line.partition("::")
        if not separator or line.startswith("#"):
            continue
        for left, right in zip(german.split("|"), english.split("|"), strict=False):
            meaning = join_meanings(right.split(";"))
            for word in left.split(";")[:2]:
                yield "de", meaning, clean(word)


def read_japanese(file: Path) -> Iterator[Entry]:
    """Yield the entries of EDICT: ``word;variant [reading] /(n) meaning/meaning/``."""
    for line in file.read_text(encoding="euc-jp", errors="ignore").splitlines()[1:]:
        head, _, rest = line.partition("/")
        word = clean(head.split(" ")[0].split(";")[0])
        yield "ja", join_meanings(rest.split("/")), word


def read_chinese(file: Path) -> Iterator[Entry]:
    """Yield the entries of CC-CEDICT."""
    for entry in json.loads(file.read_text(encoding="utf-8")):
        meanings = [m for m in entry["english"] if "variant of" not in m and "surname" not in m]
        yield "zh", join_meanings(meanings), entry["simplified"]


def read_freedict(folder: Path, name: str) -> Iterator[Entry]:
    """Yield the entries of a dictionary of FreeDict from or into English."""
    source, target = name.split("-")
    for word, meanings in read_dictd(folder, f"freedict-{name}"):
        if source == "eng":
            for meaning in meanings[:2]:
                yield FREEDICT[target], clean(word), clean(meaning)
        else:
            yield FREEDICT[source], join_meanings(meanings), clean(word)


def read_dictd(folder: Path, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the words of a dictionary in FreeDict's form of dictd's format, with their meanings."""
    for word, lines in _read_articles(folder, name):
        meanings = [_find_meanings(line) for line in _lines_of_meanings(lines)]
        yield word, [meaning for found in meanings for meaning in found]


def _read_articles(folder: Path, name: str) -> Iterator[tuple[str, list[str]]]:
    text = gzip.decompress((folder / f"{name}.dict.dz").read_bytes())
    for line in (folder / f"{name}.index").read_text(encoding="utf-8").splitlines():
        word, offset, length = line.split("\t")[:3]
        if word.startswith("00"):
            continue  # the dictionary's own description
        start = _number(offset)
        article = text[start : start + _number(length)].decode("utf-8", "replace")
        yield word, [line for line in article.splitlines()[1:] if line.strip()]


def _lines_of_meanings(lines: list[str]) -> list[str]:
    """Leave out explanations: they follow the first line, or a line with a number."""
    lines = [line for line in lines if not _GRAMMAR.match(line)]
    return [line for place, line in enumerate(lines) if place == 0 or _NUMBERED.match(line)]


def _find_meanings(line: str) -> list[str]:
    text = _TRAILING_NUMBER.sub("", _NUMBERED.sub("", line))
    meanings = map(clean, text.split(","))
    return [meaning for meaning in meanings if 0 < len(meaning.split()) <= _LONGEST_MEANING]


def _number(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * 64 + _DIGITS.index(digit)
    return value


def read_russian(folder: Path) -> Iterator[Entry]:
    """Yield the words and phrases of Mueller's dictionary, from English.

    An article has senses with numbers. A sense has Russian words, then English phrases, each with
    its translation.
    """
    for word, lines in _read_articles(folder, "mueller7"):
        text = clean(_LABEL.sub(" ", " ".join(lines)))
        verb = any("_v." in line for line in lines[:1])
        for number, sense in enumerate(_SENSE.split(text)):
            for part in map(str.strip, sense.split(";")):
                phrase = _PHRASE.match(part)
                if phrase:
                    yield "ru", clean(phrase[1]), clean(phrase[2])
                elif number < 4 and part and not _LATIN.search(part) and "=" not in part:
                    for meaning in part.split(",")[:3]:
                        yield "ru", f"to {word}" if verb else word, clean(meaning)


def read_names_of_symbols(folder: Path) -> Iterator[Entry]:
    """Yield what emoji and symbols are called, and the words that find them, by language."""

    def read(language: str) -> dict[str, dict[str, list[str]]]:
        text = (folder / language / "annotations.json").read_text(encoding="utf-8")
        found: dict[str, dict[str, list[str]]] = json.loads(text)["annotations"]["annotations"]
        return found

    english = read("en")
    for language in _CLDR.split():
        for symbol, names in read(language).items():
            for kind in ("tts", "default"):
                if symbol in english and kind in names and kind in english[symbol]:
                    yield language, ", ".join(english[symbol][kind]), ", ".join(names[kind])
