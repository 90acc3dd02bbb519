"""What remembering and recalling cost as facts become many: at 50,000 against at 1,000."""

from __future__ import annotations

import random
from functools import partial
from statistics import median
from unittest.mock import patch

from bench.measure import seconds, temporary_home
from bench.results import Row, at_most
from memwell import Memory
from memwell.facts.keeping import Keeper, Telling, folded

_FEW, _MANY = 1_000, 50_000
_ASKED = 40
_FIRST = ("ka", "lo", "mi", "ne", "ru", "si", "ta", "ve", "wo", "zu")
_REST = ("bar", "dim", "fol", "gan", "hes", "jun", "kor", "lem", "nop", "rit")
_WORDS = [f"{one}{two}{three}" for one in _FIRST for two in _REST for three in _REST]
_SEED = 6


def run() -> list[Row]:
    """Remember and recall among few facts, then among many, by words and by counted words."""
    with temporary_home(), patch.dict("os.environ", {"MEMWELL_EMBEDDING_CHAIN": "test"}):
        few = _measured(_FEW)
    with temporary_home(), patch.dict("os.environ", {"MEMWELL_EMBEDDING_CHAIN": "test"}):
        many = _measured(_MANY)
    return [
        Row("remember at 50,000 facts / at 1,000", many[0] / few[0], "times", at_most(3)),
        Row("  at 1,000", few[0], "ms"),
        Row("  at 50,000", many[0], "ms"),
        Row("recall at 50,000 facts / at 1,000", many[1] / few[1], "times", at_most(2)),
        Row("  at 1,000", few[1], "ms"),
        Row("  at 50,000", many[1], "ms"),
    ]


def _measured(count: int) -> tuple[float, float]:
    """Return the milliseconds that remembering and recalling take among so many facts."""
    chance = random.Random(_SEED)
    with Memory() as memory:
        _fill(memory, [_sentence(chance, number) for number in range(count)])
        memory.fill()
        remembered = [
            seconds(partial(memory.remember, _sentence(chance, count + number)))
            for number in range(_ASKED)
        ]
        recalled = [
            seconds(partial(memory.recall, " ".join(chance.sample(_WORDS, 4))))
            for _ in range(_ASKED)
        ]
    return 1000 * median(remembered), 1000 * median(recalled)


def _fill(memory: Memory, texts: list[str]) -> None:
    """Write many facts at once, as an import does."""
    keeper = Keeper(memory.facts.store, memory.viewer)
    with keeper.store.changed_by(keeper.viewer) as facts:
        for text in texts:
            facts.add(keeper._new(Telling(text), text, "agent", memory.agent), folded(text))
    memory.search(texts[0])


def _sentence(chance: random.Random, number: int) -> str:
    return f"The {' '.join(chance.sample(_WORDS, 8))} has number {number}."
