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

from memwell.store.contract.index import Vocabulary
from memwell.store.contract.query import And, Node, Or, Phrase, Word
from memwell.store.words.normalise import (
    bigrams,
    camel_parts,
    is_alphabetic,
    normalise,
    runs_without_spaces,
)

_JOINED = re.compile(r"\w[_./\\:@#]+\w")
_SHORTEST_PREFIX = 3
_GRAM = 3
"""Pairs in a row that an alphabetic unspaced script is searched by: four characters."""


@dataclass(frozen=True, slots=True)
class Clause:
    """An FTS5 expression and about how many chunks match it."""

    expression: str
    document_frequency: int
    tokens: str
    """What it looks for; "Pods" and "pod" are the same, and count once."""


def to_clauses(words: Sequence[Node], lexicon: Vocabulary) -> list[Clause]:
    """Return what ranks: a unit for each distinct word that occurs in the index at all."""
    lone = len(words) == 1
    found = chain.from_iterable(_clauses_of(word, lexicon, lone) for word in words)
    return list({unit.tokens: unit for unit in found if unit.document_frequency}.values())


def to_conditions(node: Node, lexicon: Vocabulary) -> str:
    """Return the expression for a part that must match; "" if it holds no searchable letter."""
    match node:
        case Word(text, prefix):
            return _whole_word(text, lexicon, prefix=prefix)
        case Phrase(text):
            return _quote(surface for _, surface in lexicon.tokens(text))
        case Or(parts):
            return joined("OR", (to_conditions(part, lexicon) for part in parts))
        case And(parts, without):
            wanted = joined("AND", (to_conditions(part, lexicon) for part in parts))
            unwanted = joined("OR", (to_conditions(part, lexicon) for part in without))
            return f"({wanted} NOT {unwanted})" if wanted and unwanted else wanted


def joined(operator: str, expressions: Iterable[str]) -> str:
    """Join expressions that are not empty, in parentheses where needed."""
    present = [expression for expression in expressions if expression]
    return (
        present[0] if len(present) == 1 else f"({f' {operator} '.join(present)})" if present else ""
    )


def unknown_words(words: Iterable[Node], lexicon: Vocabulary) -> list[str]:
    """Return the letters of words, in scripts with spaces, that no chunk holds."""
    texts = (
        word.text for word in words if isinstance(word, Word) and not runs_without_spaces(word.text)
    )
    tokens = chain.from_iterable(lexicon.tokens(text) for text in texts)
    return [surface for token, surface in tokens if not lexicon.document_frequency(token)]


def _quote(surfaces: Iterable[str], *, prefix: bool = False) -> str:
    phrase = " ".join(surfaces).replace('"', "")
    return f'"{phrase}"{" *" if prefix else ""}' if phrase else ""


def _whole_word(text: str, lexicon: Vocabulary, *, prefix: bool) -> str:
    """One word as a whole: its pieces in a row, or a camel-case word also by its parts."""
    alternatives = [_quote((surface for _, surface in lexicon.tokens(text)), prefix=prefix)]
    parts = camel_parts(normalise(text))
    if len(parts) > 1:
        alternatives.append(_quote(parts, prefix=prefix))
    return joined("OR", dict.fromkeys(alternatives))


def _clauses_of(node: Node, lexicon: Vocabulary, lone: bool) -> Iterator[Clause]:
    if not isinstance(node, Word):
        if expression := to_conditions(node, lexicon):
            yield Clause(expression, _estimate(node, lexicon), expression)
    elif node.prefix:
        yield from _phrase(node.text, lexicon, prefix=True)
    elif runs_without_spaces(node.text):
        yield from _unspaced(node.text, lexicon)
    elif _JOINED.search(node.text) or len(camel_parts(normalise(node.text))) > 1:
        yield from _identifier(node.text, lexicon, lone)
    else:
        yield from _tokens(node.text, lexicon)


def _estimate(node: Node, lexicon: Vocabulary) -> int:
    """Return about how many chunks a part matches, from its rarest words."""
    match node:
        case And(parts):
            return min(_estimate(part, lexicon) for part in parts)
        case Or(parts):
            return sum(_estimate(part, lexicon) for part in parts)
        case Word(text) | Phrase(text):
            return (
                min(
                    (lexicon.document_frequency(token) for token, _ in lexicon.tokens(text)),
                    default=0,
                )
                or 1
            )


def _tokens(text: str, lexicon: Vocabulary) -> Iterator[Clause]:
    """Each token by itself; one that no chunk holds may be the beginning of one that some do."""
    for token, surface in lexicon.tokens(text):
        if rows := lexicon.document_frequency(token):
            yield Clause(_quote([surface]), rows, token)
        elif len(token) >= _SHORTEST_PREFIX:
            rows = lexicon.prefix_frequency(token)
            yield Clause(_quote([surface], prefix=True), rows, f"{token}*")


def _phrase(text: str, lexicon: Vocabulary, *, prefix: bool = False) -> Iterator[Clause]:
    """Tokens in a row: no more chunks match than hold the rarest of them."""
    tokens = lexicon.tokens(text)
    if not tokens:
        return
    *inner, (last, _) = tokens
    rows = [lexicon.document_frequency(token) for token, _ in inner]
    rows.append(lexicon.prefix_frequency(last) if prefix else lexicon.document_frequency(last))
    expression = _quote((surface for _, surface in tokens), prefix=prefix)
    looked_for = " ".join(token for token, _ in tokens)
    yield Clause(expression, min(rows), f"{looked_for}*" if prefix else looked_for)


def _beginning(text: str, lexicon: Vocabulary) -> Iterator[Clause]:
    """Tokens in a row, of which the last may go on: not a short one, which too much begins with."""
    last = [token for token, _ in lexicon.tokens(text)][-1:]
    return _phrase(text, lexicon, prefix=bool(last) and len(last[0]) >= _SHORTEST_PREFIX)


def _identifier(text: str, lexicon: Vocabulary, lone: bool) -> Iterator[Clause]:
    """A name from code: whole or by its beginning, and by its parts.

    Asked for alone, the parts count only if the whole occurs nowhere: who searches
    ERR_NGX_502 does not want every 502.
    """
    parts = " ".join(camel_parts(normalise(text)))
    wholes = [*_beginning(text, lexicon), *_beginning(parts, lexicon)]
    found = [unit for unit in wholes if unit.document_frequency and lexicon.occurs(unit.expression)]
    yield from found
    if not (lone and found):
        yield from _tokens(parts, lexicon)


def _unspaced(text: str, lexicon: Vocabulary) -> Iterator[Clause]:
    """Pairs of characters; where the script is an alphabet, a few of them in a row."""
    normal = normalise(text)
    for run in runs_without_spaces(normal):
        if len(run) == 1:
            yield from _phrase(run, lexicon, prefix=True)
        elif not is_alphabetic(run):
            yield from chain.from_iterable(_phrase(pair, lexicon) for pair in bigrams(run))
        else:
            for start in range(max(1, len(run) - _GRAM)):
                yield from _phrase(run[start : start + _GRAM + 1], lexicon)
        normal = normal.replace(run, " ", 1)
    yield from _tokens(normal, lexicon)
