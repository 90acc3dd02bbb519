"""Postings: which chunks hold which tokens, as arrays.

The table `posting_lists` has, for each token and owner, a row for each block of chunks (see
posting_changes.py). Its columns are arrays of unsigned 32-bit numbers in network byte order, which
SQL can join and NumPy reads without a loop:

    chunks   the chunks that hold the token, as differences to the number of the block
    lengths  the tokens of each of these chunks
    places   where each chunk holds the token (tokenizer.py); the last of a chunk has `LAST` set

Agents of an older schema have a row for each token and chunk, in `postings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from memwell.store.postgres.schema import SCHEMA
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import Values, of_agent, starts_with
from memwell.store.postgres.tokenizer import COLUMN_BITS
from memwell.store.words.normalise import WORDS_VERSION
from memwell.store.words.scoring import COLUMN_WEIGHTS
from memwell.store.words.tree import Term

if TYPE_CHECKING:
    from memwell.store.contract.values import Array

ROWS_VERSION, POSTINGS_VERSION = 100 + WORDS_VERSION, 200 + WORDS_VERSION
"""The versions of postings in rows and in arrays. Any other is old: memwell builds them anew."""
HAS_LISTS = f"to_regclass('{SCHEMA}.posting_lists') IS NOT NULL"
NUMBER = np.dtype(">u4")
LAST = 1 << 31
_PLACE = LAST - 1
_PLACE_BITS = 31
_WEIGHTS = np.array([*COLUMN_WEIGHTS.values()])


@dataclass(frozen=True)
class Postings:
    """The chunks that hold a token, in any order, each once."""

    chunks: Array
    lengths: Array
    """The tokens of each chunk."""
    places: Array
    """The places in all chunks, each once: a place has one token."""
    of: Array
    """For each place, the number of its chunk in `chunks`."""

    @cached_property
    def frequencies(self) -> Array:
        """How often each chunk holds the token, by the weights of the columns."""
        weights = _WEIGHTS[self.places >> COLUMN_BITS]
        return np.bincount(self.of, weights, minlength=len(self.chunks))


def unpack(blocks: bytes, sizes: bytes, chunks: bytes, lengths: bytes, places: bytes) -> Postings:
    """Return the postings in rows of `posting_lists`, whose columns were joined.

    `blocks` and `sizes` are the number of each row's block, and how many chunks the row has.
    """
    starts = np.repeat(np.frombuffer(blocks, ">i8"), np.frombuffer(sizes, ">i4"))
    marked = np.frombuffer(places, NUMBER).astype(np.int64)
    is_last = marked >= LAST
    return Postings(
        starts + np.frombuffer(chunks, NUMBER),
        np.frombuffer(lengths, NUMBER).astype(np.float64),
        marked & _PLACE,
        np.cumsum(is_last) - is_last,
    )


def _from_rows(rows: Sequence[tuple[int, int, Sequence[int]]]) -> Postings:
    """Return the postings in rows of chunk, length and places."""
    places = [place for *_, of_chunk in rows for place in of_chunk]
    return Postings(
        np.array([chunk for chunk, *_ in rows], np.int64),
        np.array([length for _, length, _ in rows], np.float64),
        np.array(places, np.int64),
        np.repeat(np.arange(len(rows)), [len(of_chunk) for *_, of_chunk in rows]),
    )


def _merge(parts: Sequence[Postings]) -> Postings:
    """Return the postings of several tokens as those of one."""
    if len(parts) < 2:
        return parts[0] if parts else _NONE
    chunks, first, number = np.unique(
        np.concatenate([part.chunks for part in parts]), return_index=True, return_inverse=True
    )
    starts = np.cumsum([0, *(len(part.chunks) for part in parts)])
    of = np.concatenate(
        [number[start + part.of] for start, part in zip(starts, parts, strict=False)]
    )
    lengths = np.concatenate([part.lengths for part in parts])[first]
    return Postings(chunks, lengths, np.concatenate([part.places for part in parts]), of)


_NONE = _from_rows([])
_COLUMNS = """
    ARRAY[
        string_agg(int8send(p.block), ''), string_agg(int4send(length(p.chunks) / 4), ''),
        string_agg(p.chunks, ''), string_agg(p.lengths, ''), string_agg(p.places, '')
    ]
"""
"""The arguments of `unpack`. All of them are joined in the same order."""
MANY_POSTINGS = 200_000
"""If the words of a query have more postings, only the blocks of candidates are read."""
_AHEAD = 3_000
"""Postings of a token that are read together with its frequency."""


class PostingReader:
    """Reads the postings of one state; those that were read stay in memory until its end."""

    def __init__(self, session: Session, *, in_rows: bool) -> None:
        """`in_rows`: the agent has its postings in rows still."""
        self._session = session
        self._in_rows = in_rows
        self._tokens: dict[str, Postings] = {}
        self._prefixes: dict[str, Postings] = {}
        self._terms: dict[Term, Postings] = {}

    def ahead(self, token: str, frequency: str) -> str:
        """Return the SQL for the postings of a token that is not frequent; for `know`."""
        if self._in_rows:
            return "NULL"
        return f"""
            CASE WHEN coalesce({frequency}, 0) <= {_AHEAD} THEN (
                SELECT {_COLUMNS} FROM posting_lists p WHERE {of_agent("p")} AND p.token = {token}
            ) END
        """

    def know(self, token: str, columns: Sequence[bytes]) -> None:
        """Keep the postings of a token, which another statement has read."""
        self._tokens[token] = _NONE if columns[0] is None else unpack(*columns)

    def unread(self, terms: Iterable[Term]) -> set[str]:
        """Return the tokens of terms whose postings are not read yet, without prefixes."""
        return {token for term in terms for token in _whole_tokens(term)} - {*self._tokens}

    def read(self, terms: Sequence[Term]) -> None:
        """Read the postings that terms need, in one round trip for all tokens."""
        if unread := sorted(self.unread(terms)):
            found = self._fetch("p.token = ANY(%(tokens)s)", Values(tokens=unread))
            self._tokens |= dict.fromkeys(unread, _NONE) | found
        for start in {term.tokens[-1] for term in terms if term.prefix} - {*self._prefixes}:
            values = Values()
            found = self._fetch(starts_with("p.token", start, values), values)
            self._prefixes[start] = _merge([*found.values()])

    def postings(self, term: Term) -> Postings:
        """Return the chunks that hold a term, and where."""
        if not term.tokens:
            return _NONE
        if term not in self._terms:
            self.read([term])
            parts = [self._tokens[token] for token in _whole_tokens(term)]
            if term.prefix:
                parts.append(self._prefixes[term.tokens[-1]])
            self._terms[term] = parts[0] if len(parts) == 1 else _find_phrase(parts)
        return self._terms[term]

    def near(self, chunk_ids: Sequence[int]) -> PostingReader:
        """Return a reader of those blocks alone that have some chunks."""
        return _NearReader(self._session, chunk_ids, in_rows=self._in_rows)

    def _fetch(self, condition: str, values: Mapping[str, Any]) -> dict[str, Postings]:
        """Return the postings of the tokens that meet a condition."""
        if self._in_rows:
            return self._fetch_rows(condition, values)
        rows = self._session.rows_in_binary(
            f"SELECT p.token, {_COLUMNS} FROM posting_lists p"
            f" WHERE {of_agent('p')} AND {condition} GROUP BY p.token",
            **values,
        )
        return {token: unpack(*columns) for token, columns in rows}

    def _fetch_rows(self, condition: str, values: Mapping[str, Any]) -> dict[str, Postings]:
        found: dict[str, list[tuple[int, int, Sequence[int]]]] = {}
        for token, *row in self._session.rows(
            "SELECT p.token, p.chunk_id, p.length, p.places FROM postings p"
            f" WHERE {of_agent('p')} AND {condition}",
            **values,
        ):
            found.setdefault(token, []).append((row[0], row[1], row[2]))
        return {token: _from_rows(rows) for token, rows in found.items()}


class _NearReader(PostingReader):
    """Reads only the blocks that have some chunks."""

    def __init__(self, session: Session, chunk_ids: Sequence[int], *, in_rows: bool) -> None:
        super().__init__(session, in_rows=in_rows)
        self._chunk_ids = [*chunk_ids]

    def _fetch(self, condition: str, values: Mapping[str, Any]) -> dict[str, Postings]:
        if self._in_rows:
            condition += " AND p.chunk_id = ANY(%(near)s)"
        else:
            condition += f"""
                AND p.block = ANY(ARRAY(
                    SELECT DISTINCT i.blocks[width_bucket(near.id, i.blocks)]
                    FROM indexes i, unnest(%(near)s::bigint[]) AS near (id) WHERE {of_agent("i")}
                ))
            """
        return super()._fetch(condition, {**values, "near": self._chunk_ids})


def _whole_tokens(term: Term) -> tuple[str, ...]:
    return term.tokens[:-1] if term.prefix else term.tokens


def _find_phrase(parts: Sequence[Postings]) -> Postings:
    """Return the places of the first token that the other tokens follow."""
    chunks = parts[0].chunks
    for part in parts[1:]:
        chunks = np.intersect1d(chunks, part.chunks, assume_unique=True)
    places: Array | None = None
    for number, part in enumerate(parts):
        # One number for chunk and place: they are equal where the tokens stand in a row.
        rank = find_ranks(chunks, part.chunks)[part.of]
        keys = ((rank << _PLACE_BITS) + part.places - number)[rank >= 0]
        if places is not None:
            keys = np.intersect1d(places, keys, assume_unique=True)
        places = keys
    assert places is not None
    ranks = places >> _PLACE_BITS
    is_first = is_new(ranks)
    used, of = ranks[is_first], np.cumsum(is_first) - 1
    first = find_ranks(chunks, parts[0].chunks)
    lengths = np.zeros(len(chunks))
    lengths[first[first >= 0]] = parts[0].lengths[first >= 0]
    return Postings(chunks[used], lengths[used], places & _PLACE, of)


def is_new(ascending: Array) -> Array:
    """Return for each value of an ascending array whether it differs from the one before."""
    new: Array = np.diff(ascending, prepend=-1) != 0
    return new


def find_ranks(ascending: Array, values: Array) -> Array:
    """Return the place of each value in an ascending array, or -1."""
    if not len(ascending):
        return np.full(len(values), -1)
    found = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[found] == values, found, -1)
