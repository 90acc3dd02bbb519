"""Which letters of a passage match a query: the marks a person checks a hit by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from memwell.store.contract.query import And, Node, Or, Phrase, Word, WordQuery
from memwell.store.words.normalise import bigrams, camel_parts, normalise, runs_without_spaces

Tokens = Callable[[str], list[tuple[str, str]]]
"""The index's own view of a text: each token, and the letters it came from."""

Rows = Callable[[str], int]
"""How many chunks hold a token."""

_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0966-\u109f\u1780-\u17d3"
)
_WORD = re.compile(f"(?:[^\\W_]|[{_MARKS}])+")
_JOINTS = ("", "_", ".", "/", "-")
"""Between two marks, what makes them one: ERR_NGX_502."""

_COMMON_SHARE = 0.25
"""A word in more than this share of the chunks is not worth a mark, if a rarer one is there."""


class Highlighter:
    """Finds the words of one query in any text; excluded and too common ones are left out."""

    def __init__(self, query: WordQuery, tokenize: Tokens, rows: Rows, total: int) -> None:
        words = [*_words((*query.any_of, *query.all_of))]
        texts = [word.text for word in words]
        every = [*texts, *(" ".join(camel_parts(normalise(text))) for text in texts)]
        found = {token for text in every for token, _ in tokenize(text)}
        rarest = min(filter(None, map(rows, found)), default=0)
        telling = {token for token in found if rows(token) <= max(_COMMON_SHARE * total, rarest)}
        starts = {token for word in words if word.prefix for token, _ in tokenize(word.text)[-1:]}
        starts |= {token for token in telling if len(token) > 2 and not rows(token)}
        runs = [run for text in texts for run in runs_without_spaces(text)]
        self._tokens = telling
        self._prefixes = tuple(starts)
        self._pairs = {pair for run in runs for pair in bigrams(run)}
        self._initials = {token[:1] for token in (*telling, *starts)}
        self._tokenize = tokenize
        self._known: dict[str, tuple[tuple[int, int], ...]] = {}

    def spans(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the spans of `text` that match, in order and apart from each other."""
        spans: list[tuple[int, int]] = []
        for match in _WORD.finditer(text):
            word = match.group()
            if word not in self._known:
                self._known[word] = tuple(self._in_word(word))
            for start, end in self._known[word]:
                first, last = match.start() + start, match.start() + end
                if spans and text[spans[-1][1] : first] in _JOINTS:
                    first = spans.pop()[0]
                spans.append((first, last))
        return tuple(spans)

    def _in_word(self, word: str) -> Iterator[tuple[int, int]]:
        if word.isascii() and word[1:].islower() and word[0].lower() not in self._initials:
            return  # a stem begins like its word: most need not be looked at
        if runs_without_spaces(word):
            for start in range(len(word)):
                if word[start : start + 2] in self._pairs:
                    yield start, min(start + 2, len(word))
                elif word[start] in self._pairs:
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
            token in self._tokens or token.startswith(self._prefixes)
            for token, _ in self._tokenize(word)
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
