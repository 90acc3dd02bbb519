"""The dictionaries of the training text: their formats, and meanings by way of other languages."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from training.dictionaries import agree, count_meanings, read_through
from training.dictionary_formats import clean, read_dictd, read_freedict, read_russian

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def to_digits(number: int) -> str:
    return (to_digits(number // 64) if number >= 64 else "") + DIGITS[number % 64]


def write_dictionary(folder: Path, name: str, articles: dict[str, str]) -> None:
    """Write a dictionary as dictd reads it: the articles, and where each begins."""
    text, index = b"", []
    for word, article in articles.items():
        data = f"{word}\n{article}\n".encode()
        index.append(f"{word}\t{to_digits(len(text))}\t{to_digits(len(data))}\n")
        text += data
    (folder / f"{name}.dict.dz").write_bytes(gzip.compress(text))
    (folder / f"{name}.index").write_text("".join(index), encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Hund {m} [zool.]", "Hund"),
        ("jdn. sehen", "jemanden sehen"),
        ("antibi\u0301otico /ipa/ <n, m>", "antibiotico"),
    ],
)
def test_remarks_and_stress_marks_are_dropped(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_explanations_in_freedict_are_left_out(tmp_path: Path) -> None:
    article = "1. exécution, réalisation\nEnde eines Vertrages\n2. liquidation 3.\nder Firma"
    write_dictionary(tmp_path, "freedict-deu-fra", {"Abwicklung": article})
    expected = ["exécution", "réalisation", "liquidation"]
    assert [*read_dictd(tmp_path, "freedict-deu-fra")] == [("Abwicklung", expected)]


def test_a_dictionary_from_english_and_one_into_english_give_the_same_order(tmp_path: Path) -> None:
    write_dictionary(tmp_path, "freedict-eng-fra", {"00info": "x", "dog": "chien"})
    write_dictionary(tmp_path, "freedict-fra-eng", {"chien": "dog, hound"})
    assert [*read_freedict(tmp_path, "eng-fra")] == [("fr", "dog", "chien")]
    assert [*read_freedict(tmp_path, "fra-eng")] == [("fr", "dog, hound", "chien")]


def test_mueller_has_words_and_phrases(tmp_path: Path) -> None:
    article = "   [dog]\n   1. _n.\n   1) собака, пёс; a dog's life собачья жизнь\n   2) = dogfish"
    write_dictionary(tmp_path, "mueller7", {"dog": article})
    assert [*read_russian(tmp_path)] == [
        ("ru", "dog", "собака"),
        ("ru", "dog", "пёс"),
        ("ru", "a dog's life", "собачья жизнь"),
    ]


def test_a_word_gets_the_meaning_that_most_languages_agree_on(tmp_path: Path) -> None:
    """German `Bank` is a bank or a bench, Dutch `bank` a bank or a couch: both say bank."""
    known = count_meanings([("de", "bank, bench", "Bank"), ("nl", "bank, couch", "bank")])
    write_dictionary(tmp_path, "freedict-deu-fra", {"Bank": "banque"})
    write_dictionary(tmp_path, "freedict-nld-fra", {"bank": "banque"})
    votes = read_through(tmp_path, ("fr",), known)
    assert votes == {("fr", "banque"): {"bank": 1 / 2 + 1 / 2, "bench": 1 / 2, "couch": 1 / 2}}
    votes["fr", "banque"]["couch"] -= 0.1
    assert [*agree(votes)] == [("fr", "bank, bench", "banque")]
