"""Looks conditions up in arrays; the results are those of FTS5, and its BM25 is repeated here.

    score = sum over phrases of idf x f (k1 + 1) / (f + k1 (1 - b + b length / average length))
    idf   = log((N - n + 0.5) / (n + 0.5)), at least 0.000001

This score only selects candidates; words/scoring.py scores them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import apsw
import numpy as np

from memwell.store.contract.index import Vocabulary
from memwell.store.contract.query import WordQuery
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.fts import Bm25Runner
from memwell.store.sqlite.word_arrays import K1, TermPostings, WordArrays
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term

if TYPE_CHECKING:
    from memwell.store.contract.values import Array

_LEAST_IDF = 1e-6
_MORE = 4
"""By how many times as many chunks are tested by the filters, as long as too few are allowed."""


class ArrayRunner(Bm25Runner):
    """Looks conditions up in the arrays of one state of the keyword index."""

    def __init__(
        self,
        arrays: WordArrays,
        connection: apsw.Connection,
        query: WordQuery,
        limit: int,
        vocabulary: Vocabulary,
        only: Sequence[int] = (),
    ) -> None:
        super().__init__(connection, query, limit, vocabulary)
        self._arrays = arrays
        self._only = self._mask(arrays.rows_of(only)) if only else None
        self._filter = ("", []) if only else filter_sql(query.filters)

    def find_best(self, condition: Condition) -> dict[int, float]:
        matching, phrases = self._find(condition)
        if self._only is not None:
            matching &= self._only
        scores = np.zeros(len(matching))
        for postings, counting in phrases:
            rows, frequencies = postings.rows, postings.frequencies.astype(float)
            if counting is not None:
                inside = counting[rows]
                rows, frequencies = rows[inside], frequencies[inside]
            weight = frequencies * (K1 + 1) / (frequencies + self._arrays.norms[rows])
            scores[rows] += self._idf(len(postings.rows)) * weight
        found = np.flatnonzero(matching)
        return self._best_allowed(self._arrays.chunks[found], scores[found])

    def _find(self, condition: Condition) -> tuple[Array, list[tuple[TermPostings, Array | None]]]:
        """Return a mask of the rows that meet a condition, and its phrases.

        Each phrase comes with a mask of the rows where it counts: those that meet every condition
        around it. None stands for all rows that hold it.
        """
        match condition:
            case Term():
                postings = self._arrays.postings(condition, self.connection)
                return self._mask(postings.rows), [(postings, None)]
            case AnyOf(parts):
                masks, phrases = zip(*map(self._find, parts), strict=True)
                return np.logical_or.reduce(masks), [*chain(*phrases)]
            case AllOf(parts):
                masks, phrases = zip(*map(self._find, parts), strict=True)
                mask = np.logical_and.reduce(masks)
                return mask, [_within(mask, *one) for one in chain(*phrases)]
            case AndNot(wanted, unwanted):
                mask, inside = self._find(wanted)
                mask &= ~self._find(unwanted)[0]
                return mask, [_within(mask, *one) for one in inside]

    def _mask(self, rows: Array) -> Array:
        mask = np.zeros(len(self._arrays.chunks), dtype=bool)
        mask[rows] = True
        return mask

    def _idf(self, chunks: int) -> float:
        total = len(self._arrays.chunks)
        return max(_LEAST_IDF, math.log((total - chunks + 0.5) / (chunks + 0.5)))

    def _best_allowed(self, chunks: Array, scores: Array) -> dict[int, float]:
        """Return the best chunks that the filters allow; only as many as needed are tested."""
        condition, values = self._filter
        best = _best(scores, self.limit)
        wanted = self.limit
        while condition:
            wanted *= _MORE
            tested = _best(scores, wanted)
            allowed = self._allowed(chunks[tested], condition, values)
            best = tested[allowed]
            if len(best) >= self.limit or len(tested) == len(chunks):
                best = best[_best(scores[best], self.limit)]
                break
        return dict(zip(chunks[best].tolist(), scores[best].tolist(), strict=True))

    def _allowed(self, chunks: Array, condition: str, values: Sequence[str | int]) -> Array:
        """Return a mask of the chunks that the filters allow."""
        rows = self.connection.execute(
            f"""
            SELECT c.id FROM chunks c JOIN notes n ON n.id = c.note_id
            WHERE c.id IN (SELECT value FROM json_each(?)) {condition}
            """,
            (json.dumps(chunks.tolist()), *values),
        )
        return np.isin(chunks, np.array([chunk_id for (chunk_id,) in rows], dtype=np.int64))


def _within(
    mask: Array, postings: TermPostings, counting: Array | None
) -> tuple[TermPostings, Array]:
    return postings, mask if counting is None else mask & counting


def _best(scores: Array, wanted: int) -> Array:
    """Return the places of the best scores, with all that round to the last one wanted."""
    if len(scores) <= wanted:
        return np.arange(len(scores))
    rounded = scores.astype(np.float32)
    return np.flatnonzero(rounded >= np.partition(rounded, -wanted)[-wanted])
