"""Vectors by text, kept in PostgreSQL so that no text is embedded twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from memwell.files import digest_of
from memwell.store.contract.vectors import VectorCache
from memwell.store.postgres.server import Server
from memwell.store.postgres.sql import delete_sql, of_agent

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_TRIMMED_TO = 0.9
"""The share of the limit that a trimmed cache keeps."""


class PostgresVectorCache(VectorCache):
    """The vectors of texts, for one agent."""

    def __init__(self, server: Server, agent: str, most_bytes: int) -> None:
        self._server = server
        self._agent = agent
        self._most_bytes = most_bytes

    def get(self, fingerprint: str, dimensions: int, texts: Sequence[str]) -> dict[str, Matrix]:
        from memwell.store.contract.quantisation import unpack

        by_digest = {digest_of(text): text for text in texts}
        rows = self._server.rows(
            self._agent,
            f"SELECT digest, vectors FROM vector_cache c WHERE {of_agent('c')}"
            " AND c.digest = ANY(%(digests)s) AND c.fingerprint = %(fingerprint)s",
            digests=[*by_digest],
            fingerprint=fingerprint,
        )
        return {by_digest[digest]: unpack(blob, dimensions) for digest, blob in rows}

    def put(self, fingerprint: str, vectors: Iterable[tuple[str, Matrix]]) -> None:
        from memwell.store.contract.quantisation import pack

        rows = {digest_of(text): pack(matrix) for text, matrix in vectors}
        self._server.rows(
            self._agent,
            """
            INSERT INTO vector_cache (tenant, agent, fingerprint, digest, vectors)
            SELECT %(tenant)s, %(agent)s, %(fingerprint)s, *
            FROM unnest(%(digests)s::bytea[], %(vectors)s::bytea[]) ORDER BY 4
            ON CONFLICT (tenant, agent, digest, fingerprint)
                DO UPDATE SET vectors = excluded.vectors, used = excluded.used
            """,
            fingerprint=fingerprint,
            digests=[*rows],
            vectors=[*rows.values()],
        )

    def forget(self, digests: Iterable[bytes]) -> bool:
        statement = delete_sql("vector_cache", "t.digest = ANY(%(digests)s)")
        if self._server.is_bound_to_scopes:
            return False  # the next process whose role is not bound does it
        self._server.rows(self._agent, statement, digests=[*digests])
        return True

    def trim(self) -> None:
        with self._server.writing(self._agent) as session:
            size = session.value(
                f"SELECT sum(length(vectors)) FROM vector_cache c WHERE {of_agent('c')}"
            )
            if (size or 0) > self._most_bytes:
                session.run(
                    f"""
                    DELETE FROM vector_cache c
                    WHERE {of_agent("c")} AND (c.digest, c.fingerprint) IN (
                        SELECT old.digest, old.fingerprint FROM (
                            SELECT digest, fingerprint,
                                   sum(length(vectors)) OVER (ORDER BY used DESC) AS so_far
                            FROM vector_cache c WHERE {of_agent("c")}
                        ) AS old WHERE old.so_far > %(most)s
                    )
                    """,
                    most=int(self._most_bytes * _TRIMMED_TO),
                )

    def close(self) -> None:
        """Do nothing: the connections belong to the server."""
