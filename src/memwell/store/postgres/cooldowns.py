"""Providers that failed and are not called for a while, in PostgreSQL."""

from __future__ import annotations

from memwell.store.contract.values import Cooldown, cooldown_seconds
from memwell.store.contract.vectors import Cooldowns
from memwell.store.postgres.server import Session
from memwell.store.postgres.sql import of_agent


class PostgresCooldowns(Cooldowns):
    """The cooldowns of one agent's providers, inside one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, provider: str) -> Cooldown | None:
        row = self._session.row(
            "SELECT provider, until, failures, unavailable, reason FROM cooldowns d"
            f" WHERE {of_agent('d')} AND d.provider = %(provider)s",
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
        before = self.get(provider)
        failures = (before.failures if before else 0) + 1
        self._session.run(
            """
            INSERT INTO cooldowns (tenant, agent, provider, until, failures, unavailable, reason)
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
        self._session.run(
            f"DELETE FROM cooldowns d WHERE {of_agent('d')} AND d.provider = %(provider)s",
            provider=provider,
        )

    def clear_all(self) -> None:
        self._session.run(f"DELETE FROM cooldowns d WHERE {of_agent('d')}")
