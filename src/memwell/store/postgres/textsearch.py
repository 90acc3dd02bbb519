"""Candidates for keyword search in large agents: pg_textsearch chooses them, postings score them.

A query of plain words takes its candidates from the agent's text index instead of from the postings
of its common words. The postings score them as they score all chunks, so the scores stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memwell.store.contract.query import WordQuery
from memwell.store.postgres.agent_indexes import agent_key, hash_agent
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.postings import MANY_POSTINGS
from memwell.store.postgres.sql import Values, of_agent
from memwell.store.postgres.texts import encode_token
from memwell.store.words.query import Clause
from memwell.store.words.tree import Condition, Term

if TYPE_CHECKING:
    from memwell.store.postgres.keywords import PostgresKeywords

_SPARE = 1.5
"""Candidates for each chunk that is wanted, since pg_textsearch weighs a little differently."""
_SPARE_OF_FILTERS = 2
"""Chunks looked at for each candidate, if filters may reject some."""


def find_candidates(
    vocabulary: PostgresKeywords,
    query: WordQuery,
    clauses: Sequence[Clause],
    wanted: int,
) -> list[int]:
    """Return chunks that include the best; [] if the postings must be searched instead."""
    postings = sum(clause.document_frequency for clause in clauses)
    if not vocabulary.text_index or query.none_of or postings <= MANY_POSTINGS:
        return []
    tokens = [token for clause in clauses for token in _single_token(clause.condition)]
    if len(tokens) < len(clauses):
        return []
    most = int(_SPARE * wanted)
    session = vocabulary.session
    values = Values(
        index=vocabulary.text_index,
        text=" ".join(map(encode_token, tokens)),
        most=most,
        agent_key=hash_agent(session.tenant, session.agent),
    )
    filters = filter_sql(query.filters, values)
    values["looked_at"] = most * _SPARE_OF_FILTERS if filters else most
    allowed = f"""
        JOIN chunks c ON {of_agent("c")} AND c.id = s.chunk_id
        JOIN notes n ON {of_agent("n")} AND n.id = c.note_id WHERE true {filters}
    """
    # Not by WITH: pg_textsearch would work each score out a second time, from the text.
    rows = session.rows_inlined(
        f"""
        SELECT s.chunk_id FROM (
            SELECT s.chunk_id, row_number() OVER () AS rank FROM (
                SELECT s.chunk_id FROM chunk_texts s
                WHERE {of_agent("s")} AND {agent_key("s")} = %(agent_key)s
                ORDER BY s.tokens <@> to_bm25query(%(text)s, %(index)s) LIMIT %(looked_at)s
            ) AS s
        ) AS s {allowed if filters else ""} ORDER BY s.rank LIMIT %(most)s
        """,
        **values,
    )
    return [chunk_id for (chunk_id,) in rows] if len(rows) == most else []


def _single_token(condition: Condition) -> tuple[str, ...]:
    """Return the token of a condition that is just one token, else nothing."""
    match condition:
        case Term((token,), False):
            return (token,)
        case _:
            return ()
