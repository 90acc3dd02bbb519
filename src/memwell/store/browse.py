"""What an index holds, listed: for those who look around in it instead of searching."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memwell.model import Chunk, Note
from memwell.store.contract.index import Index
from memwell.store.rows import FACT_WORKSPACE
from memwell.store.sqlite.notes import SourceFile

if TYPE_CHECKING:
    from memwell.store.vectors.snapshot import Array


@dataclass(frozen=True, slots=True)
class ListedNote:
    """A note as the index knows it."""

    path: str
    workspace: str
    title: str
    date: str | None
    tags: tuple[str, ...]
    chunks: int


@dataclass(frozen=True, slots=True)
class ExportedNote:
    """A note with all that an index knows of it, so that another one can be told."""

    id: int
    workspace: str
    file: SourceFile
    note: Note
    chunk_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A passage that has a vector."""

    path: str
    workspace: str
    start_line: int
    end_line: int
    title: str
    kind: str


@dataclass(frozen=True, slots=True)
class NoteBrowser:
    """What the index holds of some workspaces, of notes and of facts."""

    index: Index
    roots: Sequence[str]

    def notes(self, path: str | None = None) -> list[ListedNote]:
        """Return the notes (of a path), the newest first, those without a date last."""
        with self.index.reading() as reader:
            return reader.listing.notes(self.roots, path)

    def chunks(self, path: str, workspace: str) -> list[Chunk]:
        """Return the passages of a note, in order; none of a note that is not there."""
        with self.index.reading() as reader:
            return reader.listing.chunks(self.roots, path, workspace)

    def sample_with_vectors(self, most: int) -> tuple[list[MapPoint], Array]:
        """Return passages with their vectors in the space that answers, evenly spread over it."""
        import numpy as np

        with self.index.reading() as reader:
            space = reader.spaces.live()
            step = -(-reader.total // most) or 1
            rows = reader.listing.sample_with_vectors(self.roots, space, step) if space else []
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), dtype="<f4")
        return [spot for spot, _ in rows], vectors.reshape(-1, space.dimensions if space else 2)


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
