"""What remembering and recalling cost as facts become many: at 50,000 against at 1,000.

A text that is told or asked for is embedded by the default model, as it would be. Embedding
50,000 facts by it would take an hour and change nothing of what is measured. Sums of a vector for
each word stand in for theirs, as long, and like a model's not as wide in all directions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from bench.measure import seconds, temporary_home
from bench.results import Row, at_most
from bench.stand_in import WordSums
from memwell import Memory
from memwell.config.fields import Value
from memwell.embed.multilingual import Multilingual
from memwell.facts.comparison import normalised
from memwell.facts.service import FactService, NewFact

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_FEW, _MANY = 1_000, 50_000
_ASKED = 40
_FIRST = ("ka", "lo", "mi", "ne", "ru", "si", "ta", "ve", "wo", "zu")
_REST = ("bar", "dim", "fol", "gan", "hes", "jun", "kor", "lem", "nop", "rit")
_WORDS = [f"{one}{two}{three}" for one in _FIRST for two in _REST for three in _REST]
_SEED = 6
_BY_STAND_IN: dict[str, Value] = {"embedding.chain": ("stand-in",)}


def run() -> list[Row]:
    """Remember and recall among few facts, then among many."""
    few, many = _measured(_FEW), _measured(_MANY)
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
    with (
        temporary_home(),
        Memory(embedders={"stand-in": _StandIn}, settings=_BY_STAND_IN) as memory,
    ):
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


class _StandIn(WordSums):
    """Takes the time of the default model for a single text, and adds words up for the vectors."""

    def __init__(self) -> None:
        super().__init__()
        self._dear = Multilingual()

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Return one vector a text."""
        if len(texts) == 1:
            self._dear.embed_documents(texts)
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a query."""
        self._dear.embed_query(text)
        return super().embed_query(text)


def _fill(memory: Memory, texts: list[str]) -> None:
    """Write many facts at once, as an import does."""
    keeper = FactService(memory.facts.store, memory.viewer)
    with keeper.store.change(keeper.viewer) as facts:
        for text in texts:
            facts.add(keeper._create(NewFact(text), text, "agent", memory.agent), normalised(text))
    memory.search(texts[0])


def _sentence(chance: random.Random, number: int) -> str:
    return f"The {' '.join(chance.sample(_WORDS, 8))} has number {number}."
