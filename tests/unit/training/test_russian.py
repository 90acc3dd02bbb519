"""English sentences, as Apertium analyses them, in Russian: cases, agreement and tenses."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from training.english_clauses import read_units
from training.russian import Lexicon, Translator

pymorphy3 = pytest.importorskip("pymorphy3", reason="pymorphy3 is not installed")

HE = "^prpers<prn><subj><p3><m><sg>$"
SHE = "^prpers<prn><subj><p3><f><sg>$"
I = "^prpers<prn><subj><p1><mf><sg>$"  # noqa: E741
ME = "^prpers<prn><obj><p1><mf><sg>$"
FULL_STOP = "^.<sent>$"
LINES = [
    ["mueller", "ru", "apple", "яблоко"],
    ["mueller", "ru", "to brother", "брататься"],
    ["mueller", "ru", "brother", "брат"],
    ["pivot", "ru", "window", "окно"],
    ["forms", "ru", "apple", "яблоками"],
    ["mueller", "fr", "apple", "pomme"],
]


@cache
def lexicon() -> Any:
    return Lexicon.read(pymorphy3.MorphAnalyzer(), LINES)


def translations(line: str) -> set[str]:
    """Return what a sentence becomes, with every choice of words."""
    chances = (random.Random(seed) for seed in range(100))
    return {Translator(lexicon(), chance).translate(read_units(line)) for chance in chances}


def test_words_are_found_by_their_part_of_speech() -> None:
    assert lexicon().find("nouns", "brother") == ["брат"]
    assert lexicon().find("verbs", "brother") == ["брататься"]
    assert lexicon().find("nouns", "apple") == ["яблоко"]
    assert lexicon().find("verbs", "go") == ["идти", "пойти"]  # by hand


@pytest.mark.parametrize(
    ("line", "russian"),
    [
        (
            f"{SHE} ^eat<vblex><past>$ ^a<det><ind><sg>$ ^apple<n><sg>$ ^with<pr>$ "
            "^my<det><pos><sp>$ ^brother<n><sg>$ ^yesterday<adv>$",
            "она съела яблоко с моим братом вчера.",
        ),
        (
            "^do<vbdo><pres>+not<adv>$ ^open<vblex><inf>$ ^the<det><def><sp>$ ^window<n><sg>$",
            "не открывайте окна.",
        ),
        (
            f"{I} ^want<vbmod><pres># to$ ^buy<vblex><inf>$ ^a<det>$ ^car<n><sg>$",
            "я хочу купить машину.",
        ),
        (f"{HE} ^can<vaux><past>+not<adv>$ ^come<vblex><inf>$", "он не мог прийти."),
        (f"{HE} ^will<vaux><inf>$ ^help<vblex><inf>$ {ME}", "он будет помогать меня."),
        (
            "^Mary<np><ant><f><sg>$ ^be<vbser><past><p3><sg>$ ^happy<adj><sint>$",
            "Мэри была счастливая.",
        ),
        (
            "^five<num><sp>$ ^window<n><pl>$ ^be<vbser><pri>$ ^new<adj><sint>$",
            "пять окон новые.",
        ),
    ],
)
def test_words_have_the_forms_of_their_places(line: str, russian: str) -> None:
    assert russian in translations(f"{line}{FULL_STOP}")


def test_a_sentence_of_unknown_words_is_left_out() -> None:
    assert translations("^the<det>$ ^axolotl<n><pl>$ ^regenerate<vblex><pres>$") == {""}


def test_a_possessive_without_an_owner_is_no_error() -> None:
    assert "яблоко съело" in translations("^'s<gen>$ ^apple<n><sg>$ ^eat<vblex><past>$")
