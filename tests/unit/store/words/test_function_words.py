"""Function words: the words of a question that say nothing about its subject."""

from __future__ import annotations

import pytest

from memwell.store.words.function_words import find_function_words


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("when does my passport expire", {"passport", "expire"}),
        ("Wann kommt der Klempner", {"kommt", "Klempner"}),
        ("où est la clé du vélo", {"clé", "vélo"}),
        ("dónde está la llave del coche", {"llave", "coche"}),
        ("кто звонил из банка", {"звонил", "банка"}),
        ("car repair", {"car", "repair"}),  # not the French word for "because"
        ("when did he die in the war", {"die", "war"}),  # not German
        ("什么 时候 搬家", {"搬家"}),
        ("です 予算", {"予算"}),
    ],
)
def test_the_subject_of_a_question_is_left(query: str, content: set[str]) -> None:
    words = query.split()
    assert {*words} - find_function_words(words) == content


def test_every_language_has_words_of_its_own() -> None:
    assert find_function_words([]) == frozenset()
    assert find_function_words(["und", "der"]) == {"und", "der"}
