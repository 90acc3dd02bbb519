"""The tokens of SQLite's keyword index, outside of SQLite.

FTS5's own tokenizer splits what FTS5 would index of a chunk, so both stores find the same chunks.
A token has a place for each occurrence: its column in the upper bits and the number of the token in
that column in the lower ones. So neighbours differ by one, and tokens of two columns are never
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from memwell.store.fts5_tokenizer import thread_tokenizer
from memwell.store.words.normalise import WordRow
from memwell.store.words.scoring import COLUMN_WEIGHTS

COLUMN_BITS = 28
_WEIGHTS = [*COLUMN_WEIGHTS.values()]
_LONGEST_TOKEN = 200
"""Characters of a token; a longer one (a key, an image in letters) is replaced by a digest."""


class ChunkTokens(NamedTuple):
    """The tokens of a chunk."""

    length: int
    """How many there are."""
    places: dict[str, list[int]]
    """The places of each token."""

    def frequencies(self) -> Iterator[tuple[str, float]]:
        """Yield each token with how often it occurs, by the weights of the columns."""
        for token, places in self.places.items():
            yield token, sum(_WEIGHTS[place >> COLUMN_BITS] for place in places)


def tokenize(text: str) -> list[tuple[str, str]]:
    """Return each token of a query's text, beside the letters it came from."""
    tokens = thread_tokenizer().query_tokens(text)
    return [(_shorten(token), surface) for token, surface in tokens]


def tokens_of(row: WordRow) -> ChunkTokens:
    """Return the tokens of a chunk."""
    tokenizer = thread_tokenizer()
    _, *columns = row.columns()
    places: dict[str, list[int]] = {}
    length = 0
    for column, text in enumerate(columns):
        tokens = tokenizer.column_tokens(str(text))
        for place, token in enumerate(tokens, column << COLUMN_BITS):
            if len(token) > _LONGEST_TOKEN:
                token = _shorten(token)
            places.setdefault(token, []).append(place)
        length += len(tokens)
    return ChunkTokens(length, places)


def _shorten(token: str) -> str:
    """Return a token that fits into the key of an index."""
    if len(token) <= _LONGEST_TOKEN:
        return token
    return token[:_LONGEST_TOKEN] + blake2b(token.encode(), digest_size=16).hexdigest()
