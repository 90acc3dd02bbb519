"""The contract of every store: protocols that SQLite and PostgreSQL implement, and their values.

The docstring of a method stands in its protocol; an implementation is marked with `@override`
and repeats it only where it adds something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override as override
else:
    T = TypeVar("T")

    def override(method: T) -> T:
        """Mark a method that implements one of a protocol (in `typing` from Python 3.12 on)."""
        return method
