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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from memwell.store.words.query import Clause
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term, terms_in

K1, B = 0.9, 0.4
PAIR = 0.3
COLUMN_WEIGHTS = {"content": 1.0, "heading": 1.5, "name": 1.0, "parts": 1.0}

if TYPE_CHECKING:
    from memwell.store.contract.values import Array

_Frequency: TypeAlias = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How many tokens a chunk has, and how often it holds each term of a query, in their order.

    For many chunks at once, each number is an array.
    """

    length: float | Array
    counts: Sequence[float] | Sequence[Array]


@dataclass(frozen=True)
class ScoredQuery:
    """The conditions of a query that score, each with its weight."""

    words: Sequence[tuple[Condition, float]]
    pairs: Sequence[tuple[Condition, float]]
    ideal: float
    """The score of a chunk of average length that holds every word once, without pairs."""

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The terms to count, each once."""
        conditions = (condition for condition, _ in (*self.words, *self.pairs))
        return tuple(dict.fromkeys(term for part in conditions for term in terms_in(part)))

    @cached_property
    def _counted(self) -> Sequence[tuple[_Frequency, float]]:
        """The weights, each with the function that counts its condition; words before pairs."""
        places = {term: place for place, term in enumerate(self.terms)}
        return [(_frequency(part, places), weight) for part, weight in (*self.words, *self.pairs)]

    def score(self, chunk: Occurrences, average_length: float) -> Any:
        """Return the score of a chunk: a number, or an array for many chunks."""
        norm = K1 * (1 - B + B * chunk.length / average_length)
        frequencies = ((count(chunk.counts), weight) for count, weight in self._counted)
        return sum(
            weight * frequency * (K1 + 1) / (frequency + norm) for frequency, weight in frequencies
        )

    def covered(self, chunk: Occurrences) -> Any:
        """Return the share of the words, by weight, that a chunk holds."""
        words = self._counted[: len(self.words)]
        return sum(weight * (count(chunk.counts) > 0) for count, weight in words) / self.ideal


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


def _frequency(condition: Condition, places: Mapping[Term, int]) -> _Frequency:
    """Return the function that tells from the counts of terms how often a condition is met.

    It uses operators only, which mean the same for a number and for each number of an array.
    """
    match condition:
        case Term():
            return itemgetter(places[condition])
        case AnyOf(parts):
            counts = [_frequency(part, places) for part in parts]
            return lambda chunk: sum(count(chunk) for count in counts)
        case AllOf(parts):
            counts = [_frequency(part, places) for part in parts]
            return lambda chunk: reduce(_smaller, (count(chunk) for count in counts))
        case AndNot(wanted, unwanted):
            yes, no = _frequency(wanted, places), _frequency(unwanted, places)
            return lambda chunk: yes(chunk) * (no(chunk) == 0)


def _smaller(one: Any, other: Any) -> Any:
    return one - (one - other) * (one > other)
