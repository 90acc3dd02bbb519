"""Ids of facts: they sort by the time the fact was made."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Base 32 without i, l, o and u: easy to read aloud, and it spells no words by chance."""
_BITS = 50
_STILL_MS = 60_000
"""A clock that differs so much from the machine's was set by hand."""
_RANDOM_BITS = 8
"""Of an id whose clock stands still; the other 42 bits are the machine's time."""
_lock = threading.Lock()
_newest = [0, 0]
"""The millisecond and the number of the newest id."""


def new_id(now_ms: int) -> str:
    """Return an id that sorts by time: 10 characters for the millisecond, 10 random ones.

    Ids that one process makes in the same millisecond sort in the order they were made in. So do
    those of several processes while MEMWELL_NOW keeps the clock still: then the time of the machine
    replaces most of the random part.
    """
    with _lock:
        last, number = _newest
        machine_ms = time.time_ns() // 1_000_000
        if abs(machine_ms - now_ms) < _STILL_MS:
            number = number + 1 if last == now_ms else secrets.randbits(_BITS - 1)
        else:
            timed = machine_ms << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
            number = max(number + 1, timed) if last == now_ms else timed
        _newest[:] = now_ms, number
    return _base32(now_ms) + _base32(number)


def _base32(number: int) -> str:
    """Return the last 50 bits of a number as 10 characters."""
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(_BITS - 5, -1, -5))
