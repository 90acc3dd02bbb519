"""Texts of notes and facts as a terminal may get them."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n|\Z)")


def visible(value: T) -> T:
    """Return a text, or a result, whose control characters are replaced by U+FFFD.

    A note could otherwise move the cursor, hide lines or change the title of the window. New lines
    and tabs stay. A character replaces a character, so that highlights stay where they are.
    """
    cleaned: Any = value
    if isinstance(value, str):
        cleaned = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    elif isinstance(value, list | tuple):
        cleaned = type(value)(map(visible, value))
    elif is_dataclass(value) and not isinstance(value, type):
        cleaned = replace(
            value, **{one.name: visible(getattr(value, one.name)) for one in fields(value)}
        )
    return cleaned  # type: ignore[no-any-return]
