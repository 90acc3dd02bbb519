"""The text that a person types becomes a query. Every text is a valid query.

    query  := clause*                 plain words rank, none of them is required
    clause := all (OR all)*           `a OR b`
    all    := one ((AND | NOT) one)*  `a AND b`, `a NOT b`: must match
    one    := -one | "a phrase" | word* | word | ( query )

Filters may stand anywhere: path:glob  tag:x  after:2026-01-01  before:2026-02, and -path: -tag:.
Operators are in upper case. They count only if another word has a lower-case letter and the
parentheses balance: a title in capitals and a pasted sentence are text. Parentheses group only in a
query that has operators. Text that is not valid syntax is searched as words.

Limits keep a pasted file from taking seconds. What exceeds one is ignored, and a notice says so; an
expression with too many operators or parentheses is searched as words.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate

from memwell.store.contract.query import And, Filters, Node, Or, Phrase, Word, WordQuery

_TOKEN = re.compile(
    r"""
    (?P<minus>(?<!\S)-(?=[\w"(]))?
    (?: (?P<filter>(?:path|tag|after|before)):(?:"(?P<quoted_value>[^"]*)"|(?P<value>[^\s()"]+))
      | "(?P<phrase>[^"]*)"
      | (?P<paren>[()])
      | (?P<word>[^\s()"]+)
      | "
    )
    """,
    re.X,
)
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_MAX_BYTES = 40_000
"""People paste whole files. Bytes, since a character of a script without spaces costs as much as a
word."""
_MAX_FILTERS = 32
_MAX_FILTER_LENGTH = 500
"""SQLite refuses a longer pattern than 50,000 bytes, and no path is that long."""
_MAX_TERMS = 64
"""Phrases, prefixes, excluded words and operators: each of them may have so many."""
_MAX_DEPTH = 20
"""Parentheses in parentheses."""
_TOO_COMPLEX = (
    f"The query has more than {_MAX_TERMS} operators, or more than {_MAX_DEPTH} parentheses in each"
    " other; searched for the single words"
)
_PHRASES_SHOWN = 5
"""Phrases that a notice names."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A query, and notices to the user about how it was parsed."""

    query: WordQuery
    text: str = ""
    """The words of the query, without filters, operators and excluded words."""
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Not:
    """A part that must not match; it exists only while parsing."""

    part: Node


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    minus: bool = False


_KIND = re.compile(r"(?<![\w\"])kind:(note|fact|transcript)(?![\w\"])")


def split_kind(text: str) -> tuple[str, str | None]:
    """Return a query without its filter ``kind:``, and the kind of hit that this asks for.

    A query that has nothing else lists all hits of the kind, newest first.
    """
    found = _KIND.findall(text)
    if not found:
        return text, None
    return _KIND.sub("", text).strip() or "path:*", found[-1]


def parse(text: str) -> Parsed:
    """Parse the text of a query."""
    encoded = text[: _MAX_BYTES + 1].replace("\0", " ").encode("utf-8", "replace")
    filters, tokens, notices = _tokenize(encoded[:_MAX_BYTES].decode(errors="ignore"))
    if len(encoded) > _MAX_BYTES:
        notices.append(_too_many(_MAX_BYTES, "bytes"))
    tokens = _limit_terms(tokens, notices)
    expression = _is_expression(tokens)
    if expression and _is_too_complex(tokens):
        notices.append(_TOO_COMPLEX)
        tokens, expression = _without_operators(tokens), False
    if not expression:
        tokens = [
            replace(token, kind="word") if token.kind == "operator" else token
            for token in tokens
            if token.kind != "paren"
        ]
    clauses = _Parser(tokens).parse_clauses()
    query = _to_query(clauses, filters)
    if not query.has_words and query.none_of and not filters.selects_content:
        # A query of exclusions alone ranks nothing: the user meant them as words.
        words = [token for token in tokens if token.kind in ("word", "phrase")]
        query = WordQuery(any_of=tuple(Word(token.text) for token in words), filters=filters)
    return Parsed(query, _plain_text(tokens), tuple(notices))


def loosen(parsed: Parsed) -> Parsed | None:
    """Return the query with what it requires as plain words; None if it requires nothing.

    For a question that quotes a title which the notes write in another way, and for an expression
    that nothing matches. None also for a query that is only a phrase: its user wants exactly these
    words.
    """
    query = parsed.query
    if not query.all_of or (not query.any_of and all(isinstance(n, Phrase) for n in query.all_of)):
        return None
    words = tuple(Word(word) for node in query.all_of for word in _words(node))
    without = tuple(part for node in query.all_of for part in _excluded(node))
    phrases = [f'"{node.text}"' for node in query.all_of if isinstance(node, Phrase)]
    problem = (
        f"contains {_list_some(phrases)} word for word" if phrases else "matches the expression"
    )
    return replace(
        parsed,
        query=replace(
            query,
            any_of=(*query.any_of, *words),
            all_of=(),
            none_of=(*query.none_of, *without),
        ),
        notices=(*parsed.notices, f"No passage {problem}; searched for the single words"),
    )


def _list_some(phrases: list[str]) -> str:
    more = len(phrases) - _PHRASES_SHOWN
    return ", ".join(phrases[:_PHRASES_SHOWN]) + (f" and {more} more phrases" if more > 0 else "")


def _words(node: Node) -> list[str]:
    """Return the words that a part of a query looks for."""
    match node:
        case And(parts) | Or(parts):
            return [word for part in parts for word in _words(part)]
        case _:
            return node.text.split()


def _excluded(node: Node) -> tuple[Node, ...]:
    return node.without if isinstance(node, And) else ()


def _too_many(limit: int, kind: str) -> str:
    return f"The query has more than {limit} {kind}; memwell ignores the rest"


def _limit_terms(tokens: list[_Token], notices: list[str]) -> list[_Token]:
    """Return the tokens without the phrases, prefixes and excluded words over the limit."""
    counts: Counter[str] = Counter()
    kept: list[_Token] = []
    negated = False
    for token in tokens:
        kind = _limited_kind(token, negated)
        counts[kind] += 1
        if not kind or counts[kind] <= _MAX_TERMS:
            kept.append(token)
        negated = token.kind == "operator" and token.text == "NOT"
    del counts[""]
    notices += [_too_many(_MAX_TERMS, kind) for kind in counts if counts[kind] > _MAX_TERMS]
    return kept


def _limited_kind(token: _Token, negated: bool) -> str:
    """Return which limit applies to a token; "" if none does, as to plain words."""
    if token.kind not in ("word", "phrase"):
        return ""
    if token.minus or negated:
        return "excluded words"
    if token.kind == "phrase":
        return "phrases"
    return "words with *" if token.text.endswith("*") else ""


def _is_expression(tokens: list[_Token]) -> bool:
    """Whether operators are meant as such."""
    if not any(token.kind == "operator" for token in tokens):
        return False
    words = [token.text for token in tokens if token.kind in ("word", "phrase")]
    depths = _depths(tokens)
    balanced = depths[-1] == 0 and min(depths) >= 0
    return balanced and not all(word.isupper() for word in words)


def _is_too_complex(tokens: list[_Token]) -> bool:
    operators = sum(token.kind == "operator" for token in tokens)
    return operators > _MAX_TERMS or max(_depths(tokens)) > _MAX_DEPTH


def _depths(tokens: list[_Token]) -> list[int]:
    """Return in how many parentheses each token is; an opening one is in itself."""
    steps = ({"(": 1, ")": -1}.get(one.text, 0) if one.kind == "paren" else 0 for one in tokens)
    return [*accumulate(steps)]


def _without_operators(tokens: list[_Token]) -> list[_Token]:
    """Return the words of an expression; those after NOT stay excluded."""
    previous = [_Token("", ""), *tokens]
    return [
        replace(token, minus=token.minus or last.text == "NOT")
        for last, token in zip(previous, tokens, strict=False)
        if token.kind != "operator"
    ]


def _plain_text(tokens: list[_Token]) -> str:
    """Return the words to search for, without operators and excluded words."""
    previous = [_Token("", ""), *tokens]
    words = (
        token.text
        for last, token in zip(previous, tokens, strict=False)
        if token.kind in ("word", "phrase") and not token.minus and last.text != "NOT"
    )
    return " ".join(words).strip()


def _tokenize(text: str) -> tuple[Filters, list[_Token], list[str]]:
    filters, tokens, notices = Filters(), [], []
    count = 0
    for match in _TOKEN.finditer(text):
        minus = match["minus"] is not None
        if match["filter"]:
            value = match["quoted_value"] if match["value"] is None else match["value"]
            count += 1
            if count > _MAX_FILTERS:
                continue
            if len(value) > _MAX_FILTER_LENGTH:
                notices.append(
                    f"{match['filter']}:{value[:20]}... has more than {_MAX_FILTER_LENGTH}"
                    " characters; memwell ignores this filter"
                )
                continue
            updated = _add_filter(filters, match["filter"], value, minus)
            if updated is None:
                notices.append(
                    f"{match['filter']}:{value} is not a date like 2026-01-31; searched as words"
                )
                tokens.append(_Token("word", f"{match['filter']} {value}", minus))
            else:
                filters = updated
        elif match["phrase"] is not None:
            tokens.append(_Token("phrase", match["phrase"], minus))
        elif match["paren"]:
            tokens.append(_Token("paren", match["paren"], minus))
        elif match["word"]:
            kind = "operator" if match["word"] in _OPERATORS and not minus else "word"
            tokens.append(_Token(kind, match["word"], minus))
    if count > _MAX_FILTERS:
        notices.append(_too_many(_MAX_FILTERS, "filters"))
    return filters, tokens, notices


def _add_filter(filters: Filters, name: str, value: str, minus: bool) -> Filters | None:
    """Return the filters with one more, or None if its value is not a date."""
    match name, minus:
        case "path", False:
            return replace(filters, paths=(*filters.paths, value))
        case "path", True:
            return replace(filters, not_paths=(*filters.not_paths, value))
        case "tag", False:
            return replace(filters, tags=(*filters.tags, value.lstrip("#")))
        case "tag", True:
            return replace(filters, not_tags=(*filters.not_tags, value.lstrip("#")))
    date = _parse_date(value)
    if date is None:
        return None
    return replace(filters, after=date) if name == "after" else replace(filters, before=date)


def _parse_date(value: str) -> str | None:
    """Return the first day of 2026, 2026-01 or 2026-01-31; None if it is not a date."""
    parts = value.split("-")
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) > 3:
        return None
    try:
        return dt.date(*[int(part) for part in (*parts, "1", "1")[:3]]).isoformat()
    except (ValueError, OverflowError):
        return None


class _Parser:
    """A recursive descent parser that skips tokens which do not fit, and never fails."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0

    def parse_clauses(self) -> list[Node | _Not]:
        clauses: list[Node | _Not] = []
        while (token := self._peek()) and not (
            self.depth and token.text == ")" and token.kind == "paren"
        ):
            clause = self._parse_or()
            if clause is not None:
                clauses.append(clause)
        return clauses

    def _parse_or(self) -> Node | _Not | None:
        parts = [self._parse_and()]
        while self._accept("OR"):
            parts.append(self._parse_and())
        wanted = [part for part in parts if part is not None]
        if len(wanted) < 2:
            return wanted[0] if wanted else None
        return Or(tuple(part for part in wanted if not isinstance(part, _Not)))

    def _parse_and(self) -> Node | _Not | None:
        first = self._parse_one()
        parts, joined = [first], False
        while True:
            if self._accept("AND"):
                parts.append(self._parse_one())
            elif first is not None and self._accept("NOT"):
                negated = self._parse_one()
                parts.append(
                    _Not(negated)
                    if negated is not None and not isinstance(negated, _Not)
                    else negated
                )
            else:
                break
            joined = True
        if not joined:
            return first
        wanted = tuple(part for part in parts if part is not None and not isinstance(part, _Not))
        without = tuple(part.part for part in parts if isinstance(part, _Not))
        if not wanted:
            return _Not(Or(without)) if without else None
        return And(wanted, without)

    def _parse_one(self) -> Node | _Not | None:
        token = self._next()
        if token is None:
            return None
        if token.kind == "operator":
            if token.text != "NOT":
                return None
            part = self._parse_one()  # at most _MAX_TERMS operators are here
            return _Not(part) if part is not None and not isinstance(part, _Not) else part
        node = (
            self._parse_group() if token.text == "(" and token.kind == "paren" else _to_node(token)
        )
        return _Not(node) if token.minus and node is not None else node

    def _parse_group(self) -> Node | None:
        self.depth += 1
        inside = self.parse_clauses()
        self.depth -= 1
        self._next()  # the closing parenthesis, or the end
        wanted = tuple(part for part in inside if not isinstance(part, _Not))
        without = tuple(part.part for part in inside if isinstance(part, _Not))
        if not wanted:
            return None
        group = wanted[0] if len(wanted) == 1 else Or(wanted)
        return And((group,), without) if without else group

    def _peek(self) -> _Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def _next(self) -> _Token | None:
        token = self._peek()
        self.position += 1
        return token

    def _accept(self, operator: str) -> bool:
        token = self._peek()
        if token and token.kind == "operator" and token.text == operator:
            self.position += 1
            return True
        return False


def _to_node(token: _Token) -> Node | None:
    if token.kind == "phrase":
        return Phrase(token.text) if token.text.strip() else None
    if token.kind != "word":
        return None
    if token.text.endswith("*") and token.text.strip("*"):
        return Word(token.text.rstrip("*"), prefix=True)
    return Word(token.text)


def _to_query(clauses: list[Node | _Not], filters: Filters) -> WordQuery:
    """Return the query: words and OR rank, phrases and AND must match, negations must not."""
    any_of: list[Node] = []
    all_of: list[Node] = []
    none_of: list[Node] = []
    for clause in clauses:
        if isinstance(clause, _Not):
            none_of.append(clause.part)
        elif isinstance(clause, Phrase | And):
            all_of.append(clause)
        elif isinstance(clause, Or):
            any_of += clause.parts
        else:
            any_of.append(clause)
    return WordQuery(tuple(any_of), tuple(all_of), tuple(none_of), filters)
