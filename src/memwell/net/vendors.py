"""The vendors whose protocols memwell speaks: the address of each, and how it takes a key."""

from __future__ import annotations

from dataclasses import dataclass

from memwell.config.providers import GEMINI_URL, OPENAI_URL


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's own address, which demands a key, and the header that carries the key."""

    address: str
    variable: str
    """The environment variable that holds the key."""
    header: str
    scheme: str = ""
    """The header's value begins with it; the key follows."""


OPENAI = Vendor(OPENAI_URL, "OPENAI_API_KEY", "Authorization", "Bearer ")
GEMINI = Vendor(GEMINI_URL, "GEMINI_API_KEY", "x-goog-api-key")
