"""Vector spaces in index.db.

The table `vectors` has a row for each space, chunk and window: the vector as whole numbers
(quantisation.py), or the key of its row in LanceDB. A chunk that the model could not read has one
empty window, so that it is not embedded again.

If a note is divided into other chunks although its text is the same (another chunk size), the new
chunks use the vectors of the old ones on the same lines until they have their own. Such windows
have numbers below 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import apsw

from memwell.store.contract.values import (
    FACT_WORKSPACE,
    FILLING,
    RETIRED,
    Space,
    WaitingChunk,
)
from memwell.store.contract.vectors import Spaces
from memwell.store.rows import embedded_text, encode_numbers

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.sqlite.keywords import SqliteKeywords
    from memwell.store.vectors.backend import Stored


_COLUMNS = (
    "id, fingerprint, provider, model, dimensions, settings, state, opened_at, retired_at,"
    " pinned, complete_to, random_mean, random_deviation, snapshot, unrelated_mean,"
    " unrelated_deviation, place"
)


class SqliteSpaces(Spaces):
    """Reads and writes vector spaces over one connection.

    With `keywords`, the chunks are counted that their viewer sees; without, all of them.
    """

    def __init__(self, connection: apsw.Connection, keywords: SqliteKeywords | None = None) -> None:
        self._connection = connection
        self._keywords = keywords

    # -- spaces --------------------------------------------------------------------------------

    def all(self) -> list[Space]:
        rows = self._connection.execute(
            f"""
            SELECT {_COLUMNS} FROM spaces
            ORDER BY state = '{RETIRED}', state = '{FILLING}', retired_at DESC, id DESC
            """
        )
        return [Space(*row) for row in rows]

    def location(self, space: Space) -> str | None:
        """Return where the vectors of a space are now; None if it was dropped."""
        place = self._connection.execute("SELECT place FROM spaces WHERE id = ?", (space.id,)).get
        return None if place is None else str(place)

    def _lock(self) -> None:
        """Do nothing: SQLite has one writer at a time."""

    def _insert(self, space: Space) -> None:
        self._connection.execute(
            """
            INSERT INTO spaces
                (fingerprint, provider, model, dimensions, settings, state, opened_at)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (fingerprint) DO UPDATE SET state = excluded.state, retired_at = NULL
            WHERE state = 'retired'
            """,
            astuple(space)[1:8],
        )

    def _change(self, space: Space, **columns: Any) -> None:
        changes = ", ".join(f"{name} = :{name}" for name in columns)
        self._connection.execute(
            f"UPDATE spaces SET {changes} WHERE id = :id", {**columns, "id": space.id}
        )

    def drop(self, space: Space) -> None:
        """Delete a space with its vectors."""
        self._connection.execute("DELETE FROM spaces WHERE id = ?", (space.id,))
        self._connection.execute("DELETE FROM dead_vectors WHERE space_id = ?", (space.id,))

    # -- vectors -------------------------------------------------------------------------------

    def dead(self, space: Space) -> list[int]:
        """Return the ids of deleted rows that a snapshot or a table of LanceDB may still have."""
        rows: Any = self._connection.execute(
            "SELECT id FROM dead_vectors WHERE space_id = ?", (space.id,)
        )
        return [key for (key,) in rows]

    def clear_dead(self, ids: Iterable[int]) -> None:
        """Record that no copy has deleted rows any more."""
        self._connection.executemany(
            "DELETE FROM dead_vectors WHERE id = ?", ((key,) for key in ids)
        )

    @property
    def _hidden(self) -> str:
        return self._keywords.hidden_workspaces if self._keywords else ""

    def coverage(self, space: Space) -> tuple[int, int]:
        keywords = self._keywords
        total = keywords.total if keywords else self._value("SELECT count(*) FROM chunks")
        return total - self.count_waiting(space), total

    def has_vectors(self, space: Space) -> bool:
        among = f"JOIN {_NOTES_OF_CHUNKS} ON c.id = v.chunk_id" if self._hidden else ""
        statement = f"""
            SELECT EXISTS (
                SELECT 1 FROM vectors v INDEXED BY vectors_by_space {among}
                WHERE v.space_id = :space {_VISIBLE if self._hidden else ""}
            )
        """
        return bool(self._value(statement, space=space.id))

    def count_waiting(self, space: Space) -> int:
        visible = _VISIBLE if self._hidden else ""
        return self._value(f"SELECT count(*) {_WAITING} {visible}", **_bind(space))

    def count_bytes(self) -> int:
        """Return the size of the notes, facts and vectors that the viewer sees.

        Rows are counted, and not measured: that would read the whole file.
        """
        visible = f"WHERE true {_VISIBLE}" if self._hidden else ""
        size = self._value(f"SELECT sum(n.size) FROM notes n {visible}")
        for space in self.all():
            of_all = self._value(_COUNT_VECTORS, space=space.id)
            of_others = self._value(_COUNT_HIDDEN, space=space.id) if self._hidden else 0
            size += (of_all - of_others) * space.dimensions
        return size

    def _value(self, statement: str, **values: int) -> int:
        bound = {**values, "hidden": self._hidden}
        return int(self._connection.execute(statement, bound).get or 0)

    def waiting(self, space: Space, limit: int) -> list[WaitingChunk]:
        return self.waiting_among(space, self.waiting_ids(space, limit))

    def waiting_ids(self, space: Space, limit: int) -> list[int]:
        """Return the ids of chunks without a vector, those of the newest notes first."""
        rows = self._connection.execute(
            f"SELECT c.id {_WAITING} ORDER BY n.mtime_ns DESC, c.id LIMIT :limit",
            _bind(space) | {"limit": limit},
        )
        return [chunk for (chunk,) in rows]

    def waiting_among(self, space: Space, ids: Sequence[int]) -> list[WaitingChunk]:
        """Return those of some chunks that still have no vector, in their order."""
        rows = self._connection.execute(
            f"""
            SELECT c.id, n.meta, c.heading, c.text {_WAITING}
            AND c.id IN (SELECT value FROM json_each(:ids))
            """,
            _bind(space) | {"ids": json.dumps(ids)},
        )
        found = {key: WaitingChunk(key, embedded_text(*rest)) for key, *rest in rows}
        return [found[key] for key in ids if key in found]

    def newest_chunk(self) -> int:
        """Return the greatest id that a chunk has had so far."""
        return self._value("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'")

    def put(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; chunks that were deleted meanwhile are skipped."""
        self.put_rows(
            space,
            ((chunk_id, encode_numbers(matrix, space.dimensions)) for chunk_id, matrix in windows),
        )

    def put_rows(self, space: Space, windows: Iterable[tuple[int, Sequence[Stored]]]) -> None:
        """Store the windows of chunks: vectors, or keys of LanceDB."""
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

    def _last_embedded(self, space: Space) -> int:
        return int(self._connection.execute("SELECT max(id) FROM chunks").get or 0)

    def sample(self, space: Space, most: int) -> list[tuple[int, Stored]]:
        """Return at most `most` stored vectors of notes, spread evenly, each with its note id."""
        rows = self._connection.execute(
            """
            WITH spread AS (
                SELECT id, row_number() OVER (ORDER BY chunk_id, window) AS number,
                       count(*) OVER () AS total
                FROM vectors WHERE space_id = :space AND chunk_id IN (
                    SELECT c.id FROM workspaces w JOIN notes n ON n.workspace_id = w.id
                    JOIN chunks c ON c.note_id = n.id WHERE w.root NOT GLOB :facts
                )
            )
            SELECT c.note_id, v.vector FROM spread s
            JOIN vectors v ON v.id = s.id JOIN chunks c ON c.id = v.chunk_id
            WHERE s.number % max(1, s.total / :most) = 0 AND v.vector != x''
            ORDER BY s.number LIMIT :most
            """,
            {"space": space.id, "most": most, "facts": f"{FACT_WORKSPACE}*"},
        )
        return [*rows]

    def vectors_of(self, space: Space, chunk_ids: Sequence[int]) -> list[tuple[int, Stored]]:
        """Return the stored vectors of chunks, each with its chunk id."""
        return self._stored(space, chunk_ids, "vector != x''")

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> list[tuple[int, Stored]]:
        """Return the stored vectors of chunks in order, without those of old chunks."""
        return self._stored(space, chunk_ids, "window >= 0 ORDER BY chunk_id, window")

    def _stored(self, space: Space, chunk_ids: Sequence[int], rest: str) -> list[Any]:
        return self._connection.execute(
            f"""
            SELECT chunk_id, vector FROM vectors
            WHERE chunk_id IN (SELECT value FROM json_each(?)) AND space_id = ? AND {rest}
            """,
            (json.dumps([*chunk_ids]), space.id),
        ).fetchall()


def reuse_old_vectors(connection: apsw.Connection, note_id: int, old_ids: Sequence[int]) -> None:
    """Let the new chunks of a note use the vectors of old ones on the same lines."""
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
        ((chunk_id, note_id) for chunk_id in old_ids),
    )


_NOTES_OF_CHUNKS = "(chunks c JOIN notes n ON n.id = c.note_id)"
_VISIBLE = "AND n.workspace_id NOT IN (SELECT value FROM json_each(:hidden))"
_COUNT_VECTORS = "SELECT count(*) FROM vectors INDEXED BY vectors_by_space WHERE space_id = :space"
_COUNT_HIDDEN = """
    SELECT count(*) FROM notes n JOIN chunks c ON c.note_id = n.id
    JOIN vectors v ON v.chunk_id = c.id AND v.space_id = :space
    WHERE n.workspace_id IN (SELECT value FROM json_each(:hidden))
"""

_WAITING = """
    FROM chunks c JOIN notes n ON n.id = c.note_id
    WHERE c.id > :complete_to AND NOT EXISTS (
        SELECT 1 FROM vectors v WHERE v.chunk_id = c.id AND v.space_id = :space AND v.window >= 0
    )
"""


def _bind(space: Space) -> dict[str, int]:
    return {"space": space.id, "complete_to": space.complete_to}
