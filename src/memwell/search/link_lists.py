"""Passages that are mostly links rank behind the notes that they link to.

An index note holds the titles of many notes, and so the words of many questions, but no answer.
"""

from __future__ import annotations

import re
from bisect import insort_left
from collections.abc import Iterable, Iterator

from memwell.model import Hit
from memwell.search.decay import Decayed
from memwell.search.retrieve import Candidate

FACTOR = 0.3
"""The part of its fused score that such a passage keeps."""
_LINK = re.compile(  # `re` skips to the first letters of a link if they are named
    r"(?=[!\[<h])(?:(?P<image>!)?\[(?P<text>[^\]\n]*)\]\([^)\n]*\)|\[\[(?P<note>[^\]\n]*)\]\]|<?https?://\S+)"
)
_NO_LETTERS = re.compile(r"[\W\d_]+")
_FEWEST = 3
_SHARE = 0.5


def is_link_list(text: str) -> bool:
    """Whether a text has several links, and half of its letters or more are words of links.

    An address is not a word: prose about pages with long addresses is prose. Nor is an image.
    """
    if text.count("](") + text.count("[[") + text.count("://") < _FEWEST:
        return False
    links = [match for match in _LINK.finditer(text) if not match["image"]]
    if len(links) < _FEWEST:
        return False
    linked = _count_letters("".join(match["text"] or match["note"] or "" for match in links))
    return linked >= _SHARE * (linked + _count_letters(_LINK.sub("", text)))


def _count_letters(text: str) -> int:
    return len(_NO_LETTERS.sub("", text))


def demote_link_lists(
    passages: Iterable[tuple[Candidate, Hit]],
) -> Iterator[tuple[Candidate, Hit]]:
    """Yield passages in order, best first, after lowering the scores of link lists."""
    waiting: list[tuple[Candidate, Hit]] = []  # the best is the last
    for candidate, hit in passages:
        if candidate.is_ranked and is_link_list(hit.text):
            factor = candidate.decay.factor * FACTOR
            candidate.decay = Decayed(factor, "mostly links", candidate.decay.gain)
            insort_left(waiting, (candidate, hit), key=lambda passage: passage[0].order)
            continue
        while waiting and waiting[-1][0].order >= candidate.order:
            yield waiting.pop()
        yield candidate, hit
    yield from reversed(waiting)
