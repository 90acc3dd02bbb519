"""Passages that are mostly links rank behind the notes that they link to.

An index note holds the titles of many notes, and so the words of many questions, but no answer.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator
from itertools import count

from memwell.model import Hit
from memwell.search.decay import Decayed
from memwell.search.retrieve import Candidate

FACTOR = 0.3
"""The part of its fused score that such a passage keeps."""
_LINK = re.compile(r"!?\[[^\]\n]*\]\([^)\n]*\)|\[\[[^\]\n]*\]\]|<?https?://\S+")
_FEWEST = 3
_SHARE = 0.5


def is_link_list(text: str) -> bool:
    """Whether a text has several links, and half of it or more is in links."""
    if text.count("](") + text.count("[[") + text.count("://") < _FEWEST:
        return False
    lengths = [len(match.group()) for match in _LINK.finditer(text)]
    return len(lengths) >= _FEWEST and sum(lengths) >= _SHARE * len("".join(text.split()))


def demote_link_lists(
    passages: Iterable[tuple[Candidate, Hit]],
) -> Iterator[tuple[Candidate, Hit]]:
    """Yield passages in order, best first, after lowering the scores of link lists."""
    waiting: list[tuple[tuple[int, float, float], int, Candidate, Hit]] = []
    number = count()
    for candidate, hit in passages:
        if candidate.is_ranked and is_link_list(hit.text):
            factor = candidate.decay.factor * FACTOR
            candidate.decay = Decayed(factor, "mostly links", candidate.decay.gain)
            heapq.heappush(waiting, (candidate.order, next(number), candidate, hit))
            continue
        while waiting and waiting[0][0] <= candidate.order:
            yield heapq.heappop(waiting)[2:]
        yield candidate, hit
    while waiting:
        yield heapq.heappop(waiting)[2:]
