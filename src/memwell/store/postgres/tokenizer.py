"""The very tokens of SQLite's keyword index, outside of SQLite.

What FTS5 would index of a chunk is split by FTS5's own tokenizer, so that both stores find the same
things. A place is where a token stands: its column in the upper bits, and the number of the token
in that column below, so that neighbours differ by one and columns never meet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import apsw

from memwell.store.sqlite.fts import COLUMN_WEIGHTS, WordRow
from memwell.store.sqlite.vocabulary import tokenizer, tokens

COLUMN_BITS = 28
_LONGEST = 200
"""Characters of a token; of a longer one (a key, an image in letters) a digest stands for it."""


@dataclass(frozen=True, slots=True)
class Posting:
    """A token in a chunk."""

    token: str
    chunk_id: int
    frequency: float
    """How often it occurs, by the weights of the columns."""
    length: int
    """Tokens of the chunk."""
    places: list[int]


class _Own(threading.local):
    """A tokenizer for each thread: it belongs to a connection."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.tokenizer = tokenizer(self.connection)


_own = _Own()


def tokenize(text: str) -> list[tuple[str, str]]:
    """Return each token of a query's text, beside the letters it came from."""
    return [(_short(token), surface) for token, surface in tokens(_own.tokenizer, text)]


def postings(row: WordRow) -> Iterator[Posting]:
    """Yield the tokens of a chunk, each once."""
    chunk_id, *columns = row.columns()
    places: dict[str, list[int]] = {}
    length = 0
    for column, text in enumerate(columns):
        data = str(text).encode("utf-8", "replace")
        found: Any = _own.tokenizer(data, apsw.FTS5_TOKENIZE_DOCUMENT, None)
        for number, (_, _, token) in enumerate(found):
            places.setdefault(_short(token), []).append((column << COLUMN_BITS) + number)
        length += len(found)
    weights = [*COLUMN_WEIGHTS.values()]
    for token, some in places.items():
        frequency = sum(weights[place >> COLUMN_BITS] for place in some)
        yield Posting(token, chunk_id, frequency, length, some)


def _short(token: str) -> str:
    """A key of an index has its limits."""
    if len(token) <= _LONGEST:
        return token
    return token[:_LONGEST] + blake2b(token.encode(), digest_size=16).hexdigest()
