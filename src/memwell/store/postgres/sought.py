"""Expressions as expressions.py writes them for FTS5, read for another engine.

A query is the same there and here: `"deploy"`, `"err ngx" *`, `("a" OR ("b" AND "c"))`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_SIGN = re.compile(r'\s*("[^"]*"(?:\s*\*)?|AND|OR|NOT|[()])')


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens in a row; with `prefix`, the last is the beginning of one."""

    tokens: tuple[str, ...]
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Every:
    """All of the parts."""

    parts: tuple[Sought, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """Any of the parts."""

    parts: tuple[Sought, ...]


@dataclass(frozen=True, slots=True)
class But:
    """One part and not the other."""

    wanted: Sought
    unwanted: Sought


Sought = Row | Every | Some | But
Spoken = Callable[[str], list[tuple[str, str]]]


def read(expression: str, spoken: Spoken) -> Sought:
    """Read an expression; `spoken` splits its phrases into tokens."""
    return _read(iter(_SIGN.findall(expression)), spoken)


def _read(signs: Iterator[str], spoken: Spoken) -> Sought:
    """Read up to the end, or the closing parenthesis: parts with one operator between them."""
    parts: list[Sought] = []
    operator = ""
    for sign in signs:
        if sign == ")":
            break
        if sign in ("AND", "OR", "NOT"):
            operator = sign
        elif sign == "(":
            parts.append(_read(signs, spoken))
        else:
            text, _, star = sign[1:].rpartition('"')
            parts.append(Row(tuple(token for token, _ in spoken(text)), bool(star)))
    if operator == "NOT":
        return But(*parts)
    if len(parts) == 1:
        return parts[0]
    return Every(tuple(parts)) if operator == "AND" else Some(tuple(parts))


def rows_in(sought: Sought) -> Iterator[Row]:
    """Yield the rows of tokens in an expression."""
    match sought:
        case Row():
            yield sought
        case Every(parts) | Some(parts):
            for part in parts:
                yield from rows_in(part)
        case But(wanted, unwanted):
            yield from rows_in(wanted)
            yield from rows_in(unwanted)
