"""Facts out of a model's answer, whatever it wraps them in: pure functions that never raise.

Asked for JSON lines, models answer with fenced blocks, lists, an object around the list, bullets,
numbers, prose before and after, commas too many, and stop in the middle of a line. So every JSON
object of the answer that has a text is a fact, wherever it stands; an end that is missing is
added, and what had begun there is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypedDict

MOST_FACTS = 200
MOST_CHARACTERS = 2_000
"""Of a fact: more is a passage."""
MOST_TAGS = 20
MOST_WORD = 60
"""Characters of a category or a tag."""
MOST_READ = 200_000
"""Characters of an answer."""

_DEEPEST = 16
# An object anywhere; a list only where a line begins, as the tags of a broken line are one too.
_START = re.compile(r"\{|^[ \t>]*+(?:[-*+•]|\d++[.)])?[ \t]*+\[", re.MULTILINE)
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
"""Without its end; line breaks are in it as they are, as models write them."""
_SCALAR = re.compile(r"[-+.\w]+")
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160)], " ")


class FoundFact(TypedDict):
    """A fact as the model gave it; the category and the tags may be empty."""

    text: str
    category: str
    tags: list[str]


def parse_facts(answer: str) -> list[FoundFact]:
    """Return the facts of an answer in their order, each text once."""
    facts: dict[str, FoundFact] = {}
    for value in _values(answer[:MOST_READ]):
        for fact in _facts(value, strings=isinstance(value, list)):
            facts.setdefault(fact["text"].casefold(), fact)
            if len(facts) == MOST_FACTS:
                return [*facts.values()]
    return [*facts.values()]


def _values(text: str) -> Iterator[Any]:
    """Yield the outermost JSON objects of a text, and the lists with which a line begins."""
    at = 0
    while found := _START.search(text, at):
        reader = _Reader(text, found.end() - 1)
        try:
            value = reader.value()
        except _TooDeep:
            at = reader.at  # To try every level anew would take the square of the time.
        except (_Malformed, _EndOfText):
            at = found.end()
        else:
            at = reader.at
            yield value


def _facts(value: Any, *, strings: bool = False) -> Iterator[FoundFact]:
    """Yield the facts of a value: itself, or those in the lists that it is or has.

    A list of plain `strings` is one of facts only where nothing else is meant by it.
    """
    if isinstance(value, list):
        for item in value:
            yield from _facts({"text": item} if strings and isinstance(item, str) else item)
    elif isinstance(value, dict) and isinstance(value.get("text"), str):
        if text := _line(value["text"], MOST_CHARACTERS):
            yield FoundFact(
                text=text, category=_word(value.get("category")), tags=_tags(value.get("tags"))
            )
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, list):
                yield from _facts(item, strings=name == "facts")


def _tags(value: Any) -> list[str]:
    found = value if isinstance(value, list) else []
    return [*dict.fromkeys(tag for tag in map(_word, found) if tag)][:MOST_TAGS]


def _word(value: Any) -> str:
    return _line(value, MOST_WORD) if isinstance(value, str) else ""


def _line(text: str, most: int) -> str:
    """Return a text as one line that can be stored: no controls, no halves of characters."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    line = " ".join(whole.translate(_CONTROLS).split())
    if len(line) <= most:
        return line
    return line[: most + 1].rpartition(" ")[0] or line[:most]


class _Malformed(Exception):
    """Not JSON, not even nearly."""


class _TooDeep(Exception):
    """Lists within lists within lists."""


class _EndOfText(Exception):
    """The text is over before the value is."""


class _Reader:
    """JSON from a place in a text on, forgiving commas before an end and ends that are missing."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def value(self, depth: int = 0) -> Any:
        """Read any value; numbers and the like, of which no fact is made, become None."""
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
                self._separated("}")
        except _EndOfText:
            self.at = len(self.text)
        return members

    def _list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self.at += 1
        try:
            while self._more_follows("]"):
                items.append(self.value(depth))
                self._separated("]")
        except _EndOfText:
            self.at = len(self.text)
        return items

    def _more_follows(self, end: str) -> bool:
        """Return whether there is more before the end, and step over it if there is not."""
        over = self._next() == end
        self.at += over
        return not over

    def _separated(self, end: str) -> None:
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
