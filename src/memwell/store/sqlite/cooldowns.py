"""Cooldowns of providers in index.db."""

from __future__ import annotations

import apsw

from memwell.store.contract.values import Cooldown, cooldown_seconds
from memwell.store.contract.vectors import Cooldowns


class SqliteCooldowns(Cooldowns):
    """Reads and writes cooldowns over one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def get(self, provider: str) -> Cooldown | None:
        row = self._connection.execute(
            "SELECT provider, until, failures, unavailable, reason FROM rests WHERE provider = ?",
            (provider,),
        ).fetchone()
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
        before = self._connection.execute(
            "SELECT failures FROM rests WHERE provider = ?", (provider,)
        ).get
        failures = int(before or 0) + 1
        seconds = cooldown_seconds(failures)
        self._connection.execute(
            "INSERT OR REPLACE INTO rests (provider, until, failures, unavailable, reason)"
            " VALUES (?, ?, ?, ?, ?)",
            (provider, now + max(seconds, at_least), failures, unavailable, reason),
        )

    def clear(self, provider: str) -> None:
        self._connection.execute("DELETE FROM rests WHERE provider = ?", (provider,))

    def clear_all(self) -> None:
        self._connection.execute("DELETE FROM rests")
