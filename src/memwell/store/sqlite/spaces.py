"""Vector spaces: the vectors of one model, side by side with those of others.

A space is known by its fingerprint. A vector is stored as little-endian float32, or as the key by
which LanceDB has it, keyed by space, chunk and window; a chunk that the model could not read has
one empty window, so that it is not tried again. Exactly one space is live: it answers. Others are
being filled, or were retired.

A note that is cut anew though its text is the same (another chunk size) lends the vectors of its
former chunks to the new ones on the same lines, until those have their own: windows below 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.vectors.backend import Stored

FILLING, LIVE, RETIRED = "filling", "live", "retired"

_COLUMNS = (
    "id, fingerprint, provider, model, dimensions, settings, state, opened_at, retired_at,"
    " pinned, complete_to, random_mean, random_deviation, snapshot, unrelated_mean,"
    " unrelated_deviation, place"
)


@dataclass(frozen=True, slots=True)
class Space:
    """The vectors of one model."""

    id: int
    fingerprint: str
    provider: str
    model: str
    dimensions: int
    settings: str
    state: str
    opened_at: str
    retired_at: str | None = None
    pinned: str | None = None
    """The chain under which the user switched to this space."""
    complete_to: int = 0
    """All chunks up to this id have their vectors."""
    random_mean: float | None = None
    """The cosine of two vectors picked at random, measured when the space was full."""
    random_deviation: float | None = None
    snapshot: str | None = None
    unrelated_mean: float | None = None
    """The cosine of a question and a passage that has nothing to do with it."""
    unrelated_deviation: float | None = None
    location: str = ""
    """The table of LanceDB that has its vectors; empty: they are here, in `vectors`.

    On a server, the index of its own that finds them; empty: all are compared."""

    @property
    def made_from(self) -> Mapping[str, Any]:
        """What its provider is made from."""
        found: Mapping[str, Any] = json.loads(self.settings)
        return found


@dataclass(frozen=True, slots=True)
class WaitingChunk:
    """A chunk that a space has no vector of yet."""

    chunk_id: int
    text: str
    """What is embedded: the headings above the passage, and the passage."""


class Spaces:
    """Reads and writes the vectors of all spaces over one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    # -- spaces --------------------------------------------------------------------------------

    def all(self) -> list[Space]:
        """Return every space: the live one, those being filled, those retired last."""
        rows = self._connection.execute(
            f"""
            SELECT {_COLUMNS} FROM spaces
            ORDER BY state = '{RETIRED}', state = '{FILLING}', retired_at DESC, id DESC
            """
        )
        return [Space(*row) for row in rows]

    def live(self) -> Space | None:
        """Return the space that answers, if there is one."""
        return next((space for space in self.all() if space.state == LIVE), None)

    def find(self, fingerprint: str) -> Space | None:
        """Return the space of a fingerprint."""
        return next((space for space in self.all() if space.fingerprint == fingerprint), None)

    def set_location(self, space: Space) -> str | None:
        """Return where the vectors of a space are by now; None if it was dropped."""
        found = self._connection.execute("SELECT place FROM spaces WHERE id = ?", (space.id,)).get
        return None if found is None else str(found)

    def open(
        self,
        fingerprint: str,
        provider: str,
        model: str,
        dimensions: int,
        settings: Mapping[str, Any],
        at: str,
    ) -> Space:
        """Return the space of a fingerprint to be filled; the first of all is live at once."""
        state = FILLING if self.live() else LIVE
        self._connection.execute(
            """
            INSERT INTO spaces
                (fingerprint, provider, model, dimensions, settings, state, opened_at)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (fingerprint) DO UPDATE SET state = excluded.state, retired_at = NULL
            WHERE state = 'retired'
            """,
            (fingerprint, provider, model, dimensions, json.dumps(settings), state, at),
        )
        space = self.find(fingerprint)
        assert space is not None
        return space

    def go_live(self, space: Space, at: str) -> None:
        """Let a space answer from now on; the one before is kept, retired."""
        self._connection.execute(
            f"UPDATE spaces SET state = '{RETIRED}', retired_at = ?"
            f" WHERE state = '{LIVE}' AND id != ?",
            (at, space.id),
        )
        self._connection.execute(
            f"UPDATE spaces SET state = '{LIVE}', retired_at = NULL WHERE id = ?", (space.id,)
        )

    def retire(self, space: Space, at: str) -> None:
        """Stop filling a space; its vectors are kept."""
        self._connection.execute(
            f"UPDATE spaces SET state = '{RETIRED}', retired_at = ? WHERE id = ?", (at, space.id)
        )

    def pin(self, space: Space, chain: str) -> None:
        """Record that the user chose a space, whatever the chain would choose."""
        self._connection.execute("UPDATE spaces SET pinned = NULL")
        self._connection.execute("UPDATE spaces SET pinned = ? WHERE id = ?", (chain, space.id))

    def drop(self, space: Space) -> None:
        """Delete a space with its vectors."""
        self._connection.execute("DELETE FROM spaces WHERE id = ?", (space.id,))
        self._connection.execute("DELETE FROM dead_vectors WHERE space_id = ?", (space.id,))

    # -- what is in them -----------------------------------------------------------------------

    def coverage(self, space: Space) -> tuple[int, int]:
        """Return how many chunks were embedded in a space, and how many there are."""
        total = int(self._connection.execute("SELECT count(*) FROM chunks").get)
        return total - self.count_waiting(space), total

    def has_vectors(self, space: Space) -> bool:
        """Whether anything can be found in a space."""
        found = self._connection.execute(
            "SELECT 1 FROM vectors INDEXED BY vectors_by_space WHERE space_id = ? LIMIT 1",
            (space.id,),
        ).get
        return found is not None

    def count_waiting(self, space: Space) -> int:
        """Return how many chunks have no vector in a space yet."""
        return int(self._connection.execute(f"SELECT count(*) {_WAITING}", _bind(space)).get)

    def waiting(self, space: Space, limit: int) -> list[WaitingChunk]:
        """Return chunks without a vector in a space, those of the newest notes first."""
        rows = self._connection.execute(
            f"""
            SELECT c.id, coalesce(json_extract(n.meta, '$.title'), ''), c.heading, c.text
            FROM chunks c JOIN notes n ON n.id = c.note_id
            WHERE c.id IN (
                SELECT c.id {_WAITING} ORDER BY n.mtime_ns DESC, c.id LIMIT :limit
            )
            ORDER BY n.mtime_ns DESC, c.id
            """,
            _bind(space) | {"limit": limit},
        )
        return [WaitingChunk(key, with_headings(str(title), *rest)) for key, title, *rest in rows]

    def put(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; a chunk that was deleted meanwhile is passed over."""
        self.put_rows(
            space, ((chunk_id, encode(matrix, space.dimensions)) for chunk_id, matrix in windows)
        )

    def put_rows(self, space: Space, windows: Iterable[tuple[int, Sequence[Stored]]]) -> None:
        """Store what the windows of chunks are, or where."""
        rows = [
            (space.id, chunk_id, number, stored)
            for chunk_id, parts in windows
            for number, stored in enumerate(parts)
        ]
        self._connection.executemany(
            "DELETE FROM vectors WHERE chunk_id = ? AND space_id = ? AND window < 0",
            ((chunk_id, space.id) for _, chunk_id, number, _ in rows if number == 0),
        )
        self._connection.executemany(
            """
            INSERT OR IGNORE INTO vectors (space_id, chunk_id, window, vector)
            SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM chunks WHERE id = ?2)
            """,
            rows,
        )

    def mark_complete(self, space: Space, mean: float | None, deviation: float | None) -> None:
        """Record that every chunk there is now has its vectors."""
        self._connection.execute(
            """
            UPDATE spaces SET random_mean = ?, random_deviation = ?,
                complete_to = (SELECT coalesce(max(id), 0) FROM chunks)
            WHERE id = ?
            """,
            (mean, deviation, space.id),
        )

    def set_baseline(self, space: Space, mean: float, deviation: float) -> None:
        """Record the cosine that the model gives to a question and an unrelated passage."""
        self._connection.execute(
            "UPDATE spaces SET unrelated_mean = ?, unrelated_deviation = ? WHERE id = ?",
            (mean, deviation, space.id),
        )

    def some_vectors(self, space: Space, most: int) -> list[tuple[int, Stored]]:
        """Return vectors spread evenly over a space, each with its note."""
        rows = self._connection.execute(
            """
            WITH spread AS (
                SELECT id, row_number() OVER (ORDER BY chunk_id, window) AS number,
                       count(*) OVER () AS total
                FROM vectors WHERE space_id = :space
            )
            SELECT c.note_id, v.vector FROM spread s
            JOIN vectors v ON v.id = s.id JOIN chunks c ON c.id = v.chunk_id
            WHERE s.number % max(1, s.total / :most) = 0 AND v.vector != x''
            ORDER BY s.number LIMIT :most
            """,
            {"space": space.id, "most": most},
        )
        return [*rows]

    def vectors_of(self, space: Space, chunk_ids: Sequence[int]) -> list[tuple[int, Stored]]:
        """Return the vectors of some chunks, each with its chunk."""
        rows = self._connection.execute(
            """
            SELECT chunk_id, vector FROM vectors
            WHERE chunk_id IN (SELECT value FROM json_each(?)) AND space_id = ? AND vector != x''
            """,
            (json.dumps([*chunk_ids]), space.id),
        )
        return [*rows]

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> list[tuple[int, Stored]]:
        """Return the vectors that chunks have of their own, in order, empty ones too."""
        rows = self._connection.execute(
            """
            SELECT chunk_id, vector FROM vectors
            WHERE chunk_id IN (SELECT value FROM json_each(?)) AND space_id = ? AND window >= 0
            ORDER BY chunk_id, window
            """,
            (json.dumps([*chunk_ids]), space.id),
        )
        return [*rows]


def reuse_old_vectors(connection: apsw.Connection, note_id: int, former: Sequence[int]) -> None:
    """Let the new chunks of a note use the vectors of `former` ones on the same lines."""
    connection.executemany(
        """
        INSERT OR IGNORE INTO vectors (space_id, chunk_id, window, vector)
        SELECT v.space_id, new.id, -v.id, v.vector
        FROM vectors v JOIN chunks old ON old.id = v.chunk_id
        JOIN chunks new ON new.note_id = ?2
            AND new.start_line <= old.end_line AND new.end_line >= old.start_line
        WHERE old.id = ?1 AND new.id > old.id AND v.vector != x''
            AND NOT EXISTS (
                SELECT 1 FROM vectors own WHERE own.chunk_id = new.id AND own.window >= 0
            )
        """,
        ((chunk_id, note_id) for chunk_id in former),
    )


_WAITING = """
    FROM chunks c JOIN notes n ON n.id = c.note_id
    WHERE c.id > :complete_to AND NOT EXISTS (
        SELECT 1 FROM vectors v WHERE v.chunk_id = c.id AND v.space_id = :space AND v.window >= 0
    )
"""


def _bind(space: Space) -> dict[str, int]:
    return {"space": space.id, "complete_to": space.complete_to}


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
