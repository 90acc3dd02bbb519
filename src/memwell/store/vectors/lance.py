"""Vectors in LanceDB, in a folder or on S3; the ledger stays in index.db.

A row in LanceDB has the vector, a key that the ledger refers to, and the note and workspace for
filters. It is written before the ledger refers to it, and a search ignores rows that the ledger
does not refer to: after a crash such rows are harmless. No row is ever deleted. Compaction copies
the rows in use to a new table and drops the old one, so that no file contains deleted vectors. Each
index has a folder of its own at the address, and deletes unused tables there.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
import numpy as np

from memwell.errors import VectorSearchUnavailable
from memwell.files import hold_lock, make_private_folder
from memwell.store.contract.quantisation import quantise, restore, to_numbers
from memwell.store.contract.query import Filters, Match, best_scores, match_order
from memwell.store.contract.values import Space
from memwell.store.rows import encode
from memwell.store.sqlite.database import Database
from memwell.store.sqlite.filters import filter_sql
from memwell.store.sqlite.spaces import SqliteSpaces
from memwell.store.vectors import backend
from memwell.store.vectors.backend import Allowed, Stored, VectorBackend
from memwell.store.vectors.lance_tables import Root, Row, Tables, parse_address

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array

T = TypeVar("T")

FOLDER, OWN = "lance", "lance-id"
"""Beside the index: the folder of tables if no address is set, and the index's name at one."""
_MOST_LISTED = 10_000
"""Ids in a filter at most; a longer list costs more than it saves."""
_BLOCK = 20_000


class LanceBackend(VectorBackend):
    """Stores vectors in LanceDB."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables = Tables()

    # -- writing -------------------------------------------------------------------------------

    def put(self, space: Space, windows: Sequence[tuple[int, Matrix]]) -> bool:
        vectors = {chunk: encode(matrix, space.dimensions) for chunk, matrix in windows}
        rows: list[Row] = []
        named: list[tuple[int, list[Stored]]] = []
        for chunk, note, workspace in self._notes_of([*vectors]):
            keys = [_new_key() if vector else b"" for vector in vectors[chunk]]
            named.append((chunk, keys))
            rows += [
                (key, note, workspace, vector)
                for key, vector in zip(keys, vectors[chunk], strict=True)
                if isinstance(key, int)
            ]
        with self._unless_moved(space):
            if rows:
                self.tables.add(space.location, rows)
        with self.database.writing() as connection:
            spaces = SqliteSpaces(connection)
            if spaces.location(space) != space.location:
                return False
            spaces.put_rows(space, named)
            return True

    def _notes_of(self, chunks: Sequence[int]) -> list[tuple[int, int, int]]:
        with self.database.reading() as connection:
            rows = connection.execute(
                """
                SELECT c.id, n.id, n.workspace_id FROM chunks c JOIN notes n ON n.id = c.note_id
                WHERE c.id IN (SELECT value FROM json_each(?))
                """,
                (json.dumps(chunks),),
            )
            return [*rows]

    # -- reading -------------------------------------------------------------------------------

    def nearest(
        self, connection: apsw.Connection, space: Space, query: Array, among: Allowed, limit: int
    ) -> list[Match]:
        """Ask for more and more rows until the ledger refers to enough of them."""
        where = _pushed_down(connection, space, among)
        if where is None:
            return []
        total, asked = self._query(space, self.tables.count), 0
        best: dict[int, float] = {}
        while len(best) < limit and asked < total:
            asked = min(4 * max(asked, limit) + 16, total)
            rows = self._query(space, partial(self.tables.nearest, query, where, asked))
            best = _best(connection, space, rows, among)
            if len(rows) < asked:
                break
        found = [Match(chunk, score) for chunk, score in best.items()]
        return sorted(found, key=match_order)[:limit]

    def read(self, space: Space, rows: Sequence[tuple[int, Stored]]) -> list[tuple[int, bytes]]:
        keys = [key for _, key in rows if isinstance(key, int)]
        found = self._query(space, lambda place: self.tables.fetch(place, keys)) if keys else {}
        return [(of, found[key]) for of, key in rows if isinstance(key, int) and key in found]

    def cosines(
        self, space: Space, rows: Sequence[tuple[int, Stored]], query: Array
    ) -> dict[int, float]:
        found = self.read(space, rows)
        vectors = np.frombuffer(b"".join(vector for _, vector in found), dtype="<f4")
        scores = np.vecdot(vectors.reshape(-1, space.dimensions), query).tolist()
        return best_scores(zip((of for of, _ in found), scores, strict=True))

    def _query(self, space: Space, ask: Callable[[str], T]) -> T:
        """Query the table of a space, or the new one if a compaction dropped it meanwhile."""
        with self._unless_moved(space):
            return ask(space.location)
        if place := self._place(space):
            return ask(place)
        raise VectorSearchUnavailable(
            "The vectors were moved back into the index meanwhile", "Search again"
        )

    @contextmanager
    def _unless_moved(self, space: Space) -> Iterator[None]:
        """Ignore a failure if the table was dropped because another one replaced it."""
        try:
            yield
        except VectorSearchUnavailable:
            if self._place(space) == space.location:
                raise

    def _place(self, space: Space) -> str:
        with self.database.reading() as connection:
            return SqliteSpaces(connection).location(space) or ""

    # -- compaction ----------------------------------------------------------------------------

    def compact(self, space: Space, *, even_if_little_changed: bool) -> None:
        with self.database.reading() as connection:
            dead = len(SqliteSpaces(connection).dead(space))
        root, _ = parse_address(space.location)
        if even_if_little_changed or backend.is_worn(dead, self._query(space, self.tables.count)):
            self._move(space, root)
        else:
            with self._unless_moved(space):
                self.tables.tidy(space.location)
        self._sweep(root)

    def _sweep(self, root: Root) -> None:
        """Drop the tables of killed processes."""
        names = self.tables.names(root)
        with self.database.reading() as connection:
            used = {
                parse_address(space.location)[1]
                for space in SqliteSpaces(connection).all()
                if space.location
            }
        for name in {*names} - used:
            if backend.is_abandoned(int(name.split("-")[1])):
                self.tables.drop(root.place(name))

    def drop(self, space: Space) -> None:
        self.tables.drop(space.location)

    # -- moving --------------------------------------------------------------------------------

    def import_from(self, space: Space, address: str) -> bool:
        """Move the vectors of a space to an address, wherever they are; return whether it did."""
        root = Root.at(address or str(self.database.path.with_name(FOLDER)), self._own_name())
        if parse_address(space.location)[0] != root or not self.tables.exists(space.location):
            self._move(space, root)
            return True
        return False

    def _own_name(self) -> str:
        """Return the name of this index at an address; no other index has it."""
        file = self.database.path.with_name(OWN)
        make_private_folder(file.parent)
        with hold_lock(file.with_suffix(".lock"), wait=True):
            if not file.exists():
                file.touch(mode=0o600)
                file.write_text(secrets.token_hex(8), encoding="utf-8")
            return file.read_text(encoding="utf-8")

    def _move(self, space: Space, root: Root) -> None:
        """Replace the table or rows of a space by a new table; delete the one that is not used."""
        new, adopted = root.new_place(space.id), False
        self.tables.create(new, space.dimensions)
        try:
            with self._unless_moved(space):
                adopted = self._replace(space, new)
        finally:
            if leftover := space.location if adopted else new:
                self.tables.drop(leftover)

    def _replace(self, space: Space, new: str) -> bool:
        """Copy the rows in use to a new table and switch to it; False if another was faster.

        Rows that are added meanwhile are copied last, in the transaction that switches.
        """
        with self.database.reading() as connection:
            dead = SqliteSpaces(connection).dead(space)
            copied = self._copy(connection, space, new, frozenset())
        self.tables.ensure_index(new)
        with self.database.writing() as connection:
            if SqliteSpaces(connection).location(space) != space.location:
                return False
            copied |= self._copy(connection, space, new, copied)
            _adopt(connection, space, new, copied, dead)
            return True

    def _copy(
        self, connection: apsw.Connection, space: Space, to: str, without: Collection[int]
    ) -> set[int]:
        """Copy rows of a space to a table; return their keys."""
        copied: set[int] = set()
        rows = (
            self._rows_in_use(connection, space) if space.location else _in_table(connection, space)
        )
        wanted = (row for row in rows if row[0] not in without)
        while block := [*islice(wanted, _BLOCK)]:
            self.tables.add(to, block)
            copied |= {row[0] for row in block}
        return copied

    def _rows_in_use(self, connection: apsw.Connection, space: Space) -> Iterator[Row]:
        """Yield the rows of a table that the ledger refers to; none if the table does not exist."""
        if self.tables.exists(space.location):
            named = _keys(connection, space)
            for block in self.tables.every(space.location):
                yield from (row for row in block if row[0] in named)

    def export_to(self, space: Space) -> None:
        """Move the vectors of a space back into index.db."""
        with self.database.writing() as connection:
            if SqliteSpaces(connection).location(space) != space.location:
                return
            connection.executemany(
                "UPDATE vectors SET vector = ?2 WHERE vector = ?1 AND typeof(vector) = 'integer'",
                (
                    (key, quantise(np.frombuffer(vector, dtype="<f4")[None]).tobytes())
                    for key, _, _, vector in self._rows_in_use(connection, space)
                ),
            )
            _adopt(connection, space, "", (), SqliteSpaces(connection).dead(space))
        self.tables.drop(space.location)


def _new_key() -> int:
    return 1 << 62 | secrets.randbits(62)  # above every row id: row ids are keys, too


# -- the ledger ------------------------------------------------------------------------------------


def _in_table(connection: apsw.Connection, space: Space) -> Iterator[Row]:
    """Yield the rows of a space whose vectors are in index.db; their ids become their keys."""
    rows = connection.execute(
        """
        SELECT v.id, c.note_id, n.workspace_id, v.vector FROM vectors v
        JOIN chunks c ON c.id = v.chunk_id JOIN notes n ON n.id = c.note_id
        WHERE v.space_id = ? AND v.vector != x''
        """,
        (space.id,),
    )
    for *ids, stored in rows:
        vector = restore(to_numbers([stored], space.dimensions))
        yield (*ids, vector.astype("<f4").tobytes())


def _keys(connection: apsw.Connection, space: Space) -> set[int]:
    rows = connection.execute(
        "SELECT vector FROM vectors WHERE space_id = ? AND typeof(vector) = 'integer'", (space.id,)
    )
    return {key for (key,) in rows}


def _adopt(
    connection: apsw.Connection,
    space: Space,
    place: str,
    copied: Collection[int],
    dead: Sequence[int],
) -> None:
    """Let the ledger refer to a table; a chunk whose vector was lost is embedded again."""
    if place and not space.location:
        connection.execute(
            "UPDATE vectors SET vector = id WHERE space_id = ? AND vector != x''", (space.id,)
        )
    lost = _keys(connection, space).difference(copied)
    connection.executemany(
        "DELETE FROM vectors WHERE vector = ? AND typeof(vector) = 'integer'",
        ((key,) for key in lost),
    )
    connection.execute(
        "UPDATE spaces SET place = ?1, snapshot = NULL, complete_to = iif(?2, 0, complete_to)"
        " WHERE id = ?3",
        (place, bool(lost), space.id),
    )
    SqliteSpaces(connection).clear_dead(dead)


def _best(
    connection: apsw.Connection, space: Space, rows: Sequence[tuple[int, float]], among: Allowed
) -> dict[int, float]:
    """Return the chunks of rows that the ledger refers to and the query allows."""
    scores = dict(rows)
    condition, values = among.sql()
    named: Any = connection.execute(
        f"""
        SELECT v.vector, v.chunk_id FROM json_each(?) k
        CROSS JOIN vectors v INDEXED BY vectors_by_key
            ON v.vector = k.value AND typeof(v.vector) = 'integer'
        JOIN chunks c ON c.id = v.chunk_id JOIN notes n ON n.id = c.note_id
        WHERE v.space_id = ? {condition}
        """,
        (json.dumps([*scores]), space.id, *values),
    )
    return best_scores((chunk, scores[key]) for key, chunk in named)


def _pushed_down(connection: apsw.Connection, space: Space, among: Allowed) -> str | None:
    """Return the allowed rows as a filter of LanceDB; None if no row is allowed.

    Lists that are too long are left out: the ledger checks every row anyway.
    """
    lists: list[tuple[str, Sequence[int]]] = []
    filters = among.filters
    if filters.workspaces is not None:
        lists.append(("workspace IN", filters.workspaces))
    if replace(filters, workspaces=None) != Filters():
        lists.append(_notes(connection, filters))
    if among.chunks is not None:
        rows = SqliteSpaces(connection).vectors_of(space, among.chunks)
        lists.append(("key IN", [key for _, key in rows if isinstance(key, int)]))
    if any(not ids and not column.endswith("NOT IN") for column, ids in lists):
        return None
    return " AND ".join(
        f"{column} ({', '.join(map(str, ids))})"
        for column, ids in lists
        if 0 < len(ids) <= _MOST_LISTED
    )


def _notes(connection: apsw.Connection, filters: Filters) -> tuple[str, list[int]]:
    """Return the notes that filters allow, or the others if those are fewer."""
    condition, values = filter_sql(filters)
    allowed: list[int] = []
    others: list[int] = []
    for note, fits in connection.execute(f"SELECT n.id, 1 {condition} FROM notes n", values):
        (allowed if fits else others).append(note)
    if len(others) < len(allowed):
        return "note NOT IN", others
    return "note IN", allowed
