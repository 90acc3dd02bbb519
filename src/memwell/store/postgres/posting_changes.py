"""Changes to postings: gathered in a transaction, then written together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from memwell.store.postgres import texts
from memwell.store.postgres.posting_lists import change_lists
from memwell.store.postgres.posting_rows import change_rows
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import array, of_agent
from memwell.store.postgres.tokenizer import ChunkTokens, tokens_of
from memwell.store.words.normalise import WordRow

CHUNKS, TOKENS = "#chunks", "#tokens"
"""Rows of the vocabulary that count the chunks of an owner, and their tokens together."""


class PostingChanges:
    """Changes to the postings of chunks, gathered and then written together."""

    def __init__(self, session: Session, *, in_rows: bool) -> None:
        """`in_rows`: the database is not migrated yet, and has postings in rows."""
        self._session = session
        self._in_rows = in_rows
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
        changes: Counter[tuple[str, str]] = Counter()
        removed = _count(self._removed, changes, -1)
        added = _count(self._added, changes, 1)
        owners = {key: owner for key, (_, owner) in (self._removed | self._added).items()}
        change = change_rows if self._in_rows else change_lists
        change(self._session, removed, added, owners)
        self._change_frequencies(changes)
        has_texts = self._session.value(
            f"UPDATE indexes i SET chunks = chunks + %(chunks)s, tokens = tokens + %(tokens)s"
            f" WHERE {of_agent('i')} RETURNING has_texts",
            chunks=len(added) - len(removed),
            tokens=sum(change for (token, _), change in changes.items() if token == TOKENS),
        )
        if has_texts:
            texts.delete(self._session, [*removed])
            texts.insert(
                self._session,
                {chunk_id: tokens.frequencies() for chunk_id, tokens in added.items()},
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
            tokens=array(token for token, _, _ in changed),
            owners=array(owner for _, owner, _ in changed),
            changes=[change for *_, change in changed],
        )
        if fewer := [token for token, _, change in changed if change < 0]:
            self._session.run(
                f"DELETE FROM vocabulary w WHERE {of_agent('w')} AND w.token = ANY(%(fewer)s)"
                " AND w.document_frequency <= 0",
                fewer=fewer,
            )


def _count(
    chunks: Mapping[int, tuple[WordRow, str]], changes: Counter[tuple[str, str]], sign: int
) -> dict[int, ChunkTokens]:
    """Return the tokens of chunks; add their document frequencies, with a sign, to `changes`."""
    found: dict[int, ChunkTokens] = {}
    counted: dict[str, Counter[str]] = {}
    for chunk_id, (row, owner) in chunks.items():
        found[chunk_id] = tokens = tokens_of(row)
        of_owner = counted.setdefault(owner, Counter())
        of_owner.update(tokens.places.keys())
        of_owner[CHUNKS] += 1
        of_owner[TOKENS] += tokens.length
    for owner, counts in counted.items():
        for token, count in counts.items():
            changes[token, owner] += sign * count
    return found
