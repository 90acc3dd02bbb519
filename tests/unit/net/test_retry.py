"""The retry policy on its own, with a clock that only its sleeps move."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from memwell.errors import ProviderFailing, ProviderUnavailable, WrongAnswer
from memwell.net.retry import RetryPolicy
from tests.support.remote_embedders import Clock


class Longest(random.Random):
    """Chooses the longest pause."""

    def uniform(self, a: float, b: float) -> float:
        return b


def failing(*failures: Exception) -> Callable[[], int]:
    """Return an attempt that raises these errors, and then returns the number of attempts."""
    waiting = [*failures]

    def attempt() -> int:
        if waiting:
            raise waiting.pop(0)
        return len(failures) + 1

    return attempt


def test_a_success_is_not_repeated() -> None:
    clock = Clock()
    assert RetryPolicy().run(failing(), sleep=clock.sleep) == 1
    assert clock.slept == []


def test_the_longest_pause_doubles_up_to_a_limit() -> None:
    clock, policy = Clock(), RetryPolicy(attempts=6, first=1.0, longest=5.0)
    failures = [ProviderFailing("busy")] * 5
    assert policy.run(failing(*failures), sleep=clock.sleep, jitter=Longest()) == 6
    assert clock.slept == [1, 2, 4, 5, 5]


def test_the_last_failure_is_raised_as_it_is() -> None:
    first, last = ProviderFailing("busy"), WrongAnswer("nonsense")
    with pytest.raises(WrongAnswer) as caught:
        RetryPolicy().run(failing(first, last), attempts=2, sleep=Clock().sleep)
    assert caught.value is last


def test_another_error_is_not_repeated() -> None:
    clock = Clock()
    with pytest.raises(ProviderUnavailable):
        RetryPolicy().run(failing(ProviderUnavailable("no key")), sleep=clock.sleep)
    assert clock.slept == []


def test_a_pause_that_the_server_asks_for_has_a_limit() -> None:
    clock, policy = Clock(), RetryPolicy(longest=1.0, longest_asked=120.0)
    asked = [ProviderFailing("busy", retry_after=seconds) for seconds in (7.0, 120.0, 120.1)]
    with pytest.raises(ProviderFailing) as caught:
        policy.run(failing(*asked), sleep=clock.sleep)
    assert caught.value is asked[2]
    assert clock.slept == [7, 120]


def test_no_pause_lasts_until_the_deadline() -> None:
    clock = Clock()
    failures = [ProviderFailing("busy", retry_after=4.0)] * 3
    with pytest.raises(ProviderFailing):
        RetryPolicy().run(
            failing(*failures), deadline=clock() + 8.0, sleep=clock.sleep, clock=clock
        )
    assert clock.slept == [4]


def test_a_sleep_that_returns_true_stops_the_work() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(ProviderFailing, match=r"Stopped before another attempt: busy\. Wait"):
        RetryPolicy().run(failing(WrongAnswer("busy", "Wait")), sleep=stop.wait)
