"""Which chunks hold which tokens: written, taken out, and matched by tokens in a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from memwell.store.postgres.server import Session
from memwell.store.postgres.sought import Row
from memwell.store.postgres.sql import Values, array, of_agent, starts_with
from memwell.store.postgres.texts import delete, insert
from memwell.store.postgres.tokenizer import COLUMN_BITS, Posting, postings
from memwell.store.sqlite.fts import COLUMN_WEIGHTS, WordRow

_AT_ONCE = 10_000
"""Rows that are sent at a time."""


def find_chunks(row: Row, values: Values, only: str = "") -> str:
    """Return the statement for the chunks that hold tokens in a row: frequency and length of each.

    `only` is a further condition on ``p.chunk_id``.
    """
    if not row.tokens:
        return "SELECT 0::bigint AS chunk_id, 0::float8 AS frequency, 0 AS length WHERE false"
    if len(row.tokens) > 1:
        return _phrase_condition(row, values, only)
    condition = _token("p", row.tokens[0], row.prefix, values)
    return f"""
        SELECT p.chunk_id, sum(p.frequency::float8) AS frequency, max(p.length) AS length
        FROM postings p WHERE {of_agent("p")} AND {condition} {only} GROUP BY p.chunk_id
    """


def _phrase_condition(row: Row, values: Values, only: str) -> str:
    """Of the places of the first token, those after which the others follow."""
    last = len(row.tokens) - 1
    others = " ".join(
        f"JOIN postings p{number} ON {of_agent(f'p{number}')} AND p{number}.chunk_id = p.chunk_id"
        f" AND {_token(f'p{number}', token, row.prefix and number == last, values)}"
        f" AND at.place + {number} = ANY(p{number}.places)"
        for number, token in enumerate(row.tokens)
        if number
    )
    weights = ", ".join(str(weight) for weight in COLUMN_WEIGHTS.values())
    return f"""
        SELECT p.chunk_id, max(p.length) AS length,
               sum((ARRAY[{weights}]::float8[])[(at.place >> {COLUMN_BITS}) + 1]) AS frequency
        FROM postings p CROSS JOIN LATERAL unnest(p.places) AS at (place) {others}
        WHERE {of_agent("p")} AND {_token("p", row.tokens[0], False, values)} {only}
        GROUP BY p.chunk_id
    """


def _token(table: str, token: str, prefix: bool, values: Values) -> str:
    if not prefix:
        return f"{table}.token = {values(token)}"
    return starts_with(f"{table}.token", token, values)


class PostingChanges:
    """What becomes of the postings of chunks, gathered and written at once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._removed: dict[int, WordRow] = {}
        self._added: dict[int, tuple[WordRow, str]] = {}

    def remove(self, rows: Iterable[WordRow]) -> None:
        """Take chunks out, as they were given."""
        for row in rows:
            if self._added.pop(row.chunk_id, None) is None:
                self._removed[row.chunk_id] = row

    def add(self, rows: Iterable[WordRow], owner: str) -> None:
        """Take chunks in."""
        self._added |= {row.chunk_id: (row, owner) for row in rows}

    def write(self) -> None:
        """Write what was gathered."""
        if not (self._removed or self._added):
            return
        count: Counter[str] = Counter()
        new = {key: [*postings(row)] for key, (row, _) in self._added.items()}
        tokens = self._take_out(count) + self._take_in(count, new)
        changed = sorted((token, rows) for token, rows in count.items() if rows)
        self._session.run(
            """
            INSERT INTO words AS w (tenant, agent, token, rows)
            SELECT %(tenant)s, %(agent)s, * FROM unnest(%(tokens)s::text[], %(rows)s::bigint[])
            ON CONFLICT (tenant, agent, token) DO UPDATE SET rows = w.rows + excluded.rows
            """,
            tokens=[token for token, _ in changed],
            rows=[rows for _, rows in changed],
        )
        gone = [token for token, rows in changed if rows < 0]
        self._session.run(
            f"DELETE FROM words w WHERE {of_agent('w')} AND w.token = ANY(%(gone)s) AND w.rows <= 0",
            gone=gone,
        )
        said = self._session.value(
            f"UPDATE indexes i SET chunks = chunks + %(chunks)s, tokens = tokens + %(tokens)s"
            f" WHERE {of_agent('i')} RETURNING said",
            chunks=len(self._added) - len(self._removed),
            tokens=tokens,
        )
        if said:
            delete(self._session, [*self._removed])
            insert(
                self._session,
                {key: [(one.token, one.frequency) for one in some] for key, some in new.items()},
            )
        self._removed, self._added = {}, {}

    def _take_out(self, count: Counter[str]) -> int:
        gone = [one for row in self._removed.values() for one in postings(row)]
        count.subtract(one.token for one in gone)
        if gone:
            self._session.run(
                f"""
                DELETE FROM postings p
                USING unnest(%(tokens)s::text[], %(chunks)s::bigint[]) AS gone (token, chunk_id)
                WHERE {of_agent("p")} AND p.token = gone.token AND p.chunk_id = gone.chunk_id
                """,
                tokens=[one.token for one in gone],
                chunks=[one.chunk_id for one in gone],
            )
        return -sum({one.chunk_id: one.length for one in gone}.values())

    def _take_in(self, count: Counter[str], new: Mapping[int, Sequence[Posting]]) -> int:
        total = 0
        rows = []
        for key, (_, owner) in self._added.items():
            length = 0
            for one in new[key]:
                count[one.token] += 1
                length = one.length
                places = f"{{{','.join(map(str, one.places))}}}"
                rows.append((one.token, one.chunk_id, one.frequency, length, places, owner))
            total += length
        rows.sort()  # as the index has them: that is quicker
        with self._session.connection.pipeline():  # the next are made ready meanwhile
            for start in range(0, len(rows), _AT_ONCE):
                self._write(rows[start : start + _AT_ONCE])
        return total

    def _write(self, rows: Sequence[tuple[str, int, float, int, str, str]]) -> None:
        """Write rows; COPY would be refused where the database says who may see what."""
        tokens, chunks, frequencies, lengths, places, owners = map(array, zip(*rows, strict=True))
        self._session.run(
            """
            INSERT INTO postings (tenant, agent, token, chunk_id, frequency, length, places, owner)
            SELECT %(tenant)s, %(agent)s, token, chunk_id, frequency, length, places::int[], owner
            FROM unnest(%(tokens)s::text[], %(chunks)s::bigint[], %(frequencies)s::real[],
                        %(lengths)s::int[], %(places)s::text[], %(owners)s::text[])
                AS new (token, chunk_id, frequency, length, places, owner)
            """,
            tokens=tokens,
            chunks=chunks,
            frequencies=frequencies,
            lengths=lengths,
            places=places,
            owners=owners,
        )
