"""Add English to the training text that has the words of science, which the other text lacks.

``python -m training.english --packages FOLDER --out FOLDER``. The folder holds the files of the
Debian package `dict-gcide` and of the documentation of scientific programs, each package unpacked
by ``dpkg-deb -x`` under `science`. The dictionaries must be in the packed text already.

- **Definitions** of the GNU Collaborative International Dictionary of English.
- **Prose** from HTML and PDF files of the documentation: paragraphs, no code and no tables.
- **Terms**: the English sides of all dictionaries, in random order, many to a line. It is no
  language, but it shows what the teachers make of half a million terms.
"""

from __future__ import annotations

import argparse
import gzip
import html
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from training.lines import read_lines, write_lines

TERMS = 60
"""Terms of one line."""
LARGEST = 2_000_000
"""Characters of one package: some repeat themselves for many megabytes."""
_LONGEST = 2000
_HEADWORD = re.compile(r"^(\S[^\\\n]*?)\s*\\", re.MULTILINE)
_NOISE = re.compile(
    r"\[[^\]]*\]|--[A-Z][\w. ]*(?=\n|$)|\([A-Z][\w. ]*\.\)|^\s*\d+\.\s", re.MULTILINE
)
_NO_PROSE = re.compile(r"<(script|style|pre|table|nav|head)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_PARAGRAPH = re.compile(r"</?(?:p|li|dd|dt|div|h\d|br|section|ul|ol|td)\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_HYPHEN = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_FUNCTION_WORDS = {*re.findall(r"\w+", "the of a an is are and to in that for with by it be as")}


def read_definitions(folder: Path) -> Iterator[str]:
    """Yield the definitions of each headword, after the headword."""
    text = gzip.decompress((folder / "gcide.dict.dz").read_bytes()).decode(errors="ignore")
    starts = list(_HEADWORD.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    for match, end in zip(starts, ends, strict=True):
        entry = text[match.end() : end].partition("\n")[2]
        senses = [
            " ".join(_NOISE.sub(" ", part).replace("{", "").replace("}", "").split())
            for part in re.split(r"\n\s*\n", entry)
        ]
        said = " ".join(sense for sense in senses if len(sense.split()) > 2)
        if said:
            yield f"{match[1]}: {said}"[:_LONGEST]


def is_prose(text: str) -> bool:
    """Return whether a paragraph is English sentences rather than code or a table."""
    words = text.lower().split()
    letters = sum(character.isalpha() or character == " " for character in text)
    return (
        len(words) >= 8
        and letters > 0.88 * len(text)
        and len(_FUNCTION_WORDS.intersection(words)) >= 3
    )


def read_paragraphs(file: Path) -> Iterator[str]:
    """Yield the paragraphs of an HTML or PDF file."""
    if file.suffix == ".pdf":
        command = ["pdftotext", "-q", "-nopgbrk", str(file), "-"]
        text = subprocess.run(command, capture_output=True, check=False).stdout.decode()
        parts = re.split(r"\n\s*\n", _HYPHEN.sub("", text))
    else:
        text = _NO_PROSE.sub(" ", file.read_text(errors="ignore"))
        parts = [html.unescape(_TAG.sub("", part)) for part in _PARAGRAPH.split(text)]
    for part in parts:
        paragraph = " ".join(part.split())
        if is_prose(paragraph):
            yield paragraph[:_LONGEST]


def read_science(folder: Path) -> Iterator[str]:
    """Yield each paragraph of the documentation once, and not too many of one package."""
    seen = set()
    for package in sorted(folder.iterdir()):
        size = 0
        for file in sorted(package.rglob("*.*")):
            readable = file.suffix in (".html", ".htm", ".pdf") and file.is_file()
            if size > LARGEST or not readable:
                continue
            for paragraph in read_paragraphs(file):
                if paragraph not in seen:
                    seen.add(paragraph)
                    size += len(paragraph)
                    yield paragraph


def join_terms(terms: list[str], chance: random.Random) -> Iterator[str]:
    """Yield terms in random order, many to a line."""
    chance.shuffle(terms)
    for at in range(0, len(terms), TERMS):
        yield "; ".join(terms[at : at + TERMS])


def main() -> None:
    """Write all lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    dictionaries = read_lines(arguments.out / "dictionaries.txt.xz")
    terms = {part.strip(): None for line in dictionaries for part in line[2].split(", ")}
    found = {
        "definitions": read_definitions(arguments.packages / "usr/share/dictd"),
        "science": read_science(arguments.packages / "science"),
        "terms": join_terms([term for term in terms if term], random.Random(1)),
    }
    lines = []
    for shard, texts in found.items():
        some = [(shard, "en", text.replace("\x00", " ").replace("\x01", " ")) for text in texts]
        print(f"{shard}: {len(some)} lines, {sum(len(text) for *_, text in some)} characters")
        lines += some
    write_lines(arguments.out / "english.txt.xz", lines)


if __name__ == "__main__":
    main()
