"""Postings as the schemas before step 10 have them: a row for each token of each chunk.

A database keeps them until its owner migrates it, and an agent until its index is written then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memwell.store.postgres.postings import LAST
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import array, delete_sql, of_agent
from memwell.store.postgres.tokenizer import ChunkTokens

_BATCH = 10_000
"""Rows that are sent at a time."""


def change_rows(
    session: Session,
    removed: Mapping[int, ChunkTokens],
    added: Mapping[int, ChunkTokens],
    owners: Mapping[int, str],
) -> None:
    """Delete the postings of removed chunks, and insert those of added ones with their owners."""
    gone = [(token, chunk_id) for chunk_id, tokens in removed.items() for token in tokens.places]
    if gone:
        session.run(
            f"""
            DELETE FROM postings p
            USING unnest(%(tokens)s::text[], %(chunks)s::bigint[]) AS gone (token, chunk_id)
            WHERE {of_agent("p")} AND p.token = gone.token AND p.chunk_id = gone.chunk_id
            """,
            tokens=[token for token, _ in gone],
            chunks=[chunk_id for _, chunk_id in gone],
        )
    rows = sorted(
        (
            token,
            chunk_id,
            frequency,
            tokens.length,
            f"{{{','.join(map(str, tokens.places[token]))}}}",
            owners[chunk_id],
        )
        for chunk_id, tokens in added.items()
        for token, frequency in tokens.frequencies()
    )
    with session.connection.pipeline():  # the next batch is built while one is sent
        for start in range(0, len(rows), _BATCH):
            _insert(session, rows[start : start + _BATCH])


def _insert(session: Session, rows: Sequence[tuple[str, int, float, int, str, str]]) -> None:
    """Insert rows. PostgreSQL refuses COPY into a table with row-level security."""
    names = ("tokens", "chunks", "frequencies", "lengths", "places", "owners")
    session.run(
        """
        INSERT INTO postings (tenant, agent, token, chunk_id, frequency, length, places, owner)
        SELECT %(tenant)s, %(agent)s, token, chunk_id, frequency, length, places::int[], owner
        FROM unnest(%(tokens)s::text[], %(chunks)s::bigint[], %(frequencies)s::real[],
                    %(lengths)s::int[], %(places)s::text[], %(owners)s::text[])
            AS new (token, chunk_id, frequency, length, places, owner)
        """,
        **dict(zip(names, map(array, zip(*rows, strict=True)), strict=True)),
    )


def convert_rows(session: Session, block: int) -> None:
    """Store the postings of an agent as arrays, with `block` chunks in each block."""
    session.run(delete_sql("posting_lists"))
    session.run(
        f"""
        WITH numbered AS (
            SELECT c.id, (row_number() OVER (ORDER BY c.id) - 1) / %(block)s AS number
            FROM chunks c WHERE {of_agent("c")}
        ), blocks AS (
            SELECT min(b.id) AS id, count(*) AS size FROM numbered b GROUP BY b.number
        )
        UPDATE indexes i
        SET blocks = coalesce((SELECT array_agg(b.id ORDER BY b.id) FROM blocks b), '{{}}'),
            last_block_chunks = coalesce(
                (SELECT b.size FROM blocks b ORDER BY b.id DESC LIMIT 1), 0
            )
        WHERE {of_agent("i")}
        """,
        block=block,
    )
    session.run(
        f"""
        INSERT INTO posting_lists (tenant, agent, token, owner, block, chunks, lengths, places)
        SELECT %(tenant)s, %(agent)s, p.token, p.owner, p.block,
               string_agg(int4send((p.chunk_id - p.block)::int), '' ORDER BY p.chunk_id),
               string_agg(int4send(p.length), '' ORDER BY p.chunk_id),
               string_agg(p.packed, '' ORDER BY p.chunk_id)
        FROM (
            SELECT p.token, p.owner, p.chunk_id, p.length,
                   i.blocks[width_bucket(p.chunk_id, i.blocks)] AS block, (
                       SELECT string_agg(int4send((
                           place - CASE WHEN n = cardinality(p.places) THEN {LAST} ELSE 0 END
                       )::int), '' ORDER BY n)
                       FROM unnest(p.places) WITH ORDINALITY AS at (place, n)
                   ) AS packed
            FROM postings p JOIN indexes i ON {of_agent("i")} WHERE {of_agent("p")}
        ) AS p
        GROUP BY p.token, p.owner, p.block
        """
    )
    session.run(delete_sql("postings"))
