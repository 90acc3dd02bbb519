"""Rows put together: what stays of a note that changed, and what a search shows of its chunks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from memwell.model import Chunk, Context, Hit
from memwell.store.contract.query import Neighbours
from memwell.store.words.normalise import WordRow

FACT_WORKSPACE = "facts:"
"""What the workspaces begin with that hold no files, but facts."""
SUPERSEDED_SUFFIX = "former:"
"""What goes on, where these are facts that are no longer held true."""

Tokens = Callable[[str], list[tuple[str, str]]]
"""Splits a text into tokens, each beside the letters it came from."""


def match_chunks(
    chunks: Sequence[Chunk], before: Sequence[WordRow]
) -> tuple[list[int | None], list[int]]:
    """Return the id that each chunk has already, None for a new one; and the ids that go."""
    reusable: dict[tuple[str, str], list[int]] = {}
    for row in reversed(before):
        reusable.setdefault((row.text, row.heading), []).append(row.chunk_id)
    ids: list[int | None] = []
    for part in chunks:
        same = reusable.get((part.text, "\n".join(part.heading)))
        ids.append(same.pop() if same else None)
    return ids, [key for keys in reusable.values() for key in keys]


def join_chunks(rows: Sequence[tuple[int, int, int, int, str]]) -> Context:
    """Return chunks as one text: seq, first and last line, overlap and text of each."""
    text, before = "", None
    for seq, _, _, overlap, part in rows:
        if before is not None:
            text += part[overlap:] if seq == before + 1 else f"\n{part}"
        else:
            text = part
        before = seq
    return Context(rows[0][1], rows[-1][2], text)


def group_neighbours(
    rows: Iterable[tuple[int, int, int, int]], shorter_than: float
) -> dict[int, Neighbours]:
    """Group chunks with those beside them: ids of both, and the lengths of both."""
    found: dict[int, list[tuple[int, int]]] = {}
    own: dict[int, int] = {}
    for chunk, other, length, length_of_other in rows:
        found.setdefault(chunk, []).append((other, length_of_other))
        own[chunk] = length
    groups = {
        chunk: Neighbours(
            tuple(other for other, _ in others),
            (own[chunk] + sum(length for _, length in others)) / (1 + len(others)),
        )
        for chunk, others in found.items()
    }
    return {chunk: group for chunk, group in groups.items() if group.length < shorter_than}


def to_hit(row: Sequence[Any], relevance: float) -> Hit:
    """Return a hit: path, workspace, lines, text, title, heading, date, tags and until when."""
    path, root, start, end, text, title, heading, date, tags, until = row
    fact = root.startswith(FACT_WORKSPACE)
    return Hit(
        path=path,
        workspace="facts" if fact else root,
        start_line=start,
        end_line=end,
        score=relevance,
        relevance=relevance,
        text=text,
        title=title,
        date=date,
        heading=tuple(filter(None, heading.split("\n"))),
        tags=tuple(tags),
        kind="fact" if fact else "note",
        valid_until=until if fact else None,
    )


def surface_form(token: str, like: str, text: str, tokens: Tokens) -> str:
    """Return the word of a text that a token stands for, in the case of the word it is like."""
    words: list[str] = re.findall(r"[^\W_]+", text)
    for word in words:
        if any(seen == token for seen, _ in tokens(word)):
            return word.capitalize() if like[:1].isupper() else word.lower()
    return token
