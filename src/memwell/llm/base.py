"""What a language model is to memwell, how long it is asked, and what can go wrong.

LlmError
├── LlmUnavailable   somebody has to act: the key, the address, the model, the bill
├── LlmFailing       it may work another time: overload, a broken line, an answer of no use
│   └── LlmRefused   it will not answer this; something else it may
└── BudgetSpent      the command has asked as much as it may

Requests, answers and their meaning are those of the remote providers of vectors (`memwell.embed`).
No message holds a key, what was sent, or more of an address than its host.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from memwell.config.providers import LlmSettings
from memwell.embed.base import BatchRefused, ProviderFailing, ProviderUnavailable, WrongAnswer
from memwell.embed.batch import RetryPolicy, Sleep
from memwell.errors import MemwellError

T = TypeVar("T")

_CHANCE = random.Random()
_PATIENCE = RetryPolicy(attempts=3, first=0.5, longest=8.0, longest_asked=60.0)
_NEARLY = 0.95
"""Of its seconds: after so much an attempt has used up its time, as clocks go."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote, and the tokens that it cost."""

    text: str
    input_tokens: int
    output_tokens: int


class Chat(Protocol):
    """A language model; safe to share between threads."""

    @property
    def name(self) -> str:
        """The provider's name."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def address(self) -> str:
        """The host that is asked."""

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        """Return the answer to `user`, under the instructions of `system`."""


class LlmError(MemwellError):
    """A language model could not do what was asked."""


class LlmUnavailable(LlmError):
    """It cannot be used as things are: no key, a wrong one, or no such model."""


class LlmFailing(LlmError):
    """It did not answer, or not with text; another time it may."""

    def __init__(self, what: str, remedy: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(what, remedy)
        self.retry_after = retry_after
        """Seconds that the provider asked to be left alone."""


class LlmRefused(LlmFailing):
    """It will not answer this request: too long, or not to its liking. Another it may."""


class BudgetSpent(LlmError):
    """A command has asked as often, or for as much, as it may."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long an answer is waited for, and how often it is asked for again."""

    timeout: float = LlmSettings.timeout
    """Seconds a request."""
    total: float | None = None
    """Seconds for all tries and the pauses between; by default those of three requests."""
    patience: RetryPolicy = _PATIENCE
    sleep: Sleep = time.sleep
    jitter: random.Random = _CHANCE

    @property
    def most(self) -> float:
        """The seconds after which nothing more is tried."""
        return 3 * self.timeout if self.total is None else self.total

    def waits(self, tries: int, asked: float | None, until: float) -> bool:
        """Pause before the next try, as long as `asked` or by chance; False if it is not to be."""
        longest = min(self.patience.longest, self.patience.first * 2 ** (tries - 1))
        pause = self.jitter.uniform(0, longest) if asked is None else asked
        if pause > self.patience.longest_asked or time.monotonic() + pause >= until:
            return False
        return self.sleep(pause) is not True


DEFAULT_TIMEOUTS = Timeouts()


def with_retries(attempt: Callable[[float], T], pace: Timeouts) -> T:
    """Return what an `attempt`, given its seconds, comes to; one that fails is made again.

    Not so one that used up its time, as the next would, nor an answer that makes no sense: with
    temperature 0 the next is the same, and is paid for as well.
    """
    until, tries = time.monotonic() + pace.most, 0
    with translate_errors():
        while True:
            begun, tries = time.monotonic(), tries + 1
            seconds = max(0.001, min(pace.timeout, round(until - begun, 3)))
            try:
                return attempt(seconds)
            except WrongAnswer:
                raise
            except ProviderFailing as failure:
                late = time.monotonic() - begun >= _NEARLY * seconds
                last = tries >= pace.patience.attempts
                if late or last or not pace.waits(tries, failure.retry_after, until):
                    raise


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Turn the errors of the shared code into those of this package."""
    try:
        yield
    except ProviderUnavailable as error:
        raise LlmUnavailable(error.what, error.remedy) from None
    except ProviderFailing as error:
        raise LlmFailing(error.what, error.remedy, retry_after=error.retry_after) from None
    except BatchRefused as error:
        remedy = error.remedy or "Give it less text, or name another model"
        raise LlmRefused(error.what, remedy) from None
