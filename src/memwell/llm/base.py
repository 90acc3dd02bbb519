"""The contract of a language model, and how long memwell waits for its answer.

The requests are sent by `memwell.net`, whose errors become those of a language model here.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from memwell import errors
from memwell.config.providers import LlmSettings
from memwell.net.retry import JITTER, RetryPolicy, Sleep

T = TypeVar("T")

_RETRY = RetryPolicy(attempts=3, first=0.5, longest=8.0, longest_asked=60.0)
_ALL_OF_IT = 0.95
"""An attempt that took this share of its seconds ran out of time; clocks are not exact."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The text that a model wrote, and the tokens that it cost."""

    text: str
    input_tokens: int
    output_tokens: int


class Chat(Protocol):
    """A language model; threads may share it."""

    @property
    def name(self) -> str:
        """The provider's name."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def address(self) -> str:
        """The host that answers."""

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        """Return the answer to `user`, under the instructions of `system`."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long memwell waits for an answer, and how often it repeats the request."""

    timeout: float = LlmSettings.timeout
    """Seconds for one request."""
    total: float | None = None
    """Seconds for all attempts and the pauses between them; by default three times `timeout`."""
    retry: RetryPolicy = _RETRY
    sleep: Sleep = time.sleep
    jitter: random.Random = JITTER
    clock: Callable[[], float] = time.monotonic

    @property
    def total_seconds(self) -> float:
        """The seconds after which no further attempt begins."""
        return 3 * self.timeout if self.total is None else self.total


DEFAULT_TIMEOUTS = Timeouts()


def with_retries(attempt: Callable[[float], T], timeouts: Timeouts) -> T:
    """Return the result of `attempt`, which is given its seconds; repeat an attempt that fails.

    Two failures are not repeated. An attempt that used up its seconds would use them up again. A
    wrong answer would be the same again, since the temperature is 0, and would cost as much.
    """
    clock = timeouts.clock
    deadline = clock() + timeouts.total_seconds

    def try_once() -> T:
        begun = clock()
        seconds = max(0.001, min(timeouts.timeout, round(deadline - begun, 3)))
        try:
            return attempt(seconds)
        except errors.ProviderFailing as failure:
            is_late = clock() - begun >= _ALL_OF_IT * seconds
            if is_late or isinstance(failure, errors.WrongAnswer):
                raise _to_llm_error(failure) from None  # which the retry policy lets through
            raise

    with translate_errors():
        return timeouts.retry.run(
            try_once, deadline=deadline, sleep=timeouts.sleep, jitter=timeouts.jitter, clock=clock
        )


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Turn the errors of `memwell.net` into those of a language model."""
    try:
        yield
    except errors.ProviderUnavailable as error:
        raise errors.LlmUnavailable(error.what, error.remedy) from None
    except errors.ProviderFailing as error:
        raise _to_llm_error(error) from None
    except errors.BatchRefused as error:
        remedy = error.remedy or "Send less text, or name another model"
        raise errors.LlmRefused(error.what, remedy) from None


def _to_llm_error(failure: errors.ProviderFailing) -> errors.LlmFailing:
    return errors.LlmFailing(failure.what, failure.remedy, retry_after=failure.retry_after)
