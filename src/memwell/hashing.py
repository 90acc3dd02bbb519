"""Digests of texts: they identify a text without storing it."""

from __future__ import annotations

import hashlib


def digest_of(text: str) -> bytes:
    """Return the 16-byte BLAKE2b digest of a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
