"""From words to FTS5 expressions.

A word of the user's becomes one or more units, each an FTS5 expression and the number of chunks
it will match. `units` is for words that rank (any of them may match), `required` for words that
must match or must not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from memwell.store.contract.index import Lexicon
from memwell.store.contract.query import And, Node, Or, Phrase, Word
from memwell.store.words.normalise import (
    camel_parts,
    is_alphabetic,
    normalise,
    pairs,
    unspaced_runs,
)

_JOINED = re.compile(r"\w[_./\\:@#]+\w")
_SHORTEST_PREFIX = 3
_GRAM = 3
"""Pairs in a row that an alphabetic unspaced script is searched by: four characters."""


@dataclass(frozen=True, slots=True)
class Unit:
    """An FTS5 expression and about how many chunks match it."""

    expression: str
    rows: int
    tokens: str
    """What it looks for; "Pods" and "pod" are the same, and count once."""


def units(words: Sequence[Node], lexicon: Lexicon) -> list[Unit]:
    """Return what ranks: a unit for each distinct word that occurs in the index at all."""
    lone = len(words) == 1
    found = chain.from_iterable(_units_of(word, lexicon, lone) for word in words)
    return list({unit.tokens: unit for unit in found if unit.rows}.values())


def required(node: Node, lexicon: Lexicon) -> str:
    """Return the expression for a part that must match; "" if it holds no searchable letter."""
    match node:
        case Word(text, prefix):
            return _whole(text, lexicon, prefix=prefix)
        case Phrase(text):
            return _quoted(surface for _, surface in lexicon.tokens(text))
        case Or(parts):
            return joined("OR", (required(part, lexicon) for part in parts))
        case And(parts, without):
            wanted = joined("AND", (required(part, lexicon) for part in parts))
            unwanted = joined("OR", (required(part, lexicon) for part in without))
            return f"({wanted} NOT {unwanted})" if wanted and unwanted else wanted


def joined(operator: str, expressions: Iterable[str]) -> str:
    """Join expressions that are not empty, in parentheses where needed."""
    present = [expression for expression in expressions if expression]
    return (
        present[0] if len(present) == 1 else f"({f' {operator} '.join(present)})" if present else ""
    )


def unknown_words(words: Iterable[Node], lexicon: Lexicon) -> list[str]:
    """Return the letters of words, in scripts with spaces, that no chunk holds."""
    texts = (word.text for word in words if isinstance(word, Word) and not unspaced_runs(word.text))
    tokens = chain.from_iterable(lexicon.tokens(text) for text in texts)
    return [surface for token, surface in tokens if not lexicon.rows(token)]


def _quoted(surfaces: Iterable[str], *, prefix: bool = False) -> str:
    phrase = " ".join(surfaces).replace('"', "")
    return f'"{phrase}"{" *" if prefix else ""}' if phrase else ""


def _whole(text: str, lexicon: Lexicon, *, prefix: bool) -> str:
    """One word as a whole: its pieces in a row, or a camel-case word also by its parts."""
    alternatives = [_quoted((surface for _, surface in lexicon.tokens(text)), prefix=prefix)]
    parts = camel_parts(normalise(text))
    if len(parts) > 1:
        alternatives.append(_quoted(parts, prefix=prefix))
    return joined("OR", dict.fromkeys(alternatives))


def _units_of(node: Node, lexicon: Lexicon, lone: bool) -> Iterator[Unit]:
    if not isinstance(node, Word):
        if expression := required(node, lexicon):
            yield Unit(expression, _estimate(node, lexicon), expression)
    elif node.prefix:
        yield from _phrase(node.text, lexicon, prefix=True)
    elif unspaced_runs(node.text):
        yield from _unspaced(node.text, lexicon)
    elif _JOINED.search(node.text) or len(camel_parts(normalise(node.text))) > 1:
        yield from _identifier(node.text, lexicon, lone)
    else:
        yield from _tokens(node.text, lexicon)


def _estimate(node: Node, lexicon: Lexicon) -> int:
    """Return about how many chunks a part matches, from its rarest words."""
    match node:
        case And(parts):
            return min(_estimate(part, lexicon) for part in parts)
        case Or(parts):
            return sum(_estimate(part, lexicon) for part in parts)
        case Word(text) | Phrase(text):
            return min((lexicon.rows(token) for token, _ in lexicon.tokens(text)), default=0) or 1


def _tokens(text: str, lexicon: Lexicon) -> Iterator[Unit]:
    """Each token by itself; one that no chunk holds may be the beginning of one that some do."""
    for token, surface in lexicon.tokens(text):
        if rows := lexicon.rows(token):
            yield Unit(_quoted([surface]), rows, token)
        elif len(token) >= _SHORTEST_PREFIX:
            rows = lexicon.rows_beginning(token)
            yield Unit(_quoted([surface], prefix=True), rows, f"{token}*")


def _phrase(text: str, lexicon: Lexicon, *, prefix: bool = False) -> Iterator[Unit]:
    """Tokens in a row: no more chunks match than hold the rarest of them."""
    tokens = lexicon.tokens(text)
    if not tokens:
        return
    *inner, (last, _) = tokens
    rows = [lexicon.rows(token) for token, _ in inner]
    rows.append(lexicon.rows_beginning(last) if prefix else lexicon.rows(last))
    expression = _quoted((surface for _, surface in tokens), prefix=prefix)
    looked_for = " ".join(token for token, _ in tokens)
    yield Unit(expression, min(rows), f"{looked_for}*" if prefix else looked_for)


def _beginning(text: str, lexicon: Lexicon) -> Iterator[Unit]:
    """Tokens in a row, of which the last may go on: not a short one, which too much begins with."""
    last = [token for token, _ in lexicon.tokens(text)][-1:]
    return _phrase(text, lexicon, prefix=bool(last) and len(last[0]) >= _SHORTEST_PREFIX)


def _identifier(text: str, lexicon: Lexicon, lone: bool) -> Iterator[Unit]:
    """A name from code: whole or by its beginning, and by its parts.

    Asked for alone, the parts count only if the whole occurs nowhere: who searches
    ERR_NGX_502 does not want every 502.
    """
    parts = " ".join(camel_parts(normalise(text)))
    wholes = [*_beginning(text, lexicon), *_beginning(parts, lexicon)]
    found = [unit for unit in wholes if unit.rows and lexicon.occurs(unit.expression)]
    yield from found
    if not (lone and found):
        yield from _tokens(parts, lexicon)


def _unspaced(text: str, lexicon: Lexicon) -> Iterator[Unit]:
    """Pairs of characters; where the script is an alphabet, a few of them in a row."""
    normal = normalise(text)
    for run in unspaced_runs(normal):
        if len(run) == 1:
            yield from _phrase(run, lexicon, prefix=True)
        elif not is_alphabetic(run):
            yield from chain.from_iterable(_phrase(pair, lexicon) for pair in pairs(run))
        else:
            for start in range(max(1, len(run) - _GRAM)):
                yield from _phrase(run[start : start + _GRAM + 1], lexicon)
        normal = normal.replace(run, " ", 1)
    yield from _tokens(normal, lexicon)
