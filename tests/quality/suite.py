"""The acceptance suite: queries about the example notes, and the ranks of the right notes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import apsw

from memwell import Memory

STYLES = ("direct", "natural", "adjacent", "vague", "cross-domain")
K = 6
PASSING = 0.6
"""The share of a note's queries that must find it for the note to pass."""

_FUNCTION_WORDS = """
a about above after again against all also although always am among an and any anybody anyone
anything are aren as at away be because been before being below between both but by can cannot
could couldn d did didn do does doesn doing don done down during each either else ever every
everybody everyone everything few for from further had hadn has hasn have haven having he her
here hers herself him himself his how however i if in instead into is isn it its itself just
ll m many may me might mine more most much must mustn my myself neither never no nobody none
nor not nothing now of off often on once one only onto or other others ought our ours ourselves
out over own per re s same shall shan she should shouldn since so some somebody someone
something still such t than that the their theirs them themselves then there these they this
those though through to too under until up upon us ve very was wasn we were weren what whatever
when where whether which while who whom whose why will with within without won would wouldn yet
you your yours yourself
"""
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())


@dataclass(frozen=True, slots=True)
class Case:
    """A query and the one note that answers it."""

    query: str
    note: str
    style: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rank of a case's note among the hits, from one; None if it is not among them."""

    case: Case
    rank: int | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a set of outcomes."""

    queries: int
    found: int
    notes: int
    notes_passing: int
    mrr: float

    @property
    def hit_rate(self) -> float:
        """The share of the queries that find their note."""
        return self.found / self.queries


def load() -> list[Case]:
    """Read the cases."""
    text = Path(__file__).with_name("cases.jsonl").read_text(encoding="utf-8")
    return [Case(**json.loads(line)) for line in text.splitlines()]


@cache
def _tokenizer() -> apsw.FTS5Tokenizer:
    return apsw.Connection(":memory:").fts5_tokenizer("porter", ["unicode61"])


def _tokens(text: str) -> list[tuple[str, str]]:
    """The words of `text` in lower case, each with its stem."""
    data = text.encode()
    found: Any = _tokenizer()(data, apsw.FTS5_TOKENIZE_DOCUMENT, None)
    return [(data[start:end].decode().lower(), stem) for start, end, stem in found]


def content_stems(text: str) -> set[str]:
    """Return the stems of the words of `text` that carry meaning."""
    return {stem for word, stem in _tokens(text) if word not in _STOP_WORDS}


def run(
    mode: str, memory: Memory, cases: Iterable[Case] | None = None, fusion: str | None = None
) -> list[Outcome]:
    """Ask `memory` every query and look for its note among the first hits."""
    outcomes = []
    for case in load() if cases is None else cases:
        hits = memory.search(case.query, k=K, mode=mode, fusion=fusion).hits
        ranks = (rank for rank, hit in enumerate(hits, 1) if hit.path == case.note)
        outcomes.append(Outcome(case, next(ranks, None)))
    return outcomes


def passing(outcomes: Sequence[Outcome]) -> dict[str, bool]:
    """Return for each note whether enough of its queries find it."""
    ranks: dict[str, list[int | None]] = {}
    for outcome in outcomes:
        ranks.setdefault(outcome.case.note, []).append(outcome.rank)
    return {
        note: sum(rank is not None for rank in of_note) >= PASSING * len(of_note)
        for note, of_note in ranks.items()
    }


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """Sum up `outcomes`."""
    found = [outcome.rank for outcome in outcomes if outcome.rank is not None]
    notes = passing(outcomes)
    mrr = sum(1 / rank for rank in found) / len(outcomes)
    return Figures(len(outcomes), len(found), len(notes), sum(notes.values()), mrr)


def summary(outcomes: Sequence[Outcome]) -> dict[str, Figures]:
    """Sum up `outcomes` by style, and over all of them as "overall"."""
    by_style = {
        style: figures([outcome for outcome in outcomes if outcome.case.style == style])
        for style in STYLES
    }
    return {**by_style, "overall": figures(outcomes)}
