"""FTS5's tokenizer, which every store uses: so all of them find the same words."""

from __future__ import annotations

import shlex
import threading
from typing import Any

import apsw

from memwell.store.words.normalise import TOKENIZER, indexed_text

_NAME, *_ARGUMENTS = shlex.split(TOKENIZER)


class Fts5Tokenizer:
    """Splits text into tokens; it belongs to a connection of SQLite."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._tokenizer = connection.fts5_tokenizer(_NAME, _ARGUMENTS)

    def query_tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of a query's text as it is indexed, beside the letters it came from."""
        data = indexed_text(text).encode("utf-8", "replace")
        found: Any = self._tokenizer(data, apsw.FTS5_TOKENIZE_QUERY, None)
        return [(token, data[start:end].decode()) for start, end, token in found]

    def column_tokens(self, text: str) -> list[str]:
        """Return the tokens that FTS5 indexes for the text of a column (see `WordRow`)."""
        data = text.encode("utf-8", "replace")
        found: Any = self._tokenizer(data, apsw.FTS5_TOKENIZE_DOCUMENT, None)
        return [token for _, _, token in found]


class _Local(threading.local):
    """A tokenizer for each thread, with a connection that it belongs to."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.tokenizer = Fts5Tokenizer(self.connection)


_local = _Local()


def thread_tokenizer() -> Fts5Tokenizer:
    """Return the tokenizer of this thread, for a store without a connection of SQLite."""
    return _local.tokenizer
