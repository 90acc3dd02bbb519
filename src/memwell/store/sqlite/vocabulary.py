"""The vocabulary of an index in SQLite: its tokens, and how many chunks hold each of them."""

from __future__ import annotations

from functools import cached_property

import apsw

from memwell.store.contract.index import Vocabulary
from memwell.store.fts5_tokenizer import Fts5Tokenizer
from memwell.store.sqlite.fts import match_text
from memwell.store.words.tree import Condition

_LAST_CHARACTER = "\U0010ffff"
_LARGE = 20_000
"""From this many chunks on, the frequencies of common words are stored: FTS5 counts a word by
walking through all its postings, which takes a millisecond or two for each common word."""
_COMMON = 0.02
"""A word is common if at least this share of the chunks holds it."""
_OUTDATED = 1.25
"""The stored frequencies are renewed when the index has grown or shrunk by this factor."""


class SqliteVocabulary(Vocabulary):
    """The vocabulary of one state of an index in SQLite."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._frequencies: dict[str, int] = {}

    @cached_property
    def total(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM chunks").get)

    @cached_property
    def _tokenizer(self) -> Fts5Tokenizer:
        return Fts5Tokenizer(self._connection)

    def tokens(self, text: str) -> list[tuple[str, str]]:
        return self._tokenizer.query_tokens(text)

    def document_frequency(self, token: str) -> int:
        if token not in self._frequencies:
            execute = self._connection.execute
            frequency = execute("SELECT rows FROM common_words WHERE term = ?", (token,)).get
            if frequency is None:
                frequency = execute("SELECT doc FROM vocabulary WHERE term = ?", (token,)).get
            self._frequencies[token] = int(frequency or 0)
        return self._frequencies[token]

    def prefix_frequency(self, start: str) -> int:
        frequency = self._connection.execute(
            "SELECT sum(doc) FROM vocabulary WHERE term >= ? AND term < ?",
            (start, start + _LAST_CHARACTER),
        ).get
        return int(frequency or 0)

    def occurs(self, condition: Condition) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1", (match_text(condition),)
        ).get
        return found is not None


def count_common_words(connection: apsw.Connection) -> None:
    """Store the frequencies of the common words of a large index, unless they are still right."""
    total = SqliteVocabulary(connection).total
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
