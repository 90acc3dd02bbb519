"""What lies beside an index in PostgreSQL: the list of workspaces, resting providers, the cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.hashing import digest_of
from memwell.store.postgres.server import Server, Session
from memwell.store.postgres.sql import of_agent
from memwell.store.sqlite.cooldowns import Cooldown, cooldown_seconds
from memwell.store.sqlite.workspace_list import Workspace, find_innermost

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_TRIMMED_TO = 0.9


class WorkspaceTable:
    """The list of workspaces of one agent."""

    def __init__(self, server: Server, agent: str) -> None:
        self._server = server
        self._agent = agent

    def list_all(self) -> list[Workspace]:
        """Return the workspaces; none if there is no list yet."""
        rows = self._server.rows(
            self._agent,
            f"SELECT root, conventional, include FROM registered r WHERE {of_agent('r')} ORDER BY root",
        )
        return [
            Workspace(root, conventional, tuple(include)) for root, conventional, include in rows
        ]

    def find_around(self, path: Path) -> Workspace | None:
        """Return the innermost workspace that contains `path`."""
        return find_innermost(self.list_all(), path)

    def put(self, entry: Workspace) -> Workspace:
        """Add a workspace, or replace the one with the same folder."""
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

    def remove(self, root: str) -> None:
        """Take a workspace off the list."""
        statement = f"DELETE FROM registered r WHERE {of_agent('r')} AND r.root = %(root)s"
        self._server.rows(self._agent, statement, root=root)


class Cooldowns:
    """The list of providers that are left alone."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, provider: str) -> Cooldown | None:
        """Return how a provider failed last, if it has not answered since."""
        row = self._session.row(
            "SELECT provider, until, failures, unavailable, reason FROM rests r"
            f" WHERE {of_agent('r')} AND r.provider = %(provider)s",
            provider=provider,
        )
        return Cooldown(*row) if row else None

    def record_failure(
        self,
        provider: str,
        reason: str,
        now: float,
        *,
        unavailable: bool = False,
        at_least: float = 0.0,
    ) -> None:
        """Leave a provider alone: twice as long with each failure in a row."""
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

    def clear(self, provider: str) -> None:
        """Forget the failures of a provider that answers, or that the user wants tried again."""
        self._session.run(
            f"DELETE FROM rests r WHERE {of_agent('r')} AND r.provider = %(provider)s",
            provider=provider,
        )

    def clear_all(self) -> None:
        """Let every provider be tried again."""
        self._session.run(f"DELETE FROM rests r WHERE {of_agent('r')}")


class VectorCache:
    """Vectors by text, for one agent."""

    def __init__(self, server: Server, agent: str, most_bytes: int) -> None:
        self._server = server
        self._agent = agent
        self._most_bytes = most_bytes

    def get(self, fingerprint: str, dimensions: int, texts: Sequence[str]) -> dict[str, Matrix]:
        """Return the vectors of those texts that were embedded before."""
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

    def put(self, fingerprint: str, vectors: Iterable[tuple[str, Matrix]]) -> None:
        """Keep vectors, or record that they were used again."""
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

    def forget(self, digests: Iterable[bytes]) -> bool:
        """Delete the vectors of texts."""
        statement = f"DELETE FROM cached c WHERE {of_agent('c')} AND c.digest = ANY(%(digests)s)"
        self._server.rows(self._agent, statement, digests=[*digests])
        return True

    def trim(self) -> None:
        """Delete what was not used for longest, where there is too much."""
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

    def close(self) -> None:
        """Nothing: the connections are the server's."""
