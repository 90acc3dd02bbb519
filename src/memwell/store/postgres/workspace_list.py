"""What lies beside an index in PostgreSQL: the list of workspaces, resting providers, the cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from memwell.hashing import digest_of
from memwell.store.contract import override
from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.values import Cooldown, Workspace, cooldown_seconds
from memwell.store.contract.vectors import Cooldowns, VectorCache
from memwell.store.postgres.server import Server, Session
from memwell.store.postgres.sql import of_agent

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_TRIMMED_TO = 0.9


class WorkspaceTable(WorkspaceList):
    """The list of workspaces of one agent."""

    def __init__(self, server: Server, agent: str) -> None:
        self._server = server
        self._agent = agent

    @override
    def list_all(self) -> list[Workspace]:
        rows = self._server.rows(
            self._agent,
            f"SELECT root, conventional, include FROM registered r WHERE {of_agent('r')} ORDER BY root",
        )
        return [
            Workspace(root, conventional, tuple(include)) for root, conventional, include in rows
        ]

    @override
    def put(self, entry: Workspace) -> Workspace:
        self._server.rows(
            self._agent,
            """
            INSERT INTO registered (tenant, agent, root, conventional, include)
            VALUES (%(tenant)s, %(agent)s, %(root)s, %(conventional)s, %(include)s)
            ON CONFLICT (tenant, agent, root) DO UPDATE
                SET conventional = excluded.conventional, include = excluded.include
            """,
            root=entry.root,
            conventional=entry.conventional,
            include=[*entry.include],
        )
        return entry

    @override
    def remove(self, root: str) -> None:
        statement = f"DELETE FROM registered r WHERE {of_agent('r')} AND r.root = %(root)s"
        self._server.rows(self._agent, statement, root=root)


class PostgresCooldowns(Cooldowns):
    """The list of providers that are left alone."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @override
    def get(self, provider: str) -> Cooldown | None:
        row = self._session.row(
            "SELECT provider, until, failures, unavailable, reason FROM rests r"
            f" WHERE {of_agent('r')} AND r.provider = %(provider)s",
            provider=provider,
        )
        return Cooldown(*row) if row else None

    @override
    def record_failure(
        self,
        provider: str,
        reason: str,
        now: float,
        *,
        unavailable: bool = False,
        at_least: float = 0.0,
    ) -> None:
        before = self.get(provider)
        failures = (before.failures if before else 0) + 1
        self._session.run(
            """
            INSERT INTO rests (tenant, agent, provider, until, failures, unavailable, reason)
            VALUES (%(tenant)s, %(agent)s, %(provider)s, %(until)s, %(failures)s,
                    %(unavailable)s, %(reason)s)
            ON CONFLICT (tenant, agent, provider) DO UPDATE
                SET until = excluded.until, failures = excluded.failures,
                    unavailable = excluded.unavailable, reason = excluded.reason
            """,
            provider=provider,
            until=now + max(cooldown_seconds(failures), at_least),
            failures=failures,
            unavailable=unavailable,
            reason=reason,
        )

    @override
    def clear(self, provider: str) -> None:
        self._session.run(
            f"DELETE FROM rests r WHERE {of_agent('r')} AND r.provider = %(provider)s",
            provider=provider,
        )

    @override
    def clear_all(self) -> None:
        self._session.run(f"DELETE FROM rests r WHERE {of_agent('r')}")


class PostgresVectorCache(VectorCache):
    """Vectors by text, for one agent."""

    def __init__(self, server: Server, agent: str, most_bytes: int) -> None:
        self._server = server
        self._agent = agent
        self._most_bytes = most_bytes

    @override
    def get(self, fingerprint: str, dimensions: int, texts: Sequence[str]) -> dict[str, Matrix]:
        import numpy as np

        by_digest = {digest_of(text): text for text in texts}
        rows = self._server.rows(
            self._agent,
            f"SELECT digest, vectors FROM cached c WHERE {of_agent('c')}"
            " AND c.digest = ANY(%(digests)s) AND c.fingerprint = %(fingerprint)s",
            digests=[*by_digest],
            fingerprint=fingerprint,
        )
        return {
            by_digest[digest]: np.frombuffer(blob, dtype="<f4").reshape(-1, dimensions)
            for digest, blob in rows
        }

    @override
    def put(self, fingerprint: str, vectors: Iterable[tuple[str, Matrix]]) -> None:
        rows = {digest_of(text): matrix.astype("<f4").tobytes() for text, matrix in vectors}
        self._server.rows(
            self._agent,
            """
            INSERT INTO cached (tenant, agent, fingerprint, digest, vectors)
            SELECT %(tenant)s, %(agent)s, %(fingerprint)s, *
            FROM unnest(%(digests)s::bytea[], %(vectors)s::bytea[]) ORDER BY 4
            ON CONFLICT (tenant, agent, digest, fingerprint)
                DO UPDATE SET vectors = excluded.vectors, used = excluded.used
            """,
            fingerprint=fingerprint,
            digests=[*rows],
            vectors=[*rows.values()],
        )

    @override
    def forget(self, digests: Iterable[bytes]) -> bool:
        """Delete the vectors of texts."""
        statement = f"DELETE FROM cached c WHERE {of_agent('c')} AND c.digest = ANY(%(digests)s)"
        self._server.rows(self._agent, statement, digests=[*digests])
        return True

    @override
    def trim(self) -> None:
        with self._server.writing(self._agent) as session:
            size = session.value(f"SELECT sum(length(vectors)) FROM cached c WHERE {of_agent('c')}")
            if (size or 0) > self._most_bytes:
                session.run(
                    f"""
                    DELETE FROM cached c USING (
                        SELECT digest, fingerprint,
                               sum(length(vectors)) OVER (ORDER BY used DESC) AS so_far
                        FROM cached c WHERE {of_agent("c")}
                    ) AS old
                    WHERE {of_agent("c")} AND c.digest = old.digest
                        AND c.fingerprint = old.fingerprint AND old.so_far > %(most)s
                    """,
                    most=int(self._most_bytes * _TRIMMED_TO),
                )

    @override
    def close(self) -> None:
        """Nothing: the connections are the server's."""
