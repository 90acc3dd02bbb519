"""Conversions between rows and values that both engines share."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memwell.model import POSITIONS, Chunk, Context, Fact, FactEvent, Hit, Note
from memwell.store.contract.query import Neighbours
from memwell.store.contract.values import (
    FACT_WORKSPACE,
    ExportedNote,
    FactFilter,
    LinkedNote,
    MapPoint,
    SourceFile,
)
from memwell.store.words.normalise import WordRow, camel_parts

if TYPE_CHECKING:
    from memwell.embed.base import Matrix


HAS_POSITIONS = f'{{"{POSITIONS}"'
"""The beginning of the metadata, as JSON, of a converted document."""
_TURN = re.compile(r"\A## .*\n\s*")
"""The heading of a turn in a transcript."""
Tokens = Callable[[str], list[tuple[str, str]]]
"""Splits a text into tokens, each with the letters it came from."""


def match_chunks(
    chunks: Sequence[Chunk], before: Sequence[WordRow]
) -> tuple[list[int | None], list[int]]:
    """Return the known id of each chunk (None for a new chunk), and the ids that are not used."""
    reusable: dict[tuple[str, str], list[int]] = {}
    for row in reversed(before):
        reusable.setdefault((row.text, row.heading), []).append(row.chunk_id)
    ids: list[int | None] = []
    for part in chunks:
        same = reusable.get((part.text, "\n".join(part.heading)))
        ids.append(same.pop() if same else None)
    return ids, [key for keys in reusable.values() for key in keys]


def changed_words(
    before: Sequence[WordRow], ids: Sequence[int], note: Note, path: str
) -> tuple[list[WordRow], list[WordRow]]:
    """Return the rows that a new version of a note removes from the keyword index, and adds."""
    names = "\n".join(note.names)
    after = [
        WordRow(key, part.text, "\n".join(part.heading), names, path)
        for key, part in zip(ids, note.chunks, strict=True)
    ]
    stay = {*before} & {*after}
    return [row for row in before if row not in stay], [row for row in after if row not in stay]


def join_chunks(rows: Sequence[tuple[int, int, int, int, str]]) -> Context:
    """Join rows of (seq, first line, last line, overlap, text) to one text."""
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
    """Group rows of (chunk id, neighbour id, chunk length, neighbour length) by chunk."""
    neighbours: dict[int, list[tuple[int, int]]] = {}
    lengths: dict[int, int] = {}
    for chunk, other, length, length_of_other in rows:
        neighbours.setdefault(chunk, []).append((other, length_of_other))
        lengths[chunk] = length
    groups = {
        chunk: to_neighbours(lengths[chunk], *zip(*others, strict=True))
        for chunk, others in neighbours.items()
    }
    return {chunk: group for chunk, group in groups.items() if group.length < shorter_than}


def to_neighbours(length: int, chunks: Sequence[int], lengths: Sequence[int]) -> Neighbours:
    """Return the neighbours of a chunk, with the mean of its length and theirs."""
    return Neighbours(tuple(chunks), (length + sum(lengths)) / (1 + len(lengths)))


def to_hit(row: Sequence[Any], relevance: float) -> Hit:
    """Convert a row to a hit.

    The row has path, workspace, lines, text, title, heading, date, tags, the end of validity, and
    the metadata if the note is a converted document.
    """
    path, root, start, end, text, title, heading, date, tags, until, meta = row
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
        position=_find_position(meta, start) if meta else "",
    )


def _find_position(meta: str, line: int) -> str:
    """Return the last position of a document at or before a line of its text."""
    try:
        before = [name for start, name in json.loads(meta)[POSITIONS] if start <= line]
    except (ValueError, TypeError, KeyError):
        return ""  # a field of that name in the front matter of a note
    return str(before[-1]) if before else ""


def surface_form(token: str, like: str, text: str, tokens: Tokens) -> str | None:
    """Return the first word of `text` that has a token, in the case of `like`.

    If no word has it, the first part of an identifier. A token alone is a stem, not a word.
    """
    words: list[str] = re.findall(r"[^\W_]+", text)
    parts = [part for word in words for part in camel_parts(word)]
    for word in (*words, *parts):
        if any(other == token for other, _ in tokens(word)):
            return word.capitalize() if like[:1].isupper() else word.lower()
    return None


def encode(matrix: Matrix, dimensions: int) -> list[bytes]:
    """Return the windows of a chunk as little-endian float32, rounded as every store keeps them."""
    from memwell.store.contract.quantisation import round_vectors

    rounded = round_vectors(_unit_vectors(matrix, dimensions))
    return [row.astype("<f4").tobytes() for row in rounded] or [b""]


def encode_numbers(matrix: Matrix, dimensions: int) -> list[bytes]:
    """Return the windows of a chunk as whole numbers, a byte each."""
    from memwell.store.contract.quantisation import quantise

    return [row.tobytes() for row in quantise(_unit_vectors(matrix, dimensions))] or [b""]


def _unit_vectors(matrix: Matrix, dimensions: int) -> Matrix:
    """Return vectors; refuse those of another shape or length."""
    import numpy as np

    if matrix.ndim != 2 or (len(matrix) and matrix.shape[1] != dimensions):
        raise ValueError(f"vectors of shape {matrix.shape} in a space of {dimensions} dimensions")
    lengths = np.linalg.norm(matrix, axis=1) if len(matrix) else np.ones(1)
    if not np.allclose(lengths, 1.0, atol=1e-3):  # also true of NaN and infinity
        raise ValueError("a vector that is not of unit length")
    return matrix


def decode(rows: Iterable[tuple[int, bytes]], dimensions: int) -> dict[int, Matrix]:
    """Return the windows of each chunk, in order, from little-endian float32."""
    import numpy as np

    windows: dict[int, list[bytes]] = {}
    for chunk_id, blob in rows:
        windows.setdefault(chunk_id, []).append(blob)
    return {
        chunk_id: np.frombuffer(b"".join(parts), dtype="<f4").reshape(-1, dimensions)
        for chunk_id, parts in windows.items()
    }


def embedded_text(meta: str, heading: str, text: str) -> str:
    """Return what is embedded of a chunk: it stands below the title and the headings.

    A turn of a transcript is embedded alone. Its heading is a time and a role, and the title is
    that of the session, so that they make turns of different content similar.
    """
    values = _read_meta(meta)
    if values.get("tool") and values.get("session"):
        return _TURN.sub("", text.strip()) or text
    return with_headings(_plain_text(values.get("title")), heading, text)


@lru_cache(maxsize=1)  # the chunks of a note come one after the other
def _read_meta(meta: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(meta)
    return values


def _plain_text(value: Any) -> str:
    """Return a value of front matter as SQLite's json_extract gives it."""
    if isinstance(value, str | None):
        return value or ""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(int(value) if isinstance(value, bool) else value)


def with_headings(title: str, heading: str, text: str) -> str:
    """Return a chunk with the title and headings above it, unless it begins with them.

    White space around the chunk is dropped: a section keeps its text if another one follows it.
    """
    path = [part for part in dict.fromkeys([title, *heading.split("\n")]) if part]
    beginning = text[: sum(map(len, path)) + 100]
    return "\n".join([*(part for part in path if part not in beginning), text.strip()])


def to_chunk(row: Sequence[Any]) -> Chunk:
    """Convert (text, first line, last line, heading, overlap) to a chunk."""
    text, start, end, heading, overlap = row
    return Chunk(text, start, end, tuple(filter(None, heading.split("\n"))), overlap)


def to_linked_note(row: Sequence[Any]) -> LinkedNote:
    """Convert (path, workspace, names, tags, links) to a note; its tags are not its names."""
    path, root, names, tags, links = row
    title, *others = names.split("\n")
    aliases = [name for name in others if name.casefold() not in tags]
    return LinkedNote(path, root, (title, *aliases), tuple(sorted(links)))


def to_exported_note(row: Sequence[Any], chunks: Sequence[Sequence[Any]]) -> ExportedNote:
    """Convert the row of a note and the rows of its chunks, each with its id first."""
    key, root, *file, title, names, date, meta, tags, links = row
    names = names.split("\n")
    note = Note(
        title,
        date,
        tuple(name for name in names if name.casefold() in tags),  # tags are stored case-folded
        tuple(names),
        tuple(links),
        json.loads(meta),
        tuple(to_chunk(part[1:]) for part in chunks),
    )
    return ExportedNote(key, root, SourceFile(*file), note, tuple(part[0] for part in chunks))


def to_map_point(row: Sequence[Any]) -> MapPoint:
    """Convert (path, workspace, first line, last line, title) to a point of the map."""
    path, root, start, end, title = row
    return MapPoint(
        path, root, start, end, title, "fact" if root.startswith(FACT_WORKSPACE) else "note"
    )


FACT_COLUMNS = (
    "id, text, category, source, origin, importance, confidence, decay_class, created_at,"
    " confirmed_at, expires_at, valid_from, valid_until, superseded_by, scope, target"
)


def fact_values(fact: Fact) -> tuple[Any, ...]:
    """Return the values of a fact in the order of `FACT_COLUMNS`."""
    return tuple(getattr(fact, name) for name in FACT_COLUMNS.split(", "))


def to_fact(row: Sequence[Any], tags: Iterable[str]) -> Fact:
    """Convert the values of `FACT_COLUMNS` and the tags to a fact."""
    values: dict[str, Any] = dict(zip(FACT_COLUMNS.split(", "), row, strict=True))
    return Fact(**values, tags=tuple(sorted(tags)))


def fact_conditions(which: FactFilter, mark: Callable[[Any], str]) -> Iterator[str]:
    """Yield the conditions of a filter that all engines write alike, on ``facts f``.

    `mark` adds a value to the statement and returns its placeholder.
    """
    yield "1 = 1"
    for name in ("scope", "category", "source"):
        if (value := getattr(which, name)) is not None:
            yield f"f.{name} = {mark(value)}"
    if which.as_of is not None:
        yield f"coalesce(f.valid_from, f.created_at) <= {mark(which.as_of)}"
        yield f"(f.valid_until IS NULL OR f.valid_until > {mark(which.as_of)})"
    elif not which.superseded:
        yield "f.superseded_by IS NULL"
    if which.expired_before is not None:
        yield f"f.expires_at <= {mark(which.expired_before)}"
    if which.live_at is not None:
        yield f"(f.expires_at IS NULL OR f.expires_at > {mark(which.live_at)})"


# -- a fact with its events ------------------------------------------------------------------------

FactWithHistory = tuple[Fact, tuple[FactEvent, ...]]
EXPORTED_KIND = "fact"
EXPORTED_COLUMNS = tuple(column.name for column in fields(Fact) if column.name != "tags")


def to_export_row(fact: Fact, events: Iterable[FactEvent]) -> dict[str, Any]:
    """Return a fact with its events as an export writes it."""
    values = asdict(fact)
    return {
        "kind": EXPORTED_KIND,
        **{name: values[name] for name in EXPORTED_COLUMNS},
        "tags": [*fact.tags],
        "events": [
            {"at": event.at, "what": event.what, "detail": event.detail} for event in events
        ],
    }


def last_change(fact: Fact, events: Iterable[FactEvent]) -> tuple[dt.datetime, dt.datetime]:
    """Return when a fact was confirmed, and when it last changed: the larger pair is newer."""
    confirmed = dt.datetime.fromisoformat(fact.confirmed_at)
    return confirmed, max([confirmed, *(dt.datetime.fromisoformat(event.at) for event in events)])


def group_events(rows: Iterable[Sequence[Any]]) -> dict[str, list[FactEvent]]:
    """Group rows of (fact id, time, what, detail) by fact, in their order."""
    events: dict[str, list[FactEvent]] = {}
    for row in rows:
        events.setdefault(row[0], []).append(FactEvent(*row))
    return events
