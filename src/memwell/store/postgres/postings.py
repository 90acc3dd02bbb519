"""Postings: which chunks hold which tokens. Written here, and matched against conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from memwell.store.postgres import texts
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import Values, array, of_agent, starts_with
from memwell.store.postgres.tokenizer import COLUMN_BITS, Posting, postings_of
from memwell.store.words.normalise import WORDS_VERSION, WordRow
from memwell.store.words.scoring import COLUMN_WEIGHTS
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term, terms_in

_BATCH = 10_000
"""Rows that are sent at a time."""


def number_terms(condition: Condition) -> dict[Term, int]:
    """Number the terms of a condition, equal ones alike."""
    return {term: number for number, term in enumerate(dict.fromkeys(terms_in(condition)))}


def chunks_matching(condition: Condition, values: Values) -> str:
    """Return the statement for the chunks that meet a condition."""
    numbers = number_terms(condition)
    hits = " UNION ALL ".join(
        f"SELECT {number} AS number, m.chunk_id FROM ({chunks_with_term(term, values)}) AS m"
        for term, number in numbers.items()
    )
    holds = condition_sql(condition, numbers)
    return f"SELECT h.chunk_id FROM ({hits}) AS h GROUP BY h.chunk_id HAVING {holds}"


def condition_sql(condition: Condition, numbers: Mapping[Term, int]) -> str:
    """Return whether a chunk meets a condition, as SQL over the numbers of its hits."""
    match condition:
        case Term():
            return f"bool_or(h.number = {numbers[condition]})"
        case AllOf(parts):
            return f"({' AND '.join(condition_sql(part, numbers) for part in parts)})"
        case AnyOf(parts):
            return f"({' OR '.join(condition_sql(part, numbers) for part in parts)})"
        case AndNot(wanted, unwanted):
            excluded = condition_sql(unwanted, numbers)
            return f"({condition_sql(wanted, numbers)} AND NOT {excluded})"


def chunks_with_term(term: Term, values: Values, only: str = "") -> str:
    """Return the statement for the chunks that hold a term: frequency and length of each.

    `only` is a further condition on ``p.chunk_id``.
    """
    if not term.tokens:
        return "SELECT 0::bigint AS chunk_id, 0::float8 AS frequency, 0 AS length WHERE false"
    if len(term.tokens) > 1:
        return _chunks_with_phrase(term, values, only)
    condition = _token_sql("p", term.tokens[0], term.prefix, values)
    return f"""
        SELECT p.chunk_id, sum(p.frequency::float8) AS frequency, max(p.length) AS length
        FROM postings p WHERE {of_agent("p")} AND {condition} {only} GROUP BY p.chunk_id
    """


def occurrences_sql(terms: Sequence[Term], values: Values, only: str) -> str:
    """Return the statement for how often chunks hold terms: number, chunk, frequency, length."""
    tokens = {term: number for number, term in enumerate(terms) if _is_token(term)}
    others = [(number, term) for number, term in enumerate(terms) if not _is_token(term)]
    parts = [
        f"SELECT {number} AS number, m.chunk_id, m.frequency, m.length"
        f" FROM ({chunks_with_term(term, values, only)}) AS m"
        for number, term in others
    ]
    if tokens:
        names = values([term.tokens[0] for term in tokens])
        parts.append(
            f"""
            SELECT t.number, p.chunk_id, p.frequency::float8, p.length
            FROM unnest({names}::text[], {values([*tokens.values()])}::int[]) AS t (token, number)
            CROSS JOIN LATERAL (
                SELECT p.chunk_id, p.frequency, p.length FROM postings p
                WHERE {of_agent("p")} AND p.token = t.token {only}
                OFFSET 0  -- token by token, even if the server has no statistics of a new tenant
            ) AS p
            """
        )
    return " UNION ALL ".join(parts)


def _is_token(term: Term) -> bool:
    return len(term.tokens) == 1 and not term.prefix


def _chunks_with_phrase(term: Term, values: Values, only: str) -> str:
    """Return the statement for the places of the first token that the other tokens follow."""
    last = len(term.tokens) - 1
    others = " ".join(
        f"JOIN postings p{number} ON {of_agent(f'p{number}')} AND p{number}.chunk_id = p.chunk_id"
        f" AND {_token_sql(f'p{number}', token, term.prefix and number == last, values)}"
        f" AND at.place + {number} = ANY(p{number}.places)"
        for number, token in enumerate(term.tokens)
        if number
    )
    weights = ", ".join(str(weight) for weight in COLUMN_WEIGHTS.values())
    return f"""
        SELECT p.chunk_id, max(p.length) AS length,
               sum((ARRAY[{weights}]::float8[])[(at.place >> {COLUMN_BITS}) + 1]) AS frequency
        FROM postings p CROSS JOIN LATERAL unnest(p.places) AS at (place) {others}
        WHERE {of_agent("p")} AND {_token_sql("p", term.tokens[0], False, values)} {only}
        GROUP BY p.chunk_id
    """


def _token_sql(table: str, token: str, prefix: bool, values: Values) -> str:
    if not prefix:
        return f"{table}.token = {values(token)}"
    return starts_with(f"{table}.token", token, values)


POSTINGS_VERSION = 100 + WORDS_VERSION
"""Increased whenever the postings or the vocabulary change; memwell then rebuilds them."""
CHUNKS, TOKENS = "#chunks", "#tokens"
"""Rows of the vocabulary that count the chunks of an owner, and their tokens together."""


class PostingChanges:
    """Changes to the postings of chunks, gathered and then written together."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._removed: dict[int, tuple[WordRow, str]] = {}
        self._added: dict[int, tuple[WordRow, str]] = {}

    def remove(self, rows: Iterable[WordRow], owner: str) -> None:
        """Remove chunks of an owner, given as they were indexed."""
        for row in rows:
            if self._added.pop(row.chunk_id, None) is None:
                self._removed[row.chunk_id] = row, owner

    def add(self, rows: Iterable[WordRow], owner: str) -> None:
        """Add chunks of an owner."""
        self._added |= {row.chunk_id: (row, owner) for row in rows}

    def write(self) -> None:
        """Write the changes that were gathered."""
        if not (self._removed or self._added):
            return
        added = {chunk_id: [*postings_of(row)] for chunk_id, (row, _) in self._added.items()}
        changes: Counter[tuple[str, str]] = Counter()
        tokens = self._delete_postings(changes) + self._insert_postings(changes, added)
        self._change_frequencies(changes)
        has_texts = self._session.value(
            f"UPDATE indexes i SET chunks = chunks + %(chunks)s, tokens = tokens + %(tokens)s"
            f" WHERE {of_agent('i')} RETURNING has_texts",
            chunks=len(self._added) - len(self._removed),
            tokens=tokens,
        )
        if has_texts:
            texts.delete(self._session, [*self._removed])
            texts.insert(
                self._session,
                {
                    chunk_id: [(posting.token, posting.frequency) for posting in postings]
                    for chunk_id, postings in added.items()
                },
            )
        self._removed, self._added = {}, {}

    def _change_frequencies(self, changes: Mapping[tuple[str, str], int]) -> None:
        changed = sorted(
            (token, owner, change) for (token, owner), change in changes.items() if change
        )
        self._session.run(
            """
            INSERT INTO vocabulary AS w (tenant, agent, token, owner, document_frequency)
            SELECT %(tenant)s, %(agent)s, *
            FROM unnest(%(tokens)s::text[], %(owners)s::text[], %(changes)s::bigint[])
            ON CONFLICT (tenant, agent, token, owner) DO UPDATE
                SET document_frequency = w.document_frequency + excluded.document_frequency
            """,
            tokens=[token for token, _, _ in changed],
            owners=[owner for _, owner, _ in changed],
            changes=[change for *_, change in changed],
        )
        fewer = [token for token, _, change in changed if change < 0]
        self._session.run(
            f"DELETE FROM vocabulary w WHERE {of_agent('w')} AND w.token = ANY(%(fewer)s)"
            " AND w.document_frequency <= 0",
            fewer=fewer,
        )

    def _delete_postings(self, changes: Counter[tuple[str, str]]) -> int:
        """Delete the postings of removed chunks; return the change in the number of tokens."""
        removed = []
        for row, owner in self._removed.values():
            postings = [*postings_of(row)]
            changes.subtract((posting.token, owner) for posting in postings)
            changes[CHUNKS, owner] -= 1
            changes[TOKENS, owner] -= postings[0].length if postings else 0
            removed += postings
        if removed:
            self._session.run(
                f"""
                DELETE FROM postings p
                USING unnest(%(tokens)s::text[], %(chunks)s::bigint[]) AS gone (token, chunk_id)
                WHERE {of_agent("p")} AND p.token = gone.token AND p.chunk_id = gone.chunk_id
                """,
                tokens=[posting.token for posting in removed],
                chunks=[posting.chunk_id for posting in removed],
            )
        return -sum({posting.chunk_id: posting.length for posting in removed}.values())

    def _insert_postings(
        self, changes: Counter[tuple[str, str]], added: Mapping[int, Sequence[Posting]]
    ) -> int:
        """Insert the postings of added chunks; return the change in the number of tokens."""
        total = 0
        rows = []
        for chunk_id, (_, owner) in self._added.items():
            length = 0
            for posting in added[chunk_id]:
                changes[posting.token, owner] += 1
                length = posting.length
                places = f"{{{','.join(map(str, posting.places))}}}"
                rows.append((posting.token, chunk_id, posting.frequency, length, places, owner))
            changes[CHUNKS, owner] += 1
            changes[TOKENS, owner] += length
            total += length
        rows.sort()  # in the order of the primary key, which PostgreSQL inserts faster
        with self._session.connection.pipeline():  # the next batch is built while one is sent
            for start in range(0, len(rows), _BATCH):
                self._insert(rows[start : start + _BATCH])
        return total

    def _insert(self, rows: Sequence[tuple[str, int, float, int, str, str]]) -> None:
        """Insert rows. PostgreSQL refuses COPY into a table with row-level security."""
        names = ("tokens", "chunks", "frequencies", "lengths", "places", "owners")
        self._session.run(
            """
            INSERT INTO postings (tenant, agent, token, chunk_id, frequency, length, places, owner)
            SELECT %(tenant)s, %(agent)s, token, chunk_id, frequency, length, places::int[], owner
            FROM unnest(%(tokens)s::text[], %(chunks)s::bigint[], %(frequencies)s::real[],
                        %(lengths)s::int[], %(places)s::text[], %(owners)s::text[])
                AS new (token, chunk_id, frequency, length, places, owner)
            """,
            **dict(zip(names, map(array, zip(*rows, strict=True)), strict=True)),
        )
