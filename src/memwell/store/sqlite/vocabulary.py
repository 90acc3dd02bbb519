"""How the index sees words: its tokens, and how many chunks hold each of them."""

from __future__ import annotations

import shlex
from functools import cached_property
from typing import Any

import apsw

from memwell.store.words.normalise import TOKENIZER, indexed_text

_LAST_CHARACTER = "\U0010ffff"
_LARGE = 20_000
"""Chunks from which on common words are counted ahead: FTS5 counts a word by walking through
all its postings, a millisecond or two for each common word of a query."""
_COMMON = 0.02
_OUTDATED = 1.25


class Vocabulary:
    """The vocabulary of one state of the index."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: dict[str, int] = {}

    @cached_property
    def total(self) -> int:
        """How many chunks there are."""
        return int(self._connection.execute("SELECT count(*) FROM chunks").get)

    @cached_property
    def _tokenizer(self) -> apsw.FTS5Tokenizer:
        return tokenizer(self._connection)

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of `text` as FTS5 indexes it, beside the letters it came from."""
        return tokens(self._tokenizer, text)

    def document_frequency(self, token: str) -> int:
        """Return how many chunks hold `token`; of a very common one, about how many."""
        if token not in self._rows:
            query = self._connection.execute
            found = query("SELECT rows FROM common_words WHERE term = ?", (token,)).get
            if found is None:
                found = query("SELECT doc FROM vocabulary WHERE term = ?", (token,)).get
            self._rows[token] = int(found or 0)
        return self._rows[token]

    def prefix_frequency(self, start: str) -> int:
        """Return about how many chunks hold a token that begins with `start`."""
        found = self._connection.execute(
            "SELECT sum(doc) FROM vocabulary WHERE term >= ? AND term < ?",
            (start, start + _LAST_CHARACTER),
        ).get
        return int(found or 0)

    def occurs(self, expression: str) -> bool:
        """Whether any chunk matches an FTS5 expression."""
        found = self._connection.execute(
            "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1", (expression,)
        ).get
        return found is not None


def tokenizer(connection: apsw.Connection) -> apsw.FTS5Tokenizer:
    """Return what splits text into tokens."""
    name, *arguments = shlex.split(TOKENIZER)
    return connection.fts5_tokenizer(name, arguments)


def tokens(tokenizer: apsw.FTS5Tokenizer, text: str) -> list[tuple[str, str]]:
    """Return each token of `text` as it is indexed, beside the letters it came from."""
    data = indexed_text(text).encode("utf-8", "replace")
    found: Any = tokenizer(data, apsw.FTS5_TOKENIZE_QUERY, None)
    return [(token, data[start:end].decode()) for start, end, token in found]


def count_common_words(connection: apsw.Connection) -> None:
    """Count the common words of a large index, unless it is about as large as last time."""
    total = Vocabulary(connection).total
    counted = connection.execute("SELECT value FROM meta WHERE key = 'counted_chunks'").get
    before = int(counted or 0)
    if total < _LARGE or before / _OUTDATED < total < before * _OUTDATED:
        return
    connection.execute("DELETE FROM common_words")
    connection.execute(
        "INSERT INTO common_words SELECT term, doc FROM vocabulary WHERE doc >= ?",
        (int(total * _COMMON),),
    )
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('counted_chunks', ?)", (str(total),))
