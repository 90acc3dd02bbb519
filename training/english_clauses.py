"""English sentences as Apertium analyses them, cut into clauses, verbs and noun phrases."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

_UNIT = re.compile(r"\^((?:[^$\\]|\\.)*)\$")
_PART = re.compile(r"([^<]+)((?:<[^>]+>)*)(# [^+]+)?")
_VERBS = ("vblex", "vbser", "vbhaver", "vbdo", "vaux", "vbmod")
_BETWEEN = ("not", "never", "ever", "always", "already", "just", "often")
"""Adverbs that may stand within a verb."""
_CONJUNCTIONS = ("cnjcoo", "cnjadv", "cnjsub")
_ALSO_CONJUNCTIONS = ("since", "when", "before", "after")


@dataclass(frozen=True)
class Word:
    """A word: what a dictionary has, and its grammar."""

    lemma: str
    tags: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The part of speech."""
        return self.tags[0] if self.tags else ""

    def has(self, *tags: str) -> bool:
        """Return whether the word has one of the tags."""
        return any(tag in self.tags for tag in tags)


def read_units(line: str) -> list[Word]:
    """Return the words of a line of Apertium's analysis."""
    return [
        Word(lemma.strip("+ ") + rest.replace("#", ""), tuple(re.findall("<([^>]+)>", tags)))
        for unit in _UNIT.findall(line)
        for lemma, tags, rest in _PART.findall(unit)
    ]


def cut_sentences(words: Sequence[Word]) -> Iterator[tuple[list[Word], str]]:
    """Yield sentences, each with the mark at its end."""
    sentence: list[Word] = []
    for word in words:
        if word.kind == "sent":
            if sentence:
                yield sentence, word.lemma
            sentence = []
        else:
            sentence.append(word)
    if sentence:
        yield sentence, "."


def cut_clauses(
    words: Sequence[Word], conjunctions: Container[str]
) -> Iterator[tuple[str, list[Word]]]:
    """Yield clauses, each with the conjunction before it, or `and` after a comma."""
    conjunction, clause = "", list[Word]()
    for number, word in enumerate(words):
        if word.kind == "cm":
            if clause and find_verb(clause) and find_verb(words[number:]):
                yield conjunction, clause
                conjunction, clause = "and", []
            continue
        joins = (word.kind in _CONJUNCTIONS and word.lemma in conjunctions) or (
            clause and word.lemma in _ALSO_CONJUNCTIONS
        )
        if joins and find_verb(words[number + 1 :]) and (not clause or find_verb(clause)):
            if clause:
                yield conjunction, clause
            conjunction, clause = word.lemma, []
        else:
            clause.append(word)
    if clause:
        yield conjunction, clause


def find_verb(words: Sequence[Word], *, begin: bool = False) -> tuple[int, int] | None:
    """Return where the first finite verb with its auxiliaries begins and ends.

    With `begin` it may be infinite, and only adverbs may stand before it.
    """
    for start, word in enumerate(words):
        if word.kind in _VERBS and (begin or not word.has("ger")):
            if begin or not start or words[start - 1].lemma != "to":
                break
        elif begin and word.kind not in ("adv", "preadv"):
            return None
    else:
        return None
    end, auxiliary = start + 1, word.kind != "vblex"
    while end < len(words):
        word = words[end]
        verb_follows = end + 1 < len(words) and words[end + 1].kind in _VERBS
        if word.kind in _VERBS and auxiliary and word.has("inf", "ger", "pp", "pres"):
            auxiliary = word.kind != "vblex"
        elif word.lemma != "not" and not (word.lemma in _BETWEEN and verb_follows):
            break
        end += 1
    return start, end


def find_noun_end(words: Sequence[Word]) -> int:
    """Return how many words at the beginning are a noun phrase; 0 if they are none."""
    last = 0
    for number, word in enumerate(words):
        if word.kind == "prn":
            return last or number + 1
        if word.kind in ("n", "np", "gen", "num"):
            last = number + 1
        elif word.kind not in ("det", "adj") or (last and words[last - 1].kind != "gen"):
            break
    return last


def find_subject(words: Sequence[Word]) -> int:
    """Return where the noun phrase begins that has the first noun before a verb."""
    at = 0
    while at < len(words) and (words[at].kind not in ("n", "np", "prn") or words[at].has("obj")):
        at += 1
    while at > 0 and words[at - 1].kind in ("det", "adj", "num", "gen"):
        at -= 1
    return at


def is_infinitive(words: Sequence[Word]) -> bool:
    """Return whether `to` and a verb stand at the beginning."""
    return len(words) > 1 and words[0].lemma == "to" and words[1].has("inf", "pres")


def is_relative(words: Sequence[Word]) -> bool:
    """Return whether a clause begins here that says which noun is meant."""
    if not words:
        return False
    if words[0].kind == "rel" and words[0].lemma in ("that", "who", "which", "whom"):
        return True
    return words[0].has("subj") and find_verb(words) is not None
