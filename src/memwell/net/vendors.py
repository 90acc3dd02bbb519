"""The vendors whose protocols memwell speaks: the address of each, and how it takes a key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's own address, which demands a key, and the header that carries the key."""

    address: str
    variable: str
    """The environment variable that holds the key."""
    header: str
    scheme: str = ""
    """The header's value begins with it; the key follows."""


OPENAI = Vendor("https://api.openai.com/v1", "OPENAI_API_KEY", "Authorization", "Bearer ")
GEMINI = Vendor(
    "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY", "x-goog-api-key"
)
