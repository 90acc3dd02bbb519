"""Slots for searches that compute."""

from __future__ import annotations

import threading

import pytest

from memwell.memory.shared import Slots
from tests.support.waiting import wait_until


def test_threads_get_a_slot_in_the_order_in_which_they_came() -> None:
    slots, served = Slots(1), list[int]()

    def work(number: int) -> None:
        with slots:
            served.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with slots:
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda number=number: len(slots._waiting) == number + 1)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert served == [*range(8)]


def test_so_many_threads_work_at_once_as_there_are_slots() -> None:
    slots, working, over = Slots(2), threading.Semaphore(0), threading.Event()

    def work() -> None:
        with slots:
            working.release()
            over.wait()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(slots._waiting) == 5 - 2)
    assert working.acquire(timeout=10)
    assert working.acquire(timeout=10)
    assert not working.acquire(blocking=False)
    over.set()
    for thread in threads:
        thread.join()
    assert not slots._waiting


def test_an_error_gives_the_slot_back() -> None:
    slots = Slots(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong"), slots:
            raise ValueError("wrong")
