"""Providers that failed are left alone for a while, by every process (a circuit breaker)."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

FIRST_SECONDS = 30.0
MOST_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Rest:
    """How a provider failed, and until when (seconds since 1970) it is left alone."""

    provider: str
    until: float
    failures: int
    unavailable: bool
    """It cannot be used at all (a key was refused), so another takes its place."""
    reason: str

    def holds(self, now: float) -> bool:
        """Whether it is still to be left alone."""
        return self.until > now


def seconds_after(failures: int) -> float:
    """Return how long a provider is left alone that failed so many times in a row."""
    return min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** (failures - 1))


class Rests:
    """The list of providers that are left alone."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def of(self, provider: str) -> Rest | None:
        """Return how a provider failed last, if it has not answered since."""
        row = self._connection.execute(
            "SELECT provider, until, failures, unavailable, reason FROM rests WHERE provider = ?",
            (provider,),
        ).fetchone()
        return Rest(*row) if row else None

    def failed(
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
        seconds = seconds_after(failures)
        self._connection.execute(
            "INSERT OR REPLACE INTO rests (provider, until, failures, unavailable, reason)"
            " VALUES (?, ?, ?, ?, ?)",
            (provider, now + max(seconds, at_least), failures, unavailable, reason),
        )

    def answered(self, provider: str) -> None:
        """Forget the failures of a provider that answers, or that the user wants tried again."""
        self._connection.execute("DELETE FROM rests WHERE provider = ?", (provider,))

    def all_over(self) -> None:
        """Let every provider be tried again."""
        self._connection.execute("DELETE FROM rests")
