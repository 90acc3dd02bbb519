"""The keyword score of a chunk: BM25 over the words of a query. The same for every engine.

    score  = sum over words of weight x f (k1 + 1) / (f + k1 (1 - b + b length / average length))
    weight = times in the query x idf       idf = log(1 + (N - n + 0.5) / (n + 0.5))

    f   how often the chunk holds the word; an occurrence in a heading counts 1.5
    n   how many of the N chunks hold it

Two words that stand next to each other in the query and in the chunk count as one more word, with
0.3 of the lower weight of both. Function words do not count (function_words.py). The constants and
the reason for each are in docs/ranking.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memwell.store.words.query import Clause
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term, terms_in

K1, B = 0.9, 0.4
PAIR = 0.3
COLUMN_WEIGHTS = {"content": 1.0, "heading": 1.5, "name": 1.0, "parts": 1.0}


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How often a chunk holds each term of a query, and how many tokens it has."""

    length: float
    counts: dict[Term, float]


@dataclass(frozen=True, slots=True)
class ScoredQuery:
    """The conditions of a query that score, each with its weight."""

    words: Sequence[tuple[Condition, float]]
    pairs: Sequence[tuple[Condition, float]]
    ideal: float
    """The score of a chunk of average length that holds every word once, without pairs."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms to count, each once."""
        conditions = (condition for condition, _ in (*self.words, *self.pairs))
        return tuple(dict.fromkeys(term for part in conditions for term in terms_in(part)))

    def score(self, chunk: Occurrences, average_length: float) -> float:
        """Return the score of a chunk."""
        norm = K1 * (1 - B + B * chunk.length / average_length)
        return math.fsum(
            weight * frequency * (K1 + 1) / (frequency + norm)
            for condition, weight in (*self.words, *self.pairs)
            if (frequency := _frequency(condition, chunk.counts))
        )

    def covered(self, chunk: Occurrences) -> float:
        """Return the share of the words, by weight, that a chunk holds."""
        held = (weight for part, weight in self.words if _frequency(part, chunk.counts))
        return math.fsum(held) / self.ideal


def scored_query(
    clauses: Sequence[Clause], pairs: Sequence[tuple[Clause, Clause]], unknown: float, total: int
) -> ScoredQuery:
    """Weigh the clauses of a query.

    Args:
        clauses: the words that score, each once.
        pairs: those of them that stand next to each other in the query.
        unknown: how many words of the query no chunk holds.
        total: the number of chunks.

    """
    words = [(clause.condition, clause.count * idf(clause, total)) for clause in clauses]
    ideal = math.fsum(weight for _, weight in words) + unknown * _idf(0, total)
    return ScoredQuery(words, [*_pair_weights(pairs, total)], ideal)


def _pair_weights(
    pairs: Sequence[tuple[Clause, Clause]], total: int
) -> Iterator[tuple[Condition, float]]:
    for first, second in dict.fromkeys(pairs):
        one, other = first.condition, second.condition
        if isinstance(one, Term) and isinstance(other, Term) and one != other:
            together = Term((*one.tokens, *other.tokens), False, f"{one.text} {other.text}")
            yield together, PAIR * min(idf(first, total), idf(second, total))


def idf(clause: Clause, total: int) -> float:
    """Return the weight of a clause that stands once in the query."""
    return _idf(min(clause.document_frequency, total), total)  # that of a prefix is an estimate


def _idf(frequency: int, total: int) -> float:
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def _frequency(condition: Condition, counts: Mapping[Term, float]) -> float:
    """Return how often a chunk meets a condition."""
    match condition:
        case Term():
            return counts.get(condition, 0.0)
        case AnyOf(parts):
            return sum(_frequency(part, counts) for part in parts)
        case AllOf(parts):
            return min(_frequency(part, counts) for part in parts)
        case AndNot(wanted, unwanted):
            return 0.0 if _frequency(unwanted, counts) else _frequency(wanted, counts)
