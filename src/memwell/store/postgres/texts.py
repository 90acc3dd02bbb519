"""The tokens of each chunk as one text, which pg_textsearch indexes.

Only agents that have such an index (see agent_indexes.py) have rows in `chunk_texts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import delete_sql, of_agent

TokenCounts = Iterable[tuple[str, float]]
"""Tokens, each with how often it occurs."""


def encode_token(token: str) -> str:
    """Return a token as the text search configuration "simple" leaves it, in every locale.

    The letter in front keeps the parser from reading a number. A token of other scripts, which the
    parser may divide, is written as the hexadecimal digits of its bytes.
    """
    return f"x{token}" if token.isascii() and token.isalnum() else f"y{token.encode().hex()}"


def insert(session: Session, chunks: Mapping[int, TokenCounts]) -> None:
    """Insert the tokens of chunks, except of chunks that have a row already or were deleted."""
    session.run(
        f"""
        INSERT INTO chunk_texts (tenant, agent, chunk_id, tokens, owner)
        SELECT %(tenant)s, %(agent)s, c.id, new.tokens, c.owner
        FROM unnest(%(ids)s::bigint[], %(texts)s::text[]) AS new (id, tokens)
        JOIN chunks c ON {of_agent("c")} AND c.id = new.id
        ON CONFLICT (tenant, agent, chunk_id) DO NOTHING
        """,
        ids=[*chunks],
        texts=[_text(counts) for counts in chunks.values()],
    )


def delete(session: Session, chunk_ids: Sequence[int]) -> None:
    """Delete the texts of chunks."""
    session.run(delete_sql("chunk_texts", "t.chunk_id = ANY(%(ids)s)"), ids=[*chunk_ids])


def _text(counts: TokenCounts) -> str:
    return " ".join(
        encode_token(token) for token, count in counts for _ in range(max(1, round(count)))
    )
