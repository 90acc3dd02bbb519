"""Which facts say the same, and which contradict each other. Pure functions.

Two facts say the same if they have the same words in the same order, apart from articles and
plurals, or if one only adds an adjective or two. They contradict each other if they differ in one
place alone: in a number or a day ("The standup is at 9:30", "... at 14:15"), a name ("The cat is
named ..."), a thing of one's own ("My editor is ..."), a tool ("We use ... for the queue") or a
negation. "I like tea" and "I like coffee" do not. A language model decides what no rule does.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from memwell.consolidate.plan import MERGE, SUPERSEDE
from memwell.extract.chat import SPEAKER
from memwell.model import Fact
from memwell.scripts import IDEOGRAPHIC
from memwell.store.words.function_words import find_function_words, read_words_by_language

_TOKEN = re.compile(f"[{IDEOGRAPHIC}]|[^\\W_{IDEOGRAPHIC}]+(?:[:.'-][^\\W_{IDEOGRAPHIC}]+)*")
_WORDS = read_words_by_language(Path(__file__).with_name("words.txt"))
_NEGATIONS = _WORDS["negation"]
_VALUE = re.compile(
    r".*\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:jan|febr)uary|march|april|may|june|july"
    r"|august|(?:septem|octo|novem|decem)ber|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch"
    r"|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes"
)
_MOST_ADDED = 2
"""Words that one of two equal facts may have more."""
_FEWEST_SHARED = 2
_LONGEST_VALUE = 3
_COMMON = 50
"""A word in more facts than this brings no pair together: there would be too many pairs."""
_OVERLAP = 0.5
"""The share of common words from which a language model is asked about two facts."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two facts of one scope that say the same or contradict each other."""

    older: Fact
    newer: Fact
    kind: str
    why: str


def find_pairs(facts: Iterable[Fact]) -> list[Pair]:
    """Return the pairs among facts that a rule decides."""
    return [pair for one, other in candidate_pairs(facts) if (pair := judge(one, other))]


def candidate_pairs(facts: Iterable[Fact]) -> Iterator[tuple[Fact, Fact]]:
    """Yield pairs of one scope that share a rare word and half of all, the older fact first."""
    by_scope: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for fact in sorted(facts, key=lambda fact: fact.id):
        by_scope[fact.scope, fact.target].append(fact)
    for group in by_scope.values():
        words = {fact.id: _content(fact.text) for fact in group}
        frequency = Counter(word for found in words.values() for word in found)
        rare = {word for word, count in frequency.items() if count <= _COMMON}
        seen: dict[str, list[Fact]] = defaultdict(list)
        for newer in group:
            near = {older.id: older for word in words[newer.id] & rare for older in seen[word]}
            for _, older in sorted(near.items()):
                shared = len(words[older.id] & words[newer.id])
                if shared >= _OVERLAP * min(len(words[older.id]), len(words[newer.id])):
                    yield older, newer
            for word in words[newer.id]:
                seen[word].append(newer)


def judge(older: Fact, newer: Fact) -> Pair | None:
    """Return what a rule says about two facts; None if it says nothing."""
    first, second = (_without_articles(fact.text) for fact in (older, newer))
    if _adds_little(first, second) or _adds_little(second, first):
        return Pair(older, newer, MERGE, "they say the same")
    if difference := _find_difference(_tokens(older.text), _tokens(newer.text)):
        was, now = (" ".join(part) or "nothing" for part in difference)
        return Pair(older, newer, SUPERSEDE, f"the newer one says {now!r} instead of {was!r}")
    return None


def _adds_little(fewer: Sequence[str], more: Sequence[str]) -> bool:
    """Whether a statement only adds a word or two to another one, such as an adjective."""
    rest = iter(more)
    if not all(word in rest for word in fewer):  # `in` continues where the last one was found
        return False
    added = [*more]
    for word in fewer:
        added.remove(word)
    changes_meaning = find_function_words(added) | _WORDS["negation"] | _WORDS["number"]
    is_plain = not any(word in changes_meaning or _VALUE.match(word) for word in added)
    return len(added) <= _MOST_ADDED and is_plain


def _find_difference(
    older: Sequence[str], newer: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]] | None:
    """Return the only place in which two statements differ, if they cannot both be true."""
    start = _common(older, newer)
    rest, other_rest = older[start:], newer[start:]
    end = _common(rest[::-1], other_rest[::-1])
    was, now = rest[: len(rest) - end], other_rest[: len(other_rest) - end]
    before = older[:start]
    around = {*before, *older[len(older) - end :]}
    if len(around - find_function_words(around)) < _FEWEST_SHARED - (len(before) > 1):
        return None
    if {*was, *now} <= _NEGATIONS and bool(was) != bool(now):
        return was, now
    if not was or not now or max(len(was), len(now)) > _LONGEST_VALUE:
        return None
    has_values = any(map(_VALUE.match, was)) and any(map(_VALUE.match, now))
    is_value = has_values and bool({*before} & _WORDS["verb"])
    return (was, now) if is_value or _expects_one(before, older[len(older) - end :]) else None


def _expects_one(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether only one thing can stand between: a name, a thing of one's own, a tool for a job."""
    if not before:
        return False
    is_own = before[0] in _WORDS["possessive"] and before[-1] in _WORDS["link"]
    is_tool = before[-1] in _WORDS["use"] and after[:1] and after[0] in _WORDS["purpose"]
    return before[-1] in _WORDS["naming"] or is_own or bool(is_tool)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words two sequences begin with in common."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _tokens(text: str) -> list[str]:
    text = text.removeprefix(SPEAKER)
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).replace("’", "'").casefold())


def _content(text: str) -> set[str]:
    """Return the words of a text without its grammar and without plural endings."""
    tokens = {*_tokens(text)}
    return {_strip_ending(word) for word in tokens - find_function_words(tokens)}


def _without_articles(text: str) -> list[str]:
    return [_strip_ending(word) for word in _tokens(text) if word not in _WORDS["article"]]


def _strip_ending(word: str) -> str:
    short = word.removesuffix("'s")
    return short[:-1] if len(short) > 3 and short.endswith("s") and short.isalpha() else short
