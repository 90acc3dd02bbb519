"""The facts in a model's answer, whatever surrounds them. Pure functions that never raise.

memwell asks for JSON lines. Models answer with fenced blocks, lists, an object around the list,
bullets, numbers, prose before and after, too many commas, and may stop in the middle of a line. So
every JSON object with a text is a fact, wherever it stands. A missing end is added, and the
unfinished value before it is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypedDict

MAX_FACTS = 200
MAX_CHARACTERS = 2_000
"""A longer fact is a passage."""
MAX_TAGS = 20
MAX_WORD = 60
"""Characters of a category or a tag."""
MAX_ANSWER = 200_000
"""Characters of an answer that are read."""

_DEEPEST = 16
# An object anywhere, but a list only at the start of a line: the tags of a fact are a list, too.
_START = re.compile(r"\{|^[ \t>]*+(?:[-*+•]|\d++[.)])?[ \t]*+\[", re.MULTILINE)
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
"""A string without its closing quote. It may hold raw line breaks, which models write."""
_SCALAR = re.compile(r"[-+.\w]+")
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160)], " ")


class FoundFact(TypedDict):
    """A fact as the model wrote it; the category and the tags may be empty."""

    text: str
    category: str
    tags: list[str]


def parse_facts(answer: str) -> list[FoundFact]:
    """Return the facts of an answer in order, each text once."""
    facts: dict[str, FoundFact] = {}
    for value in _values(answer[:MAX_ANSWER]):
        for fact in _facts(value, strings=isinstance(value, list)):
            facts.setdefault(fact["text"].casefold(), fact)
            if len(facts) == MAX_FACTS:
                return [*facts.values()]
    return [*facts.values()]


def _values(text: str) -> Iterator[Any]:
    """Yield the outermost JSON objects of a text, and the lists with which a line begins."""
    at = 0
    while start := _START.search(text, at):
        reader = _Reader(text, start.end() - 1)
        try:
            value = reader.value()
        except _TooDeep:
            at = reader.at  # Starting again at every level would take quadratic time.
        except (_Malformed, _EndOfText):
            at = start.end()
        else:
            at = reader.at
            yield value


def _facts(value: Any, *, strings: bool = False) -> Iterator[FoundFact]:
    """Yield the facts of a value: the value itself, or those in its lists.

    `strings` says that plain strings of a list are facts.
    """
    if isinstance(value, list):
        for item in value:
            yield from _facts({"text": item} if strings and isinstance(item, str) else item)
    elif isinstance(value, dict) and isinstance(value.get("text"), str):
        if text := _line(value["text"], MAX_CHARACTERS):
            yield FoundFact(
                text=text, category=_word(value.get("category")), tags=_tags(value.get("tags"))
            )
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, list):
                yield from _facts(item, strings=name == "facts")


def _tags(value: Any) -> list[str]:
    items = value if isinstance(value, list) else []
    return [*dict.fromkeys(tag for tag in map(_word, items) if tag)][:MAX_TAGS]


def _word(value: Any) -> str:
    return _line(value, MAX_WORD) if isinstance(value, str) else ""


def _line(text: str, limit: int) -> str:
    """Return a text as one line that can be stored: no controls, no lone surrogates."""
    encodable = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    line = " ".join(encodable.translate(_CONTROLS).split())
    if len(line) <= limit:
        return line
    return line[: limit + 1].rpartition(" ")[0] or line[:limit]


class _Malformed(Exception):
    """The text is not JSON, even with the errors that are forgiven."""


class _TooDeep(Exception):
    """Lists and objects are nested deeper than `_DEEPEST`."""


class _EndOfText(Exception):
    """The text ends before the value does."""


class _Reader:
    """Reads JSON from a position in a text; forgives trailing commas and missing ends."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def value(self, depth: int = 0) -> Any:
        """Read any value; a number or a literal, which is never a fact, becomes None."""
        first = self._next()
        if first in "{[" and depth == _DEEPEST:
            raise _TooDeep
        if first == "{":
            return self._object(depth + 1)
        if first == "[":
            return self._list(depth + 1)
        return self._string() if first == '"' else self._scalar()

    def _object(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self.at += 1
        try:
            while self._more_follows("}"):
                name = self._string()
                self._expect(":")
                members[name] = self.value(depth)
                self._read_separator("}")
        except _EndOfText:
            self.at = len(self.text)
        return members

    def _list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self.at += 1
        try:
            while self._more_follows("]"):
                items.append(self.value(depth))
                self._read_separator("]")
        except _EndOfText:
            self.at = len(self.text)
        return items

    def _more_follows(self, end: str) -> bool:
        """Return whether a value comes before the end; if not, step over the end."""
        is_end = self._next() == end
        self.at += is_end
        return not is_end

    def _read_separator(self, end: str) -> None:
        if self._next() != end:
            self._expect(",")

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            raise _Malformed
        self.at += 1

    def _next(self) -> str:
        """Step over white space and return the character there."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        if self.at == len(self.text):
            raise _EndOfText
        return self.text[self.at]

    def _string(self) -> str:
        self._next()
        string = _STRING.match(self.text, self.at)
        if not string:
            raise _Malformed
        end = string.end()
        if not self.text.startswith('"', end):
            raise _Malformed if self.text.find('"', end) >= 0 else _EndOfText
        self.at = end + 1
        return str(json.loads(self.text[string.start() : self.at], strict=False))

    def _scalar(self) -> None:
        scalar = _SCALAR.match(self.text, self.at)
        if not scalar:
            raise _Malformed
        self.at = scalar.end()
