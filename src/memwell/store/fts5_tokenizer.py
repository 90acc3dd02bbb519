"""FTS5's tokenizer, which every store uses: so all of them find the same words."""

from __future__ import annotations

import shlex
from typing import Any

import apsw

from memwell.store.words.normalise import TOKENIZER, indexed_text


def open_tokenizer(connection: apsw.Connection) -> apsw.FTS5Tokenizer:
    """Return the tokenizer, which belongs to the connection."""
    name, *arguments = shlex.split(TOKENIZER)
    return connection.fts5_tokenizer(name, arguments)


def tokenize_query(tokenizer: apsw.FTS5Tokenizer, text: str) -> list[tuple[str, str]]:
    """Return each token of a query's text as it is indexed, beside the letters it came from."""
    data = indexed_text(text).encode("utf-8", "replace")
    found: Any = tokenizer(data, apsw.FTS5_TOKENIZE_QUERY, None)
    return [(token, data[start:end].decode()) for start, end, token in found]
