"""Vector spaces in PostgreSQL.

A vector has pgvector's type of two bytes for each dimension, keyed by chunk, space and window; NULL
where the model read nothing. Its whole numbers (see quantisation.py) can be had again from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memwell.store.contract.index import Vectors
from memwell.store.contract.query import Match, WordQuery, best_scores, match_order
from memwell.store.contract.values import FILLING, RETIRED, Space, WaitingChunk
from memwell.store.contract.vectors import Spaces
from memwell.store.postgres.agent_indexes import as_half_precision, vector_index
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import Values, array, delete_sql, insert_sql, of_agent, update_sql
from memwell.store.postgres.statistics import analyse_grown
from memwell.store.rows import decode, embedded_text, encode

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Array
    from memwell.store.postgres.keywords import PostgresKeywords

_COLUMNS = (
    "id, fingerprint, provider, model, dimensions, settings, state, opened_at, retired_at,"
    " pinned, complete_to, random_mean, random_deviation, NULL, unrelated_mean,"
    f" unrelated_deviation, {vector_index('s')}"
)
SPACES = f"""
    SELECT {_COLUMNS}, EXISTS (
        SELECT 1 FROM vectors v WHERE {of_agent("v")} AND v.space_id = s.id
    )
    FROM spaces s WHERE {of_agent("s")}
    ORDER BY state = '{RETIRED}', state = '{FILLING}', retired_at DESC NULLS LAST, id DESC
"""
"""All spaces, each with whether it has vectors."""
_NEW_COLUMNS = ("fingerprint", "provider", "model", "dimensions", "settings", "state", "opened_at")
_HEADER = 4
"""Bytes before the numbers of a vector that pgvector sends."""
_ROWS_A_CHUNK = 4
"""Rows that a search reads for each chunk that it wants: a chunk can have several windows."""


_SPARE = 8
"""The server orders by rounded numbers. So a search has it choose an eighth more chunks than it
wants, and eight: the right ones are among them."""


class PostgresSpaces(Spaces):
    """Reads and writes the vectors of all spaces inside one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # -- spaces ------------------------------------------------------------------------------------

    def all(self) -> list[Space]:
        return [Space(*row) for *row, _ in self._session.rows(SPACES)]

    def _lock(self) -> None:
        self._session.lock_index()

    def _insert(self, space: Space) -> None:
        row = {name: getattr(space, name) for name in _NEW_COLUMNS}
        self._session.run(
            f"""
            {insert_sql("spaces AS s", row)} ON CONFLICT (tenant, agent, fingerprint)
                DO UPDATE SET state = excluded.state, retired_at = NULL WHERE s.state = 'retired'
            """,
            **row,
        )

    def _change(self, space: Space, **columns: Any) -> None:
        self._session.run(update_sql("spaces", columns), id=space.id, **columns)

    def drop(self, space: Space) -> None:
        """Delete a space with its vectors."""
        self._session.run(delete_sql("spaces", "t.id = %(id)s"), id=space.id)

    # -- vectors -----------------------------------------------------------------------------------

    def coverage(self, space: Space) -> tuple[int, int]:
        total = int(self._session.value(f"SELECT count(*) FROM chunks c WHERE {of_agent('c')}"))
        return total - self.count_waiting(space), total

    def has_vectors(self, space: Space) -> bool:
        return any(
            known_id == space.id and has_vectors
            for known_id, *_, has_vectors in self._session.rows(SPACES)
        )

    def count_waiting(self, space: Space) -> int:
        statement = f"SELECT count(*) FROM chunks c WHERE {WAITING}"
        return int(self._session.value(statement, **bound(space)))

    def waiting(
        self, space: Space, limit: int, among: Sequence[int] | None = None
    ) -> list[WaitingChunk]:
        """Return chunks without a vector in a space (among some), those of newest notes first."""
        rows = self._session.rows(
            f"""
            SELECT c.id, n.meta, c.heading, c.text
            FROM chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id
            WHERE {WAITING} {"" if among is None else "AND c.id = ANY(%(among)s)"}
            ORDER BY n.mtime_ns DESC, c.id LIMIT %(limit)s
            """,
            **bound(space),
            limit=limit,
            among=among,
        )
        return [WaitingChunk(key, embedded_text(*rest)) for key, *rest in rows]

    def put(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; a chunk that was deleted meanwhile is passed over.

        Chunks are locked before what hangs on them, as by whoever deletes a note.
        """
        rows = [
            (chunk_id, number, literal(blob))
            for chunk_id, matrix in windows
            for number, blob in enumerate(encode(matrix, space.dimensions))
        ]
        chunks = [chunk_id for chunk_id, _, _ in rows]
        with self._session.connection.pipeline():  # one round trip for all statements
            self._put(space, chunks, rows)

    def _put(
        self, space: Space, chunks: Sequence[int], rows: Sequence[tuple[int, int, str | None]]
    ) -> None:
        self._session.run(
            f"""
            INSERT INTO vectors (tenant, agent, chunk_id, space_id, window_number, vector, owner)
            SELECT %(tenant)s, %(agent)s, c.id, %(space)s, new.window_number, new.vector::halfvec,
                   c.owner
            FROM unnest(%(chunks)s::bigint[], %(windows)s::int[], %(vectors)s::text[])
                AS new (chunk_id, window_number, vector)
            JOIN (
                SELECT c.id, c.owner FROM chunks c
                WHERE {of_agent("c")} AND c.id = ANY(%(chunks)s) FOR KEY SHARE
            ) AS c ON c.id = new.chunk_id
            ON CONFLICT (tenant, agent, chunk_id, space_id, window_number) DO NOTHING
            """,
            space=space.id,
            chunks=[*chunks],
            windows=[number for _, number, _ in rows],
            vectors=array(vector for _, _, vector in rows),
        )
        of_chunks = "t.space_id = %(space)s AND t.chunk_id = ANY(%(chunks)s)"
        for table, condition in (
            ("vectors", f"{of_chunks} AND window_number < 0"),
            ("leases", of_chunks),
        ):
            self._session.run(delete_sql(table, condition), space=space.id, chunks=[*chunks])

    def _last_embedded(self, space: Space) -> int:
        """Return the newest chunk if all chunks have their vectors, else the last one known.

        One statement finds both out: another process may write chunks between two.
        """
        last = self._session.value(
            f"""
            SELECT max(c.id) FROM chunks c
            WHERE {of_agent("c")} AND NOT EXISTS (SELECT 1 FROM chunks c WHERE {WAITING})
            """,
            **bound(space),
        )
        if last is None:
            return space.complete_to
        analyse_grown(self._session)
        return int(last)


class PostgresVectors(Vectors):
    """Reads and searches vectors inside one transaction."""

    problem = ""

    def __init__(self, session: Session, keywords: PostgresKeywords) -> None:
        self._session = session
        self._keywords = keywords

    def sample(self, space: Space, most: int) -> list[tuple[int, bytes]]:
        rows = self._session.rows(
            f"""
            WITH spread AS (
                SELECT v.chunk_id, v.window_number, count(*) OVER () AS total,
                       row_number() OVER (ORDER BY v.chunk_id, v.window_number) AS number
                FROM vectors v
                WHERE {of_agent("v")} AND v.space_id = %(space)s AND v.owner = ''
            )
            SELECT c.note_id, halfvec_send(v.vector) FROM spread s
            JOIN vectors v ON {of_agent("v")} AND v.space_id = %(space)s
                AND v.chunk_id = s.chunk_id AND v.window_number = s.window_number
            JOIN chunks c ON {of_agent("c")} AND c.id = v.chunk_id
            WHERE s.number %% greatest(1, s.total / %(most)s) = 0 AND v.vector IS NOT NULL
            ORDER BY s.number LIMIT %(most)s
            """,
            space=space.id,
            most=most,
        )
        return [(note, to_vector(sent).tobytes()) for note, sent in rows]

    def first_windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Array]:
        what = "DISTINCT ON (v.chunk_id) v.chunk_id, halfvec_send(v.vector)"
        rows = self._rows(space, chunk_ids, what, "v.vector IS NOT NULL ORDER BY 1, window_number")
        return {key: to_vector(sent) for key, sent in rows}

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Matrix]:
        what, rest = "v.chunk_id, halfvec_send(v.vector)", "v.window_number >= 0 ORDER BY 1"
        rows = self._rows(space, chunk_ids, what, f"{rest}, v.window_number")
        blobs = ((key, to_vector(sent).tobytes() if sent else b"") for key, sent in rows)
        return decode(blobs, space.dimensions)

    def cosines(self, space: Space, vector: Array, chunk_ids: Sequence[int]) -> dict[int, float]:
        what = "v.chunk_id, array_agg(halfvec_send(v.vector))"
        rows = self._rows(space, chunk_ids, what, "v.vector IS NOT NULL GROUP BY 1")
        return exact_cosines(rows, vector)

    def _rows(
        self, space: Space, chunk_ids: Sequence[int], what: str, rest: str, **values: Any
    ) -> list[Any]:
        """Select columns of the vectors of chunks; `rest` follows the condition on them."""
        return self._session.rows_in_binary(
            f"""
            SELECT {what} FROM vectors v WHERE {of_agent("v")} AND v.space_id = %(space)s
                AND v.chunk_id = ANY(%(chunks)s) AND {rest}
            """,
            space=space.id,
            chunks=[*chunk_ids],
            **values,
        )

    def nearest(
        self, space: Space, vector: Array, query: WordQuery, limit: int, *, words: bool = True
    ) -> list[Match]:
        """Compare all vectors, unless the space has a vector index of its own.

        The server chooses the chunks; their cosines are computed here, as for SQLite, so that both
        stores give the same scores.
        """
        values = Values()
        condition = filter_sql(query.filters, values)
        if words:
            condition += self._keywords.restriction(query, values)
        among = f"""
            JOIN chunks c ON {of_agent("c")} AND c.id = v.chunk_id
            JOIN notes n ON {of_agent("n")} AND n.id = c.note_id
        """
        allowed = f"""
            FROM vectors v {among if condition else ""}
            WHERE {of_agent("v")} AND v.space_id = %(space)s AND v.vector IS NOT NULL {condition}
        """
        wanted = limit + limit // _SPARE + _SPARE
        most = max(_ROWS_A_CHUNK * limit, wanted)
        asked = {
            **values,
            "space": space.id,
            "query": literal(vector.astype("<f4").tobytes()),
            "limit": wanted,
            "most": most,
        }
        rows = self._nearest_by_index(space, allowed, asked) if space.location else []
        if not (rows and len(rows) == wanted and rows[0][1] == most):
            rows = self._nearest_by_scan(allowed, asked)
        cosines = exact_cosines(((chunk_id, windows) for chunk_id, *_, windows in rows), vector)
        return sorted((Match(*found) for found in cosines.items()), key=match_order)[:limit]

    def _nearest_by_index(self, space: Space, allowed: str, asked: dict[str, Any]) -> list[Any]:
        """Search the index of a space, which goes on until enough rows meet the condition."""
        self._session.connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
        self._session.connection.execute("SET LOCAL hnsw.ef_search = 400")
        size = space.dimensions
        near_to = (
            f"{as_half_precision('v.vector', size)} <#> {as_half_precision('%(query)s', size)}"
        )
        return self._session.rows_inlined(_best(allowed, near_to), **asked)

    def _nearest_by_scan(self, allowed: str, asked: dict[str, Any]) -> list[Any]:
        """Compare all vectors; read more rows if some chunks have very many windows."""
        while True:
            statement = _best(allowed, "cosine DESC, v.chunk_id")
            rows = self._session.rows_in_binary(statement, **asked)
            if len(rows) == asked["limit"] or not rows or rows[0][1] < asked["most"]:
                return rows
            asked = {**asked, "most": asked["most"] * _ROWS_A_CHUNK}


def _best(allowed: str, order: str) -> str:
    """Return the statement for the best chunks among the first rows of an order.

    More rows are taken than chunks are wanted, as a chunk can have several. The columns are the
    chunk, how many rows there were, and the vectors of the chunk.
    """
    return f"""
        WITH near AS MATERIALIZED (
            SELECT v.chunk_id, {COSINE} AS cosine {allowed} ORDER BY {order} LIMIT %(most)s
        ), best AS MATERIALIZED (
            SELECT near.chunk_id, max(near.cosine) AS cosine FROM near
            GROUP BY near.chunk_id ORDER BY cosine DESC, near.chunk_id LIMIT %(limit)s
        )
        SELECT best.chunk_id, (SELECT count(*) FROM near), (
            SELECT array_agg(halfvec_send(v.vector)) FROM vectors v
            WHERE {of_agent("v")} AND v.space_id = %(space)s AND v.chunk_id = best.chunk_id
                AND v.vector IS NOT NULL
        )
        FROM best
    """


def exact_cosines(rows: Iterable[tuple[int, Sequence[bytes]]], vector: Array) -> dict[int, float]:
    """Return the cosine of a query and each chunk, by the chunk's vectors as pgvector sends them.

    pgvector adds up the rounded numbers that it stores. Their whole numbers can be had again, and
    SQLite computes with these.
    """
    from memwell.store.contract import quantisation

    windows = [(chunk_id, sent) for chunk_id, vectors in rows for sent in vectors]
    if not windows:
        return {}
    numbers = _whole_numbers([sent for _, sent in windows])
    cosines = quantisation.cosines(numbers, quantisation.spread(vector)).tolist()
    return best_scores(zip((chunk_id for chunk_id, _ in windows), cosines, strict=True))


COSINE = "-(v.vector <#> %(query)s::halfvec)"
"""The inner product of unit vectors; pgvector returns it with the opposite sign."""


def reuse_old_vectors(session: Session, note_id: int, old_ids: Sequence[int]) -> None:
    """Let new chunks of a note use the vectors of its old chunks on the same lines."""
    session.run(
        f"""
        INSERT INTO vectors (tenant, agent, chunk_id, space_id, window_number, vector, owner)
        SELECT %(tenant)s, %(agent)s, new.id, v.space_id, -row_number() OVER (
                   PARTITION BY new.id, v.space_id ORDER BY old.id, v.window_number
               ), v.vector, new.owner
        FROM chunks old JOIN vectors v ON {of_agent("v")} AND v.chunk_id = old.id
        JOIN chunks new ON {of_agent("new")} AND new.note_id = %(note)s AND new.id > old.id
            AND new.start_line <= old.end_line AND new.end_line >= old.start_line
        WHERE {of_agent("old")} AND old.id = ANY(%(old_ids)s) AND v.vector IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM vectors own WHERE {of_agent("own")} AND own.chunk_id = new.id
            )
        """,
        note=note_id,
        old_ids=[*old_ids],
    )


WAITING = f"""{of_agent("c")} AND c.id > %(complete_to)s AND NOT EXISTS (
        SELECT 1 FROM vectors v
        WHERE {of_agent("v")} AND v.chunk_id = c.id AND v.space_id = %(space)s
            AND v.window_number >= 0
    )
"""


def bound(space: Space) -> dict[str, int]:
    """Return the values that `WAITING` names."""
    return {"space": space.id, "complete_to": space.complete_to}


def literal(blob: bytes) -> str | None:
    """Return a vector as text for pgvector; None for an empty one."""
    import numpy as np

    if not blob:
        return None
    numbers = np.frombuffer(blob, dtype="<f4").astype(np.float16).tolist()
    # Five digits tell any two numbers of two bytes apart.
    return f"[{('%.5g,' * len(numbers))[:-1] % (*numbers,)}]"


def to_vector(sent: bytes) -> Array:
    """Return a vector that pgvector sent, as all stores keep it."""
    from memwell.store.contract import quantisation

    vector: Array = quantisation.restore(_whole_numbers([sent]))[0]
    return vector


def _whole_numbers(sent: Sequence[bytes]) -> Array:
    """Return the whole numbers of vectors that pgvector sent: a header, then big-endian numbers."""
    import numpy as np

    from memwell.store.contract import quantisation

    halves = np.frombuffer(b"".join(one[_HEADER:] for one in sent), dtype=">f2")
    return quantisation.quantise(halves.astype(np.float32).reshape(len(sent), -1))
