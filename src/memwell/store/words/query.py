"""From the words of a query to conditions on tokens.

A word of the user becomes one or more clauses: a condition and about how many chunks match it.
`ranking_words` is for words that rank (any of them may match), `to_condition` for words that must
match or must not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from memwell.store.contract.index import Vocabulary
from memwell.store.contract.query import And, Node, Or, Phrase, Word, WordQuery
from memwell.store.words.function_words import find_function_words
from memwell.store.words.normalise import (
    bigrams,
    camel_parts,
    is_alphabetic,
    normalise,
    runs_without_spaces,
)
from memwell.store.words.tree import Condition, Term, all_of, and_not, any_of

_JOINED = re.compile(r"\w[_./\\:@#]+\w")
SHORTEST_PREFIX = 3
_BIGRAMS_IN_A_ROW = 3
"""Bigrams that an alphabetic script without spaces is searched by: four characters."""
MAX_CLAUSES = 64
"""Clauses of a query that are searched, rarest first."""
_UNKNOWN_BIGRAM = 0.5
"""The count of a bigram that no chunk holds: about every other one crosses the end of a word."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition that ranks, and about how many chunks match it."""

    condition: Condition
    document_frequency: int
    key: str
    """Clauses with the same key are one: "Pods" and "pod" are the same token."""
    count: int = 1
    """How often the query has it."""

    @property
    def surface(self) -> str:
        """The word as the query writes it; "" if it is not a single term."""
        return self.condition.text if isinstance(self.condition, Term) else ""

    @property
    def is_bigram(self) -> bool:
        """Whether it is a part of a script without spaces."""
        return bool(runs_without_spaces(self.surface))

    @property
    def is_one_token(self) -> bool:
        """Whether it is one whole token."""
        return isinstance(self.condition, Term) and self.condition.tokens == (self.key,)


@dataclass(frozen=True, slots=True)
class RankingWords:
    """The words of a query that rank."""

    clauses: tuple[Clause, ...]
    """Those that match any chunk, each once, the rarest first."""
    pairs: tuple[tuple[Clause, Clause], ...]
    """Those that stand next to each other in the query, without bigrams, which overlap."""
    unknown: float
    """How many words no chunk holds."""
    only_grammar: bool = False
    """Whether the query has function words only: a chunk that holds them answers nothing yet."""


def ranking_words(query: WordQuery, vocabulary: Vocabulary) -> RankingWords:
    """Return the words of a query that rank: all but function words, if there are others."""
    nodes = [*query.any_of, *_leaves(query.all_of)]
    alone = len(nodes) == 1
    written = [clause for node in nodes for clause in _clauses_of(node, vocabulary, alone)]
    grammar = find_function_words(clause.surface for clause in written)
    content = [clause for clause in written if clause.surface not in grammar] or written
    only_grammar = bool(written) and grammar.issuperset(clause.surface for clause in written)
    counts = Counter(clause.key for clause in content)
    once = {
        clause.key: replace(clause, count=clause.count * counts[clause.key]) for clause in content
    }
    known = {key: clause for key, clause in once.items() if clause.document_frequency}
    missing = (clause for key, clause in once.items() if key not in known)
    pairs = [
        (known[first.key], known[second.key])
        for first, second in pairwise(written)
        if first.key in known and second.key in known and first.key != second.key
        if first.is_one_token and second.is_one_token and not first.is_bigram
    ]
    return RankingWords(
        tuple(sorted(known.values(), key=lambda clause: clause.document_frequency)[:MAX_CLAUSES]),
        tuple(dict.fromkeys(pairs))[:MAX_CLAUSES],
        sum(_UNKNOWN_BIGRAM if clause.is_bigram else 1 for clause in missing),
        only_grammar,
    )


def _leaves(nodes: Iterable[Node]) -> Iterator[Word | Phrase]:
    """Yield the words and phrases of parts that must match, in the order of the query."""
    for node in nodes:
        match node:
            case And(parts) | Or(parts):
                yield from _leaves(parts)
            case _:
                yield node


def required_condition(query: WordQuery, vocabulary: Vocabulary) -> Condition | None:
    """Return the condition that a query requires of a chunk; None if it requires none."""
    return all_of(to_condition(node, vocabulary) for node in query.all_of)


def excluded_condition(query: WordQuery, vocabulary: Vocabulary) -> Condition | None:
    """Return the condition that a chunk must not meet; None if the query excludes nothing."""
    return any_of(to_condition(node, vocabulary) for node in query.none_of)


def to_condition(node: Node, vocabulary: Vocabulary) -> Condition | None:
    """Return the condition for one part of a query; None if it has no searchable letter."""
    match node:
        case Word(text, prefix):
            return _whole_word(text, vocabulary, prefix=prefix)
        case Phrase(text):
            return _term(vocabulary.tokens(text))
        case Or(parts):
            return any_of(to_condition(part, vocabulary) for part in parts)
        case And(parts, without):
            wanted = all_of(to_condition(part, vocabulary) for part in parts)
            return and_not(wanted, any_of(to_condition(part, vocabulary) for part in without))


def unknown_words(words: Iterable[Node], vocabulary: Vocabulary) -> list[str]:
    """Return the words, as they are written, that no chunk holds; only in scripts with spaces."""
    texts = (
        word.text for word in words if isinstance(word, Word) and not runs_without_spaces(word.text)
    )
    tokens = chain.from_iterable(vocabulary.tokens(text) for text in texts)
    return [surface for token, surface in tokens if not vocabulary.document_frequency(token)]


def _term(tokens: Sequence[tuple[str, str]], *, prefix: bool = False) -> Term | None:
    """Return the term for tokens, each beside the letters it came from."""
    text = " ".join(surface for _, surface in tokens)
    return Term(tuple(token for token, _ in tokens), prefix, text) if text else None


def _whole_word(text: str, vocabulary: Vocabulary, *, prefix: bool) -> Condition | None:
    """Return the condition for a whole word: its tokens in a row, or its camel-case parts."""
    whole = _term(vocabulary.tokens(text), prefix=prefix)
    parts = camel_parts(normalise(text))
    if len(parts) == 1:
        return whole
    # As it is indexed (see `indexed_parts`): a script without spaces is not cut into bigrams there.
    as_indexed = " ".join(parts).replace('"', "")
    tokens = tuple(token for token, _ in vocabulary.tokens(as_indexed))
    return any_of([whole, Term(tokens, prefix, as_indexed)])


def _clauses_of(node: Node, vocabulary: Vocabulary, alone: bool) -> Iterator[Clause]:
    match node:
        case And() | Or():
            if condition := to_condition(node, vocabulary):
                # Its representation also has the words as written, which tell such parts apart.
                estimate = _estimate(node, vocabulary)
                yield Clause(condition, estimate, repr(condition), _count_words(node))
        case Phrase(text):
            yield from _row(text, vocabulary)
        case Word(text, prefix=True):
            yield from _row(text, vocabulary, prefix=True)
        case Word(text) if runs_without_spaces(text):
            yield from _unspaced(text, vocabulary)
        case Word(text) if _JOINED.search(text) or len(camel_parts(normalise(text))) > 1:
            yield from _identifier(text, vocabulary, alone)
        case Word(text):
            yield from _tokens(text, vocabulary)


def _count_words(node: Node) -> int:
    """Return how many words a chunk holds at least that matches a part."""
    match node:
        case And(parts):
            return sum(map(_count_words, parts))
        case Or(parts):
            return min(map(_count_words, parts))
        case _:
            return 1


def _estimate(node: Node, vocabulary: Vocabulary) -> int:
    """Return about how many chunks match a part, from its rarest words."""
    match node:
        case And(parts):
            return min(_estimate(part, vocabulary) for part in parts)
        case Or(parts):
            return sum(_estimate(part, vocabulary) for part in parts)
        case Word(text) | Phrase(text):
            tokens = (token for token, _ in vocabulary.tokens(text))
            return min(map(vocabulary.document_frequency, tokens), default=0) or 1


def _tokens(text: str, vocabulary: Vocabulary) -> Iterator[Clause]:
    """Yield a clause for each token; one that no chunk holds is searched as a prefix."""
    for token, surface in vocabulary.tokens(text):
        if frequency := vocabulary.document_frequency(token):
            yield Clause(Term((token,), False, surface), frequency, token)
        elif len(token) >= SHORTEST_PREFIX:
            frequency = vocabulary.prefix_frequency(token)
            yield Clause(Term((token,), True, surface), frequency, f"{token}*")
        else:
            yield Clause(Term((token,), False, surface), 0, token)


def _row(text: str, vocabulary: Vocabulary, *, prefix: bool = False) -> Iterator[Clause]:
    """Yield a clause for tokens in a row: at most as many chunks match as hold the rarest."""
    tokens = vocabulary.tokens(text)
    term = _term(tokens, prefix=prefix)
    if not term:
        return
    *inner, last = term.tokens
    frequencies = [vocabulary.document_frequency(token) for token in inner]
    frequencies.append(
        vocabulary.prefix_frequency(last) if prefix else vocabulary.document_frequency(last)
    )
    key = " ".join(term.tokens)
    yield Clause(term, min(frequencies), f"{key}*" if prefix else key)


def _beginning(text: str, vocabulary: Vocabulary) -> Iterator[Clause]:
    """Yield a clause for tokens in a row, the last as a prefix unless it is short.

    Too many words begin with a short one.
    """
    last = [token for token, _ in vocabulary.tokens(text)][-1:]
    return _row(text, vocabulary, prefix=bool(last) and len(last[0]) >= SHORTEST_PREFIX)


def _identifier(text: str, vocabulary: Vocabulary, alone: bool) -> Iterator[Clause]:
    """Yield clauses for a name from code: whole or by its beginning, and by its parts.

    In a query of nothing else, the parts count only if the whole name occurs nowhere: a user who
    searches ERR_NGX_502 does not want every 502.
    """
    parts = " ".join(camel_parts(normalise(text)))
    wholes = [*_beginning(text, vocabulary), *_beginning(parts, vocabulary)]
    present = [
        clause
        for clause in wholes
        if clause.document_frequency and vocabulary.occurs(clause.condition)
    ]
    yield from present
    if not (alone and present):
        yield from _tokens(parts, vocabulary)


def _unspaced(text: str, vocabulary: Vocabulary) -> Iterator[Clause]:
    """Yield clauses for bigrams; where the script is an alphabet, for a few of them in a row."""
    normal = normalise(text)
    for run in runs_without_spaces(normal):
        if len(run) == 1:
            yield from _row(run, vocabulary, prefix=True)
        elif not is_alphabetic(run):
            yield from chain.from_iterable(_row(bigram, vocabulary) for bigram in bigrams(run))
        else:
            for start in range(max(1, len(run) - _BIGRAMS_IN_A_ROW)):
                yield from _row(run[start : start + _BIGRAMS_IN_A_ROW + 1], vocabulary)
        normal = normal.replace(run, " ", 1)
    yield from _tokens(normal, vocabulary)
