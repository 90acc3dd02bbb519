"""Providers that failed are left alone for a while, by every process (a circuit breaker)."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

FIRST_SECONDS = 30.0
MOST_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Cooldown:
    """How a provider failed, and until when (seconds since 1970) it is left alone."""

    provider: str
    until: float
    failures: int
    unavailable: bool
    """It cannot be used at all (a key was refused), so another takes its place."""
    reason: str

    def is_active(self, now: float) -> bool:
        """Whether it is still to be left alone."""
        return self.until > now


def cooldown_seconds(failures: int) -> float:
    """Return how long a provider is left alone that failed so many times in a row."""
    return min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** (failures - 1))


class Cooldowns:
    """The list of providers that are left alone."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def get(self, provider: str) -> Cooldown | None:
        """Return how a provider failed last, if it has not answered since."""
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
        """Leave a provider alone: twice as long with each failure in a row."""
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
        """Forget the failures of a provider that answers, or that the user wants tried again."""
        self._connection.execute("DELETE FROM rests WHERE provider = ?", (provider,))

    def clear_all(self) -> None:
        """Let every provider be tried again."""
        self._connection.execute("DELETE FROM rests")
