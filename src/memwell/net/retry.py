"""Retry with back-off: try again after a growing random pause, or after the pause asked for."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from memwell.errors import ProviderFailing

T = TypeVar("T")
Sleep = Callable[[float], object]
"""Waits for so many seconds; returns True to stop the work (`threading.Event.wait`)."""
JITTER = random.Random()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is sent, and the seconds between two attempts."""

    attempts: int = 5
    first: float = 1.0
    """The upper bound of the first pause; it doubles with every further pause."""
    longest: float = 60.0
    longest_asked: float = 120.0
    """A server that asks for a longer pause than this (Retry-After) is given up at once."""

    def run(
        self,
        attempt: Callable[[], T],
        *,
        attempts: int | None = None,
        deadline: float = math.inf,
        sleep: Sleep = time.sleep,
        jitter: random.Random = JITTER,
        clock: Callable[[], float] = time.monotonic,
    ) -> T:
        """Return the result of an attempt; repeat one that raises `ProviderFailing`.

        No pause lasts until the `deadline`, a time of the `clock`.
        """
        for number in itertools.count(1):
            try:
                return attempt()
            except ProviderFailing as failure:
                if number >= (self.attempts if attempts is None else attempts):
                    raise
                pause = self._pause(number, failure.retry_after, jitter)
                if pause > self.longest_asked or clock() + pause >= deadline:
                    raise
                if sleep(pause) is True:
                    raise ProviderFailing(
                        f"Stopped before another attempt: {failure.what}", failure.remedy
                    ) from None
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, number: int, asked: float | None, jitter: random.Random) -> float:
        if asked is not None:
            return asked
        # The whole pause is random, so that many callers do not come back together.
        return jitter.uniform(0, min(self.longest, self.first * 2 ** (number - 1)))
