"""The spans of a passage that match the words of a query, to be highlighted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from memwell.store.contract.query import And, Node, Or, Phrase, Word, WordQuery
from memwell.store.words.function_words import find_function_words
from memwell.store.words.normalise import bigrams, camel_parts, normalise, runs_without_spaces

Tokens = Callable[[str], list[tuple[str, str]]]
"""Returns the tokens of a text as the index has them, each with the letters it came from."""

DocumentFrequency = Callable[[str], int]
"""Returns how many chunks contain a token."""

_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0966-\u109f\u1780-\u17d3"
)
_WORD = re.compile(f"(?:[^\\W_]|[{_MARKS}])+")
_ASCII_WORD = re.compile("[A-Za-z0-9]+")
"""The same in ASCII, where it is found five times as fast."""
_JOINTS = ("", "_", ".", "/", "-")
"""Two highlights with one of these between them become one: ERR_NGX_502."""

_PUNCTUATION = "?!.,;:…'\"()«»„“”"
_COMMON_SHARE = 0.25
"""A word in more than this share of the chunks is not highlighted, if the query has a rarer one."""


class Highlighter:
    """Finds the words of one query in any text, except excluded, function and too common words."""

    def __init__(
        self, query: WordQuery, tokenize: Tokens, frequency: DocumentFrequency, total: int
    ) -> None:
        words = [*_without_function_words(_words((*query.any_of, *query.all_of)))]
        texts = [word.text for word in words]
        with_parts = [*texts, *(" ".join(camel_parts(normalise(text))) for text in texts)]
        tokens = {token for text in with_parts for token, _ in tokenize(text)}
        rarest = min(filter(None, map(frequency, tokens)), default=0)
        most = max(_COMMON_SHARE * total, rarest)
        rare = {token for token in tokens if frequency(token) <= most}
        prefixes = {token for word in words if word.prefix for token, _ in tokenize(word.text)[-1:]}
        prefixes |= {token for token in rare if len(token) > 2 and not frequency(token)}
        runs = [run for text in texts for run in runs_without_spaces(text)]
        self._tokens = rare
        self._prefixes = tuple(prefixes)
        self._bigrams = {pair for run in runs for pair in bigrams(run)}
        self._beginnings = tuple({token[:2] for token in (*rare, *prefixes)})
        self._tokenize = tokenize
        self._seen: set[str] = set()
        self._matching: dict[str, tuple[tuple[int, int], ...]] = {}
        """The words that match, each with the spans in it."""

    def spans(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the spans of `text` that match, in order and without overlaps."""
        spans: list[tuple[int, int]] = []
        for first, last in sorted(self._find(text)):
            if spans and text[spans[-1][1] : first] in _JOINTS:
                first = spans.pop()[0]
            spans.append((first, last))
        return tuple(spans)

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of `text` that match: few words do, and only those are located."""
        pattern = _ASCII_WORD if text.isascii() else _WORD
        words = {*pattern.findall(text)}
        for word in filter(self._may_match, words - self._seen):
            if inside := tuple(self._spans_in_word(word)):
                self._matching[word] = inside
        self._seen |= words
        for word in words & self._matching.keys():
            for start in _find_word(word, text, pattern):
                yield from ((start + first, start + last) for first, last in self._matching[word])

    def _may_match(self, word: str) -> bool:
        """Whether a word must be looked at: a stem begins like its word, so most need not."""
        return word.lower().startswith(self._beginnings) or not _has_one_part(word)

    def _spans_in_word(self, word: str) -> Iterator[tuple[int, int]]:
        if runs_without_spaces(word):
            for start in range(len(word)):
                if word[start : start + 2] in self._bigrams:
                    yield start, min(start + 2, len(word))
                elif word[start] in self._bigrams:
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


def _has_one_part(word: str) -> bool:
    """Whether a word is certainly not one of several parts, such as "camelCase"."""
    return word.isascii() and (word[1:].islower() or word.isdigit() or len(word) == 1)


def _find_word(word: str, text: str, pattern: re.Pattern[str]) -> Iterator[int]:
    """Yield where a text has a word, and not a longer one that contains it."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not (start and pattern.match(text, start - 1)) and not pattern.match(text, end):
            yield start
        start = text.find(word, end)


def _without_function_words(words: Iterable[Word]) -> Sequence[Word]:
    """Leave out function words, if there are others."""
    words = [*words]
    grammar = find_function_words(word.text.strip(_PUNCTUATION) for word in words)
    return [word for word in words if word.text.strip(_PUNCTUATION) not in grammar] or words


def _words(nodes: Iterable[Node]) -> Iterator[Word]:
    for node in nodes:
        match node:
            case Word():
                yield node
            case Phrase(text):
                yield Word(text)
            case And(parts) | Or(parts):
                yield from _words(parts)
