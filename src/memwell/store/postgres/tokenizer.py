"""The tokens of SQLite's keyword index, outside of SQLite.

FTS5's own tokenizer splits what FTS5 would index of a chunk, so both stores find the same chunks.
A token has a place for each occurrence: its column in the upper bits and the number of the token in
that column in the lower ones. So neighbours differ by one, and tokens of two columns are never
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from memwell.store.fts5_tokenizer import thread_tokenizer
from memwell.store.words.normalise import WordRow
from memwell.store.words.scoring import COLUMN_WEIGHTS

COLUMN_BITS = 28
_LONGEST_TOKEN = 200
"""Characters of a token; a longer one (a key, an image in letters) is replaced by a digest."""


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


def tokenize(text: str) -> list[tuple[str, str]]:
    """Return each token of a query's text, beside the letters it came from."""
    tokens = thread_tokenizer().query_tokens(text)
    return [(_shorten(token), surface) for token, surface in tokens]


def postings_of(row: WordRow) -> Iterator[Posting]:
    """Yield the tokens of a chunk, each once."""
    tokenizer = thread_tokenizer()
    chunk_id, *columns = row.columns()
    places: dict[str, list[int]] = {}
    length = 0
    for column, text in enumerate(columns):
        tokens = tokenizer.column_tokens(str(text))
        for number, token in enumerate(tokens):
            places.setdefault(_shorten(token), []).append((column << COLUMN_BITS) + number)
        length += len(tokens)
    weights = [*COLUMN_WEIGHTS.values()]
    for token, token_places in places.items():
        frequency = sum(weights[place >> COLUMN_BITS] for place in token_places)
        yield Posting(token, chunk_id, frequency, length, token_places)


def _shorten(token: str) -> str:
    """Return a token that fits into the key of an index."""
    if len(token) <= _LONGEST_TOKEN:
        return token
    return token[:_LONGEST_TOKEN] + blake2b(token.encode(), digest_size=16).hexdigest()
