"""Similar words: the shortcut for one edit finds what a comparison of all words finds."""

from __future__ import annotations

import random

from memwell.search.spelling import distance, find_nearest

LETTERS = "abcdef"


def misspell(word: str, chance: random.Random) -> str:
    letters, at = list(word), chance.randrange(len(word))
    match chance.randrange(4):
        case 0:
            letters[at] = chance.choice(LETTERS)
        case 1:
            del letters[at]
        case 2:
            letters.insert(at, chance.choice(LETTERS))
        case _:
            letters[at - 1], letters[at] = letters[at], letters[at - 1]
    return "".join(letters)


def test_one_edit_is_found_wherever_it_is() -> None:
    chance = random.Random(1)
    words = ["".join(chance.choices(LETTERS, k=chance.randint(3, 8))) for _ in range(600)]
    for _ in range(300):
        typed = misspell(chance.choice(words), chance)
        found = find_nearest(
            typed,
            lambda shortest, longest: [w for w in words if shortest <= len(w) <= longest],
            lambda word: 1,
            most=len(words),
            most_edits=1,
        )
        assert {*found} == {word for word in words if distance(typed, word, 1) == 1}
