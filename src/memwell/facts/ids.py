"""Ids of facts: they sort by the time the fact was made."""

from __future__ import annotations

import secrets
import threading

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Base 32 without i, l, o and u: easy to read aloud, and it spells no words by chance."""
_BITS = 50
_lock = threading.Lock()
_newest = [0, 0]
"""The millisecond and the number of the newest id."""


def new_id(now_ms: int) -> str:
    """Return an id that sorts by time: 10 characters for the millisecond, 10 random ones.

    Ids that one process makes in the same millisecond sort in the order they were made in.
    """
    with _lock:
        last, number = _newest
        number = number + 1 if last == now_ms else secrets.randbits(_BITS - 1)
        _newest[:] = now_ms, number
    return _base32(now_ms) + _base32(number)


def _base32(number: int) -> str:
    """Return the last 50 bits of a number as 10 characters."""
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(_BITS - 5, -1, -5))
