"""Rows put together: what stays of a note that changed, and what a search shows of its chunks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memwell.model import Chunk, Context, Fact, Hit, Note
from memwell.store.contract.query import Neighbours
from memwell.store.contract.values import FACT_WORKSPACE, ExportedNote, MapPoint, SourceFile
from memwell.store.words.normalise import WordRow

if TYPE_CHECKING:
    from memwell.embed.base import Matrix


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


def encode(matrix: Matrix, dimensions: int) -> list[bytes]:
    """Return the windows of a chunk as stored; refuse whatever is not a vector of this space."""
    import numpy as np

    if matrix.ndim != 2 or (len(matrix) and matrix.shape[1] != dimensions):
        raise ValueError(f"vectors of shape {matrix.shape} in a space of {dimensions} dimensions")
    lengths = np.linalg.norm(matrix, axis=1) if len(matrix) else np.ones(1)
    if not np.allclose(lengths, 1.0, atol=1e-3):  # also true of NaN and infinity
        raise ValueError("a vector that is not of unit length")
    return [row.astype("<f4").tobytes() for row in matrix] or [b""]


def decode(rows: Iterable[tuple[int, bytes]], dimensions: int) -> dict[int, Matrix]:
    """Return the windows of each chunk, in order, from how they are stored."""
    import numpy as np

    found: dict[int, list[bytes]] = {}
    for chunk_id, blob in rows:
        found.setdefault(chunk_id, []).append(blob)
    return {
        chunk_id: np.frombuffer(b"".join(parts), dtype="<f4").reshape(-1, dimensions)
        for chunk_id, parts in found.items()
    }


def with_headings(title: str, heading: str, text: str) -> str:
    """Set the title and heading path before a passage that does not begin with them.

    Space around it says nothing: a section that another is appended to stays the same text.
    """
    path = [part for part in dict.fromkeys([title, *heading.split("\n")]) if part]
    beginning = text[: sum(map(len, path)) + 100]
    return "\n".join([*(part for part in path if part not in beginning), text.strip()])


def to_chunk(row: Sequence[Any]) -> Chunk:
    """Return a passage: text, first and last line, heading and overlap."""
    text, start, end, heading, overlap = row
    return Chunk(text, start, end, tuple(filter(None, heading.split("\n"))), overlap)


def to_exported_note(row: Sequence[Any], chunks: Sequence[Sequence[Any]]) -> ExportedNote:
    """Return a note from its row and those of its chunks, each with its id first."""
    key, root, *file, title, names, date, meta, tags, links = row
    called = names.split("\n")
    note = Note(
        title,
        date,
        tuple(name for name in called if name.casefold() in tags),  # tags are kept case-folded
        tuple(called),
        tuple(links),
        json.loads(meta),
        tuple(to_chunk(part[1:]) for part in chunks),
    )
    return ExportedNote(key, root, SourceFile(*file), note, tuple(part[0] for part in chunks))


def to_map_point(row: Sequence[Any]) -> MapPoint:
    """Return a place: path, workspace, first and last line, and title."""
    path, root, start, end, title = row
    return MapPoint(
        path, root, start, end, title, "fact" if root.startswith(FACT_WORKSPACE) else "note"
    )


FACT_COLUMNS = (
    "id, text, category, source, origin, importance, confidence, decay_class, created_at,"
    " confirmed_at, expires_at, valid_from, valid_until, superseded_by, scope, target"
)


def fact_values(fact: Fact) -> tuple[Any, ...]:
    """Return a fact as a row."""
    return tuple(getattr(fact, name) for name in FACT_COLUMNS.split(", "))
