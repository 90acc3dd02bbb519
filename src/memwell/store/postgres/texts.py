"""The tokens of chunks as texts, for an index of pg_textsearch.

Only agents that have such an index (see own.py) have rows in `spoken`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memwell.store.postgres.server import Session
from memwell.store.postgres.sql import of_agent

Counted = Iterable[tuple[str, float]]
"""Tokens, each with how often it occurs."""


def encode_token(token: str) -> str:
    """Return a token as the text search configuration "simple" leaves it, in every locale.

    With a letter before it no number is taken for one; signs of other scripts, which a parser may
    part, are spelled by their bytes.
    """
    return f"x{token}" if token.isascii() and token.isalnum() else f"y{token.encode().hex()}"


def insert(session: Session, chunks: Mapping[int, Counted]) -> None:
    """Write the tokens of chunks; of one that is there already, or gone, nothing."""
    session.run(
        f"""
        INSERT INTO spoken (tenant, agent, chunk_id, tokens, owner)
        SELECT %(tenant)s, %(agent)s, c.id, new.tokens, c.owner
        FROM unnest(%(ids)s::bigint[], %(texts)s::text[]) AS new (id, tokens)
        JOIN chunks c ON {of_agent("c")} AND c.id = new.id
        ON CONFLICT (tenant, agent, chunk_id) DO NOTHING
        """,
        ids=[*chunks],
        texts=[_text(counted) for counted in chunks.values()],
    )


def delete(session: Session, chunk_ids: Sequence[int]) -> None:
    """Take chunks out."""
    session.run(
        f"DELETE FROM spoken s WHERE {of_agent('s')} AND s.chunk_id = ANY(%(ids)s)",
        ids=[*chunk_ids],
    )


def _text(counted: Counted) -> str:
    return " ".join(
        encode_token(token) for token, count in counted for _ in range(max(1, round(count)))
    )
