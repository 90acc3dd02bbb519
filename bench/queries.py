"""How long questions take on 100,000 chunks, against a plain OR of their words."""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import truediv
from statistics import fmean, median

from bench import corpus, data
from bench.measure import seconds
from bench.results import Row, at_least
from memwell.search.parse import parse
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.sqlite.keywords import SqliteKeywords
from memwell.store.words.scoring import COLUMN_WEIGHTS

_SEED = 2
_PER_SET = 12
_ROUNDS = 5
_K = 10
_WEIGHTS = ", ".join(str(weight) for weight in COLUMN_WEIGHTS.values())
_PLAIN = f"""
    SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words, {_WEIGHTS}) LIMIT {_K}
"""

Search = Callable[[SqliteIndex, str], list[int]]


def run() -> list[Row]:
    """Ask every question both ways, by turns, and compare times and answers."""
    questions = _questions()
    index = SqliteIndex(corpus.kept_index())
    try:
        overlaps = [_overlap(index, text) for text in questions.values()]
        times = [_times(index, text) for text in questions.values()]
    finally:
        index.close()
    own = [min(pair[0] for pair in rounds) for rounds in times]
    plain = [min(pair[1] for pair in rounds) for rounds in times]
    ratio = sum(plain) / sum(own)
    detail = {"ids": [*questions], "memwell_s": own, "plain_s": plain, "overlap": overlaps}
    return [
        Row("100,000 chunks, plain OR / memwell", ratio, "times", at_least(5), detail),
        Row("  median of the questions' ratios", median(map(truediv, plain, own)), "times"),
        Row("  the same top 10", fmean(overlaps), "share"),
        Row("  memwell, mean", 1000 * fmean(own), "ms"),
        Row("  memwell, median", 1000 * median(own), "ms"),
        Row("  memwell, slowest", 1000 * max(own), "ms"),
        Row("  plain OR, mean", 1000 * fmean(plain), "ms"),
        Row("  plain OR, median", 1000 * median(plain), "ms"),
    ]


def _questions() -> dict[str, str]:
    """Return some questions of every set, by the name of the set and their id there."""
    chance = random.Random(_SEED)
    found: dict[str, str] = {}
    for name in corpus.SETS:
        for question in chance.sample(data.labelled_set(name).questions, _PER_SET):
            found[f"{name}: {question.id}"] = question.text
    return found


def _overlap(index: SqliteIndex, question: str) -> float:
    """Return the share of the plain answer that memwell's answer holds too."""
    own, plain = _memwell(index, question), _plain_or(index, question)
    return len({*own} & {*plain}) / len(plain)


def _times(index: SqliteIndex, question: str) -> list[tuple[float, float]]:
    """Return how long each way takes, in turns that begin with the one and with the other."""
    found = []
    for number in range(_ROUNDS):
        ways: list[Search] = [_memwell, _plain_or]
        order = ways if number % 2 == 0 else ways[::-1]
        taken = {way: _time(way, index, question) for way in order}
        found.append((taken[_memwell], taken[_plain_or]))
    return found


def _time(way: Search, index: SqliteIndex, question: str) -> float:
    return seconds(lambda: way(index, question))


def _memwell(index: SqliteIndex, question: str) -> list[int]:
    with index.reading() as reader:
        return [match.chunk_id for match in reader.keywords.search(parse(question).query, _K)]


def _plain_or(index: SqliteIndex, question: str) -> list[int]:
    with index.database.reading() as connection:
        words = dict(SqliteKeywords(connection).tokens(question))  # "Pods" and "pod" are one word
        expression = " OR ".join(f'"{surface}"' for surface in words.values())
        return [chunk_id for (chunk_id,) in connection.execute(_PLAIN, (expression,))]
