"""Where the words of an index stand, as arrays.

FTS5 keeps the words, and this module reads from it: FTS5 lists the places of a token several times
faster than it ranks the chunks that hold it, and arrays are ranked faster than rows. Chunks that
are added later are split into tokens here, so that what was read before is still of use.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np

from memwell.errors import KeywordSearchUnavailable
from memwell.store.fts5_tokenizer import Fts5Tokenizer
from memwell.store.sqlite import fts
from memwell.store.words.scoring import COLUMN_WEIGHTS, Occurrences
from memwell.store.words.tree import Term

if TYPE_CHECKING:
    from memwell.store.contract.values import Array
    from memwell.store.words.normalise import WordRow

_MOST_BYTES = 64_000_000
"""Of terms that a process keeps: all that are asked for among 100,000 chunks."""
_MOST_BYTES_OF_PLACES = 16_000_000
"""Places are larger, and are read again for a phrase that is new."""
_MOST_ADDED = 200
"""Chunks that were added since the arrays were read. Splitting one takes as long as reading the
arrays of some hundred."""
K1, _B = 1.2, 0.75
"""The constants of the BM25 of FTS5."""
_COLUMN_BITS, _PLACE_BITS = 24, 26
"""A place is one number: the chunk, two bits for the column, 24 for the position in the column."""
_VOCABULARY = "", "vocabulary"
"""The key of the vocabulary among the terms."""
_COLUMN = "CASE col {} END".format(
    " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(COLUMN_WEIGHTS))
)


@dataclass(frozen=True, slots=True)
class TermPostings:
    """The chunks that hold a term, as rows of `WordArrays.chunks`, and how often each does.

    In four bytes each: frequencies are multiples of a half.
    """

    rows: Array
    frequencies: Array

    @property
    def nbytes(self) -> int:
        """The size of the arrays."""
        return int(self.rows.nbytes + self.frequencies.nbytes)

    def followed_by(self, later: TermPostings) -> TermPostings:
        """Return these and those of later chunks."""
        return TermPostings(
            np.concatenate([self.rows, later.rows]),
            np.concatenate([self.frequencies, later.frequencies]),
        )

    def count(self, rows: Array) -> Array:
        """Return how often each of some rows holds the term."""
        if not len(self.rows):
            return np.zeros(len(rows))
        at = np.searchsorted(self.rows, rows)
        at[at == len(self.rows)] = 0
        return np.where(self.rows[at] == rows, self.frequencies[at].astype(float), 0.0)


class _ArrayCache:
    """Arrays by key; those that were not used for longest are dropped first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, read: Callable[[], Any]) -> Any:
        """Return the arrays of a key, read at its first use."""
        with self._lock:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return found
        found = read()
        with self._lock:
            if key not in self._kept and found.nbytes <= self._most_bytes:
                self._kept[key] = found
                self._bytes += found.nbytes
            while self._bytes > self._most_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return found


@dataclass(frozen=True)
class WordArrays:
    """The words of one state of the keyword index, as far as searches have asked for them."""

    chunks: Array
    """The ids of all chunks, ascending. A row is a place in this array."""
    lengths: Array
    """The number of tokens of each chunk."""
    frequencies: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many chunks hold a token (with a star: one that begins so), besides those of hidden
    workspaces: the second part of the key."""
    _added: tuple[Mapping[str, Sequence[int]], ...] = ()
    """Of each chunk that was added since FTS5 was read: the places of its tokens. They are the
    last chunks."""
    _terms: _ArrayCache = field(default_factory=lambda: _ArrayCache(_MOST_BYTES))
    """The postings of a term and a number of added chunks."""
    _tokens: _ArrayCache = field(default_factory=lambda: _ArrayCache(_MOST_BYTES_OF_PLACES))
    """The places of a token in the chunks before the added ones."""

    @cached_property
    def average_length(self) -> float:
        """The number of tokens of a chunk, on average."""
        return int(self.lengths.sum()) / (len(self.lengths) or 1)

    @cached_property
    def norms(self) -> Array:
        """The part of the BM25 of FTS5 that depends on the length of each chunk."""
        norms: Array = K1 * (1 - _B + _B * self.lengths / self.average_length)
        return norms

    def rows_of(self, chunk_ids: Sequence[int]) -> Array:
        """Return the rows of those of some chunks that the keyword index has."""
        ids = np.array(chunk_ids, dtype=np.int64)
        at = np.searchsorted(self.chunks, ids)
        at, ids = at[at < len(self.chunks)], ids[at < len(self.chunks)]
        rows: Array = at[self.chunks[at] == ids].astype(np.int32)
        return rows

    def extended(self, connection: apsw.Connection, total: int) -> WordArrays | None:
        """Return the arrays of a later state, with the chunks that were added.

        None if they are many, or if `total` chunks are not these and those: then some were removed,
        or the state is an earlier one.
        """
        last = self._chunk_at(len(self.chunks))
        chunks, lengths = _read_lengths(connection, after=last)
        added = len(self._added) + len(chunks)
        if added > _MOST_ADDED or total != len(self.chunks) + len(chunks):
            return None
        rows = fts.word_rows_after(connection, last) if len(chunks) else []
        if [row.chunk_id for row in rows] != chunks.tolist():
            return None
        tokenizer = Fts5Tokenizer(connection)
        return replace(
            self,
            chunks=np.concatenate([self.chunks, chunks]),
            lengths=np.concatenate([self.lengths, lengths]),
            frequencies={},
            _added=(*self._added, *(_split(row, tokenizer) for row in rows)),
        )

    def _chunk_at(self, count: int) -> int:
        """Return the last of the first `count` chunks; 0 if there is none."""
        return int(self.chunks[count - 1]) if count else 0

    def postings(self, term: Term, connection: apsw.Connection) -> TermPostings:
        """Return the chunks that hold a term."""

        def read_stored(token: str, prefix: bool) -> Array:
            return self._stored_places(token, prefix, connection)

        def read() -> TermPostings:
            return self._to_postings(_places(term, read_stored))

        def extend() -> TermPostings:
            stored: TermPostings = self._terms.get((term, 0), read)
            return stored.followed_by(self._to_postings(_places(term, self._added_places)))

        number = len(self._added)
        found: TermPostings = self._terms.get((term, number), extend if number else read)
        return found

    def occurrences(
        self, terms: Sequence[Term], chunk_ids: Sequence[int], connection: apsw.Connection
    ) -> tuple[Array, Occurrences]:
        """Count terms in chunks; return those with any term, with their counts."""
        rows = self.rows_of(chunk_ids)
        counts = [self.postings(term, connection).count(rows) for term in terms]
        held = sum(counts) > 0
        rows = rows[held]
        return self.chunks[rows], Occurrences(self.lengths[rows], [one[held] for one in counts])

    def vocabulary(self, connection: apsw.Connection) -> list[str]:
        """Return all tokens, in any order. FTS5 reads through the places of each to list them."""

        def read() -> Array:
            text: Any = connection.execute(
                "SELECT group_concat(term, char(10)) FROM vocabulary"
            ).get
            return np.frombuffer((text or "").encode(), dtype=np.uint8)

        stored: Array = self._terms.get(_VOCABULARY, read)
        tokens = stored.tobytes().decode().split("\n")
        new = {*chain.from_iterable(self._added)}.difference(tokens) if self._added else ()
        return [*tokens, *new]

    def _stored_places(self, token: str, prefix: bool, connection: apsw.Connection) -> Array:
        def read() -> Array:
            places = _read_places(connection, token, prefix=prefix)
            if not self._added:
                return places
            after = self._chunk_at(len(self.chunks) - len(self._added)) + 1
            return places[: np.searchsorted(places, after << _PLACE_BITS)]

        places: Array = read() if prefix else self._tokens.get(token, read)
        return places

    def _added_places(self, token: str, prefix: bool) -> Array:
        found: list[int] = []
        for places in self._added:
            if prefix:
                among = (places[other] for other in places if other.startswith(token))
                found += sorted(chain.from_iterable(among))
            else:
                found += places.get(token, ())
        return np.array(found, dtype=np.int64)

    def _to_postings(self, places: Array) -> TermPostings:
        chunks = places >> _PLACE_BITS
        first = np.flatnonzero(np.diff(chunks, prepend=-1))
        if not len(first):
            return TermPostings(first.astype(np.int32), np.zeros(0, dtype=np.float32))
        weights = np.array([*COLUMN_WEIGHTS.values()])[places >> _COLUMN_BITS & 3]
        rows = np.searchsorted(self.chunks, chunks[first])
        if not np.array_equal(self.chunks.take(rows, mode="clip"), chunks[first]):
            raise KeywordSearchUnavailable("the keyword index is damaged (a chunk has no length)")
        frequencies = np.add.reduceat(weights, first)
        return TermPostings(rows.astype(np.int32), frequencies.astype(np.float32))


def _places(term: Term, places_of: Callable[[str, bool], Array]) -> Array:
    """Return the places where a term begins: its tokens stand one after the other.

    `places_of` returns the places of a token, or of all tokens that begin with it.
    """
    *inner, last = term.tokens
    of_each = [*(places_of(token, False) for token in inner), places_of(last, term.prefix)]
    rarest = min(range(len(of_each)), key=lambda number: len(of_each[number]))
    begins = of_each[rarest] - rarest
    for number, places in enumerate(of_each):
        if number != rarest:
            begins = begins[_is_among(begins + number, places)]
    return begins


def _split(row: WordRow, tokenizer: Fts5Tokenizer) -> dict[str, list[int]]:
    """Return the places of each token of a chunk, ascending."""
    chunk_id, *columns = row.columns()
    places: dict[str, list[int]] = {}
    for number, text in enumerate(columns):
        start = chunk_id << _PLACE_BITS | number << _COLUMN_BITS
        for place, token in enumerate(tokenizer.column_tokens(text), start):
            places.setdefault(token, []).append(place)
    return places


def _is_among(values: Array, ascending: Array) -> Array:
    """Return a mask of the values that are in another array."""
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    at = np.searchsorted(ascending, values)
    at[at == len(ascending)] = 0
    mask: Array = ascending[at] == values
    return mask


def _read_places(connection: apsw.Connection, token: str, *, prefix: bool) -> Array:
    """Read the places of a token, or of all tokens that begin with it."""
    fts.ensure_places(connection)
    condition, values = fts.beginning_with(token) if prefix else ("term = ?", (token,))
    text: Any = connection.execute(
        f"""
        SELECT group_concat((doc << {_PLACE_BITS}) | ({_COLUMN} << {_COLUMN_BITS}) | offset)
        FROM temp.word_places WHERE {condition}
        """,
        values,
    ).get
    places = _read_numbers(text)
    return np.sort(places) if prefix else places


def read_arrays(connection: apsw.Connection) -> WordArrays:
    """Read the chunks and their lengths; the words are read when they are asked for."""
    return WordArrays(*_read_lengths(connection, after=-1))


def _read_lengths(connection: apsw.Connection, after: int) -> tuple[Array, Array]:
    """Return the chunks after one, and the number of tokens of each."""
    row: Any = connection.execute(
        "SELECT group_concat(id), group_concat(hex(sz), '')"
        " FROM (SELECT id, sz FROM words_docsize WHERE id > ? ORDER BY id)",
        (after,),
    ).get
    chunks, sizes = _read_numbers(row[0]), _to_numbers(bytes.fromhex(row[1] or ""))
    columns = len(COLUMN_WEIGHTS)
    if len(sizes) != columns * len(chunks):
        raise KeywordSearchUnavailable("the keyword index is damaged (lengths are missing)")
    return chunks, sizes.reshape(-1, columns).sum(axis=1)


def _read_numbers(text: str | None) -> Array:
    """Return the numbers of a text: SQLite writes one text faster than Python takes many rows."""
    if not text:
        return np.zeros(0, dtype=np.int64)
    numbers: Array = np.fromstring(text, dtype=np.int64, sep=",")
    return numbers


def _to_numbers(data: bytes) -> Array:
    """Return the numbers that FTS5 stores with seven bits to a byte, the highest ones first."""
    stored = np.frombuffer(data, dtype=np.uint8)
    last = np.flatnonzero(stored < 0x80)
    digits = np.diff(last, prepend=-1)
    numbers = stored[last].astype(np.int64)
    for back in range(1, digits.max(initial=1)):
        longer = digits > back
        numbers[longer] += (stored[last[longer] - back] & 0x7F).astype(np.int64) << 7 * back
    return numbers
