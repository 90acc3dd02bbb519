"""Providers that failed and are not called for a while, in PostgreSQL."""

from __future__ import annotations

from dataclasses import asdict

from memwell.store.contract.values import Cooldown
from memwell.store.contract.vectors import Cooldowns
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import delete_sql, insert_sql, of_agent

COOLDOWNS = (
    f"SELECT provider, until, failures, unavailable, reason FROM cooldowns d WHERE {of_agent('d')}"
)


class PostgresCooldowns(Cooldowns):
    """The cooldowns of one agent's providers, inside one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, provider: str) -> Cooldown | None:
        cooldowns = (Cooldown(*row) for row in self._session.rows(COOLDOWNS))
        return next((one for one in cooldowns if one.provider == provider), None)

    def put(self, cooldown: Cooldown) -> None:
        row = asdict(cooldown)
        self._session.run(insert_sql("cooldowns", row, key=("provider",)), **row)

    def clear(self, provider: str) -> None:
        self._session.run(delete_sql("cooldowns", "provider = %(provider)s"), provider=provider)

    def clear_all(self) -> None:
        self._session.run(delete_sql("cooldowns"))
