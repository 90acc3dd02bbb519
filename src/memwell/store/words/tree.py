"""The condition on a chunk's tokens that a query becomes: a tree that each engine renders.

FTS5 renders it as MATCH text (sqlite/fts.py), PostgreSQL as SQL over postings (postgres/bm25.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Term:
    """Tokens that stand next to each other; with `prefix`, the last is the start of a token."""

    tokens: tuple[str, ...]
    prefix: bool = False
    text: str = field(default="", compare=False)
    """The words as the user wrote them. FTS5 stems its queries, and a stem must not be stemmed
    again: another token may come out."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part matches."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part matches."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AndNot:
    """One part matches and the other does not."""

    wanted: Condition
    unwanted: Condition


Condition = Term | AllOf | AnyOf | AndNot


def all_of(parts: Iterable[Condition | None]) -> Condition | None:
    """Require every part that is there; None if there is none."""
    present = tuple(part for part in parts if part)
    return AllOf(present) if len(present) > 1 else next(iter(present), None)


def any_of(parts: Iterable[Condition | None]) -> Condition | None:
    """Require any part that is there; None if there is none."""
    present = tuple(part for part in parts if part)
    return AnyOf(present) if len(present) > 1 else next(iter(present), None)


def and_not(wanted: Condition | None, unwanted: Condition | None) -> Condition | None:
    """Exclude one part from another; without something wanted there is nothing to exclude from."""
    return AndNot(wanted, unwanted) if wanted and unwanted else wanted


def terms_in(condition: Condition) -> Iterator[Term]:
    """Yield the terms of a condition, from left to right."""
    match condition:
        case Term():
            yield condition
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from terms_in(part)
        case AndNot(wanted, unwanted):
            yield from terms_in(wanted)
            yield from terms_in(unwanted)
