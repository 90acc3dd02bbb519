"""Lists of notes, chunks and vectors, for people who browse instead of searching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memwell.model import Chunk
from memwell.store.contract.index import Index
from memwell.store.contract.values import LinkedNote, ListedNote, MapPoint

if TYPE_CHECKING:
    from memwell.store.contract.values import Array


@dataclass(frozen=True, slots=True)
class NoteBrowser:
    """Lists the notes and facts of some workspaces."""

    index: Index
    roots: Sequence[str]

    def notes(self, path: str | None = None) -> list[ListedNote]:
        """Return the notes (at one path), newest first, undated ones last."""
        with self.index.reading() as reader:
            return reader.listing.notes(self.roots, path)

    def chunks(self, path: str, workspace: str) -> list[Chunk]:
        """Return the chunks of a note, in order; none if the note does not exist."""
        with self.index.reading() as reader:
            return reader.listing.chunks(self.roots, path, workspace)

    def linked_notes(self, workspace: str) -> list[LinkedNote]:
        """Return the notes of a workspace with their names and links."""
        with self.index.reading() as reader:
            return reader.listing.linked_notes([root for root in self.roots if root == workspace])

    def texts(self, places: Sequence[tuple[str, str, int]]) -> list[str]:
        """Return the text of the chunk at each path, workspace and first line; "" if none is."""
        found: dict[tuple[str, str, int], str] = {}
        with self.index.reading() as reader:
            for path, workspace in dict.fromkeys(place[:2] for place in places):
                for chunk in reader.listing.chunks(self.roots, path, workspace):
                    found[path, workspace, chunk.start_line] = chunk.text
        return [found.get(place, "") for place in places]

    def sample_with_vectors(self, most: int) -> tuple[list[MapPoint], Array]:
        """Return at most `most` chunks, spread evenly, with their vectors in the live space."""
        import numpy as np

        with self.index.reading() as reader:
            space = reader.spaces.live()
            step = -(-reader.keywords.total // most) or 1
            rows = reader.listing.sample_with_vectors(self.roots, space, step) if space else []
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), dtype="<f4")
        return [point for point, _ in rows], vectors.reshape(-1, space.dimensions if space else 2)
