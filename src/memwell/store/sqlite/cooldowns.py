"""Cooldowns of providers in index.db."""

from __future__ import annotations

from dataclasses import astuple

import apsw

from memwell.store.contract.values import Cooldown
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

    def put(self, cooldown: Cooldown) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO rests (provider, until, failures, unavailable, reason)"
            " VALUES (?, ?, ?, ?, ?)",
            astuple(cooldown),
        )

    def clear(self, provider: str) -> None:
        self._connection.execute("DELETE FROM rests WHERE provider = ?", (provider,))

    def clear_all(self) -> None:
        self._connection.execute("DELETE FROM rests")
