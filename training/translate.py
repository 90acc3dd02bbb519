"""Translate everyday English sentences: languages without large free collections get some.

``python -m training.translate --text TEXT --sets SETS --packages PACKAGES --out packed`` writes
`synthetic.txt.xz`. Apertium (Debian packages `apertium-eng-spa`, `apertium-fr-es`,
`apertium-es-pt`, `apertium-eng-cat` and `apertium-cat-ita`) translates into Spanish and Catalan,
and from these into French, Portuguese and Italian. It does not know Russian and Korean: there it
analyses the English, and `training.russian` and `training.korean` translate. All these sentences
have faults, but each word stands in them as it does in real ones. Russian needs the packages
pymorphy3, pymorphy3-dicts-ru and dawg2-python of PyPI, unpacked under `pymorphy3`, and the
dictionaries of `training.dictionaries`, which comes before this step.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from training import korean, russian
from training.english_clauses import Word, read_units
from training.lines import SYNTHETIC, read_lines, sentences, write_lines
from training.pack import read_zstandard

STEPS = {
    "es": ("eng-spa",),
    "fr": ("eng-spa", "es-fr"),
    "pt": ("eng-spa", "es-pt"),
    "it": ("eng-cat", "cat-ita"),
}
"""The translators of each language, one after the other."""
_LINES = 1000
"""Sentences that Apertium gets at once. If it returns another number of lines, all are left out."""
_WORDS, _CHARACTERS = (3, 25), 200
_STRANGE = re.compile(r"[^\x00-\x7f]|[_<{]")
_ANALYSIS = Path("/usr/share/apertium/apertium-eng-spa")
_MARKED = re.compile(r"[][^$/\\@>}]")
"""What stands for something else in Apertium's analysis."""
_VARIANTS = 2
"""Translations of a sentence by rules: with other words of the same meaning, or other endings."""
_SPEAKER = re.compile(r"^\w+ ?\w*: ")
_TURN = re.compile(r"(User|Assistant): ")
_NOT_A_LETTER = re.compile(r"\W+")


@dataclass(frozen=True)
class Source:
    """One shard of the text, and how many of its sentences are translated."""

    kind: str
    shard: str
    field: str
    most: int
    shortest: int = _WORDS[0]
    dialogue: bool = False


SOURCES = (
    Source("parallel", "tatoeba", "en", 70_000, shortest=2),
    Source("mono", "dialogues_en", "t", 40_000, dialogue=True),
    Source("mono", "questions_en", "t", 30_000),
    Source("mono", "gutenberg_nltk", "t", 25_000),
    Source("parallel", "wesnoth", "en", 8000),
    Source("mono", "openstax_by", "t", 15_000, shortest=6),
)


def choose_sentences(text: Path, sets: Path, chance: random.Random) -> list[str]:
    """Return some sentences of each source, without those of the labelled sets."""
    seen = {
        _letters(line["en"])
        for file in sorted((sets / "tatoeba-test").glob("*.zst"))
        for line in read_zstandard(file)
    }
    chosen = []
    for source in SOURCES:
        found = sorted(set(_read_sentences(text, source)))
        chance.shuffle(found)
        kept = []
        for sentence in found:
            letters = _letters(sentence)
            if letters not in seen and _is_plain(sentence, source.shortest):
                seen.add(letters)
                kept.append(sentence)
        chosen += kept[: source.most]
    return chosen


def _read_sentences(text: Path, source: Source) -> Iterator[str]:
    for line in read_zstandard(text / source.kind / f"{source.shard}.jsonl.zst"):
        if source.kind == "parallel":
            yield " ".join(line[source.field].split())
        elif line["l"] == "en":
            whole = _TURN.sub("\n", line["t"]) if source.dialogue else line["t"]
            for sentence in sentences(whole):
                yield " ".join(_SPEAKER.sub("", sentence.strip()).split())


def _letters(sentence: str) -> str:
    return _NOT_A_LETTER.sub("", sentence.lower())


def _is_plain(sentence: str, shortest: int) -> bool:
    words = sentence.count(" ") + 1
    return (
        shortest <= words <= _WORDS[1]
        and len(sentence) <= _CHARACTERS
        and not _STRANGE.search(sentence)
    )


def translate(texts: list[str], pair: str) -> list[str]:
    """Return the translations of texts by a pair of Apertium; nothing where it lost a line."""
    with ThreadPoolExecutor() as pool:
        parts = [texts[at : at + _LINES] for at in range(0, len(texts), _LINES)]
        translated = pool.map(lambda part: _translate(part, pair), parts)
        return [line for lines in translated for line in lines]


def _translate(texts: list[str], pair: str) -> list[str]:
    command = ["apertium", "-u", "-f", "line", pair]
    done = subprocess.run(
        command, input="\n".join(texts) + "\n", capture_output=True, text=True, check=False
    )
    lines = [" ".join(line.split()) for line in done.stdout.split("\n")[:-1]]
    return lines if len(lines) == len(texts) else [""] * len(texts)


def analyse(texts: list[str]) -> list[str]:
    """Return Apertium's analysis of texts; nothing where a text has signs of its own."""
    plain = ["." if _MARKED.search(text) else text for text in texts]
    found = "\n".join(plain) + "\n"
    for command in (
        ["lt-proc", "-w", str(_ANALYSIS / "eng-spa.automorf.bin")],
        ["apertium-tagger", "-g", str(_ANALYSIS / "eng-spa.prob")],
    ):
        done = subprocess.run(command, input=found, capture_output=True, text=True, check=True)
        found = done.stdout
    return found.split("\n")[: len(texts)]


def translate_by_rules(
    texts: list[str], analysis: list[str], translator: Callable[[Sequence[Word]], str]
) -> Iterator[tuple[str, str]]:
    """Yield texts with a few translations each; with none if too few words are known."""
    for text, line in zip(texts, analysis, strict=True):
        units = read_units(line)
        found = dict.fromkeys(translator(units) for _ in range(_VARIANTS))
        yield from ((text, translation) for translation in found if translation)


def read_russian(packages: Path, dictionaries: Path) -> russian.Translator:
    """Return the translator into Russian."""
    sys.path.insert(0, str(packages / "pymorphy3"))
    from pymorphy3 import MorphAnalyzer

    lexicon = russian.Lexicon.read(MorphAnalyzer(), read_lines(dictionaries))
    return russian.Translator(lexicon, random.Random(1))


def main() -> None:
    """Write all translations as lines of parallel text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the packed text")
    arguments = parser.parse_args()
    chance = random.Random(1)
    english = choose_sentences(arguments.text, arguments.sets, chance)
    found: dict[tuple[str, ...], list[str]] = {(): english}
    for pairs in STEPS.values():
        for number in range(1, len(pairs) + 1):
            if pairs[:number] not in found:
                found[pairs[:number]] = translate(found[pairs[: number - 1]], pairs[number - 1])
    translations = {
        language: zip(english, found[pairs], strict=True) for language, pairs in STEPS.items()
    }
    analysis = analyse(english)
    into_russian = read_russian(arguments.packages, arguments.out / "dictionaries.txt.xz")
    into_korean = korean.Translator(random.Random(1))
    translations["ru"] = translate_by_rules(english, analysis, into_russian.translate)
    translations["ko"] = translate_by_rules(english, analysis, into_korean.translate)
    lines = [
        (SYNTHETIC, language, text, translation)
        for language, pairs in translations.items()
        for text, translation in pairs
        if translation
    ]
    write_lines(arguments.out / f"{SYNTHETIC}.txt.xz", lines)
    print(f"{SYNTHETIC}: {len(lines)} lines")


if __name__ == "__main__":
    main()
