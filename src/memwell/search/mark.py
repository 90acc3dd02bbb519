"""Which letters of a passage match a query: the marks a person checks a hit by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from memwell.store.base import And, Node, Or, Phrase, Word, WordQuery
from memwell.store.words import camel_parts, normalise, pairs, unspaced_runs

Tokens = Callable[[str], list[tuple[str, str]]]
"""The index's own view of a text: each token, and the letters it came from."""

_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f]|[^\W_])*", re.U)


@dataclass(frozen=True, slots=True)
class Marker:
    """Finds the words of one query in any text."""

    tokens: frozenset[str]
    prefixes: tuple[str, ...]
    pairs: frozenset[str]
    tokenize: Tokens

    @classmethod
    def of(cls, query: WordQuery, tokenize: Tokens) -> Marker:
        """Collect what the query looks for, excluded words left out."""
        words = [*_words((*query.any_of, *query.all_of))]
        texts = [word.text for word in words]
        prefixes = [token for word in words if word.prefix for token, _ in tokenize(word.text)[-1:]]
        every = [*texts, *(" ".join(camel_parts(normalise(text))) for text in texts)]
        found = {token for text in every for token, _ in tokenize(text)}
        runs = [run for text in texts for run in unspaced_runs(text)]
        return cls(frozenset(found), tuple(prefixes), frozenset(p for r in runs for p in pairs(r)), tokenize)

    def marks(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the spans of `text` that match, in order and apart from each other."""
        spans: list[tuple[int, int]] = []
        for match in _WORD.finditer(text):
            for start, end in self._in_word(match.group()):
                span = (match.start() + start, match.start() + end)
                if spans and spans[-1][1] >= span[0]:
                    span = (spans.pop()[0], max(span[1], spans[-1][1] if spans else span[1]))
                spans.append(span)
        return tuple(spans)

    def _in_word(self, word: str) -> Iterator[tuple[int, int]]:
        if unspaced_runs(word):
            for start in range(len(word)):
                if word[start : start + 2] in self.pairs:
                    yield start, min(start + 2, len(word))
                elif word[start] in self.pairs:
                    yield start, start + 1
            return
        if self._matches(word):
            yield 0, len(word)
            return
        start = 0
        for part in camel_parts(word):
            if len(part) < len(word) and self._matches(part):
                yield start, start + len(part)
            start += len(part)

    def _matches(self, word: str) -> bool:
        return any(
            token in self.tokens or (self.prefixes and token.startswith(self.prefixes))
            for token, _ in self.tokenize(word)
        )


def _words(nodes: Iterable[Node]) -> Iterator[Word]:
    for node in nodes:
        match node:
            case Word():
                yield node
            case Phrase(text):
                yield Word(text)
            case And(parts) | Or(parts):
                yield from _words(parts)
