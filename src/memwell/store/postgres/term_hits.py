"""Which chunks hold which terms of a condition, computed in memory from postings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from memwell.store.postgres.postings import PostingReader, find_ranks, is_new
from memwell.store.words.scoring import Occurrences
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term, terms_in

if TYPE_CHECKING:
    from memwell.store.contract.values import Array


def find_terms(condition: Condition) -> list[Term]:
    """Return the terms of a condition, each once."""
    return [*dict.fromkeys(terms_in(condition))]


class TermHits:
    """How often each chunk holds each of some terms."""

    def __init__(
        self, terms: Sequence[Term], reader: PostingReader, chunks: Array | None = None
    ) -> None:
        """Look at all chunks that hold any of the terms, or at some `chunks`."""
        reader.read(terms)
        postings = {term: reader.postings(term) for term in terms}
        if chunks is None:
            # np.unique takes twenty times as long for so few values
            chunks = np.sort(np.concatenate([one.chunks for one in postings.values()]))
            chunks = chunks[is_new(chunks)]
        self.chunks = chunks
        self.lengths = np.zeros(len(chunks))
        """The tokens of each chunk that holds any of the terms, else 0."""
        self._frequencies: dict[Term, Array] = {}
        order = np.argsort(chunks)
        ascending = chunks[order]
        for term, one in postings.items():
            rank = find_ranks(ascending, one.chunks)
            is_there = rank >= 0
            at = order[rank[is_there]]
            self.lengths[at] = one.lengths[is_there]
            self._frequencies[term] = frequencies = np.zeros(len(chunks))
            frequencies[at] = one.frequencies[is_there]

    def frequencies(self, term: Term) -> Array:
        """Return how often each chunk holds a term."""
        return self._frequencies[term]

    def meet(self, condition: Condition) -> Array:
        """Return for each chunk whether it meets a condition."""
        match condition:
            case Term():
                return self._frequencies[condition] > 0
            case AllOf(parts):
                return reduce(np.logical_and, map(self.meet, parts))
            case AnyOf(parts):
                return reduce(np.logical_or, map(self.meet, parts))
            case AndNot(wanted, unwanted):
                return self.meet(wanted) & ~self.meet(unwanted)

    def occurrences(self) -> tuple[Array, Occurrences]:
        """Return the chunks that hold any of the terms, and the occurrences in all of them."""
        held = self.lengths > 0
        counts = [frequencies[held] for frequencies in self._frequencies.values()]
        return self.chunks[held], Occurrences(self.lengths[held], counts)
