"""Where a large agent's words are looked for: pg_textsearch chooses, postings score.

A query in plain words takes its candidates from the index of texts instead of from the postings of
its common words. Their scores are worked out as ever, so that they stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from memwell.store.contract.query import WordQuery
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.server import Session
from memwell.store.postgres.sought import Row, Sought, read
from memwell.store.postgres.sql import Values, of_agent
from memwell.store.postgres.texts import encode_token
from memwell.store.postgres.tokenizer import tokenize
from memwell.store.postgres.vocabulary import Vocabulary
from memwell.store.words.query import Clause

_SPARE = 3
"""Candidates for each chunk that is wanted, since pg_textsearch weighs a little differently."""
_SPARE_OF_FILTERS = 2
"""And for each of these, where filters may take some away."""


def find_candidates(
    session: Session, lexicon: Vocabulary, query: WordQuery, words: Sequence[Clause], wanted: int
) -> list[int]:
    """Return chunks among which the best are; none where postings have to be asked."""
    if not lexicon.index or query.none_of:
        return []
    tokens = [token for word in words for token in _plain(read(word.expression, tokenize))]
    if len(tokens) < len(words):
        return []
    most = _SPARE * wanted
    values = Values(index=lexicon.index, text=" ".join(map(encode_token, tokens)), most=most)
    filters = filter_sql(query.filters, values)
    values["looked_at"] = most * _SPARE_OF_FILTERS if filters else most
    among = f"""
        JOIN chunks c ON {of_agent("c")} AND c.id = s.chunk_id
        JOIN notes n ON {of_agent("n")} AND n.id = c.note_id WHERE true {filters}
    """
    # Not by WITH: pg_textsearch would work each score out a second time, from the text.
    rows = session.rows_inlined(
        f"""
        SELECT s.chunk_id FROM (
            SELECT s.chunk_id, row_number() OVER () AS rank FROM (
                SELECT s.chunk_id FROM spoken s WHERE {of_agent("s")}
                ORDER BY s.tokens <@> to_bm25query(%(text)s, %(index)s) LIMIT %(looked_at)s
            ) AS s
        ) AS s {among if filters else ""} ORDER BY s.rank LIMIT %(most)s
        """,
        **values,
    )
    return [chunk_id for (chunk_id,) in rows] if len(rows) == most else []


def _plain(one: Sought) -> tuple[str, ...]:
    """Return the token, where just one is looked for."""
    if isinstance(one, Row) and len(one.tokens) == 1 and not one.prefix:
        return one.tokens
    return ()
