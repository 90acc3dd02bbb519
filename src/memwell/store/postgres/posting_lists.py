"""Writes postings as arrays (see postings.py).

An agent's chunks are divided into blocks by their ids: a block begins with a chunk and ends before
the next one begins, and new chunks go into the last one until it has `BLOCK` of them. A token has a
row for each block and owner. So an edit rewrites short rows, and a rare token has few rows.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import add
from typing import Any, NamedTuple

from memwell.store.postgres.postings import LAST
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import array, of_agent
from memwell.store.postgres.tokenizer import ChunkTokens

BLOCK = 256
"""Chunks of a block: measured, see docs/decisions/0016-postings-as-arrays.md."""
_LARGEST_DIFFERENCE = 2**32 - 1
_BATCH = 5_000
"""Rows that are sent at a time."""
_COLUMNS = ("chunks", "lengths", "places")
_KEYS = """
    unnest(%(tokens)s::text[], %(owners)s::text[], %(blocks)s::bigint[]) AS k (token, owner, block)
"""
_OF_KEY = "p.token = k.token AND p.owner = k.owner AND p.block = k.block"


class _Key(NamedTuple):
    """The row that has a posting."""

    token: str
    owner: str
    block: int


class PostingRow(NamedTuple):
    """The arrays of a row: see postings.py."""

    chunks: list[int]
    lengths: list[int]
    places: list[int]

    def append(self, chunk: int, length: int, places: Sequence[int]) -> None:
        """Add a chunk: its difference to the block, its tokens, and where it holds the token."""
        self.chunks.append(chunk)
        self.lengths.append(length)
        self.places.extend(places)
        self.places[-1] |= LAST

    def without(self, gone: PostingRow) -> PostingRow:
        """Return the row without some of its chunks."""
        chunks, left = {*gone.chunks}, PostingRow([], [], [])
        for chunk, length, places in self.parts():
            if chunk not in chunks:
                left.append(chunk, length, places)
        return left

    def parts(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield the chunks, each with its length and its places."""
        end = 0
        for chunk, length in zip(self.chunks, self.lengths, strict=True):
            start = end
            while self.places[end] < LAST:
                end += 1
            end += 1
            yield chunk, length, self.places[start:end]

    def pack(self) -> tuple[bytes, ...]:
        """Return the columns of the table."""
        return tuple(struct.pack(f">{len(numbers)}I", *numbers) for numbers in self)


_Lists = dict[_Key, PostingRow]


def change_lists(
    session: Session,
    removed: Mapping[int, ChunkTokens],
    added: Mapping[int, ChunkTokens],
    owners: Mapping[int, str],
) -> None:
    """Delete the postings of removed chunks, and insert those of added ones with their owners."""
    blocks = _Blocks(session)
    gone = _divide(removed, owners, {chunk_id: blocks.leave(chunk_id) for chunk_id in removed})
    new = _divide(added, owners, {chunk_id: blocks.enter(chunk_id) for chunk_id in sorted(added)})
    blocks.write()
    changed = {
        key: _join(row.without(gone[key]), new.pop(key, None))
        for key, row in _read(session, [*gone])
    }
    _delete(session, [key for key, row in changed.items() if not row.chunks])
    _put(session, {key: row for key, row in changed.items() if row.chunks}, "excluded.{0}")
    _put(session, new, "p.{0} || excluded.{0}")


class _Blocks:
    """The blocks of an agent, by their first chunks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._starts, self._last_size = session.row(
            f"SELECT blocks, last_block_chunks FROM indexes i WHERE {of_agent('i')}"
        )
        self._are_changed = False

    def leave(self, chunk_id: int) -> int:
        """Return the block of a chunk that is removed."""
        return self._count(chunk_id, -1)

    def enter(self, chunk_id: int) -> int:
        """Return the block of a chunk that is added; begin another one if the last is full."""
        before = bisect_right(self._starts, chunk_id)
        is_last = before == len(self._starts)
        is_full = is_last and self._last_size >= BLOCK
        if not before or is_full or chunk_id - self._starts[before - 1] > _LARGEST_DIFFERENCE:
            self._starts.insert(before, chunk_id)
            self._last_size = 0 if is_last else self._last_size
        return self._count(chunk_id, 1)

    def _count(self, chunk_id: int, change: int) -> int:
        after = bisect_right(self._starts, chunk_id)
        if after == len(self._starts):
            self._last_size += change
            self._are_changed = True
        return int(self._starts[after - 1])

    def write(self) -> None:
        """Write the blocks, if there are new ones or the last one has grown."""
        if self._are_changed:
            self._session.run(
                "UPDATE indexes i SET blocks = %(blocks)s, last_block_chunks = %(size)s"
                f" WHERE {of_agent('i')}",
                blocks=self._starts,
                size=self._last_size,
            )


def _divide(
    chunks: Mapping[int, ChunkTokens], owners: Mapping[int, str], blocks: Mapping[int, int]
) -> _Lists:
    """Return the postings of chunks by the row that has them."""
    groups: dict[tuple[str, int], dict[str, PostingRow]] = {}
    for chunk_id, block in blocks.items():
        group = groups.setdefault((owners[chunk_id], block), {})
        length, tokens = chunks[chunk_id]
        for token, places in tokens.items():
            row = group.get(token)
            if row is None:
                row = group[token] = PostingRow([], [], [])
            row.append(chunk_id - block, length, places)
    return {
        _Key(token, owner, block): row
        for (owner, block), group in groups.items()
        for token, row in group.items()
    }


def _join(row: PostingRow, more: PostingRow | None) -> PostingRow:
    return PostingRow(*map(add, row, more)) if more else row


def _read(session: Session, keys: Sequence[_Key]) -> Iterator[tuple[_Key, PostingRow]]:
    for start in range(0, len(keys), _BATCH):
        for token, owner, block, *columns in session.rows_in_binary(
            f"""
            SELECT p.token, p.owner, p.block, p.chunks, p.lengths, p.places FROM {_KEYS}
            CROSS JOIN LATERAL (
                SELECT * FROM posting_lists p WHERE {of_agent("p")} AND {_OF_KEY}
                OFFSET 0  -- key by key, even if the server has no statistics of a new tenant
            ) AS p
            """,
            **_key_columns(keys[start : start + _BATCH]),
        ):
            yield _Key(token, owner, block), PostingRow(*map(to_numbers, columns))


def _delete(session: Session, keys: Sequence[_Key]) -> None:
    if keys:
        session.run(
            f"DELETE FROM posting_lists p USING {_KEYS} WHERE {of_agent('p')} AND {_OF_KEY}",
            **_key_columns(keys),
        )


def _put(session: Session, lists: _Lists, value: str) -> None:
    """Insert rows; `value` is the SQL for a column of a row that exists already."""
    changes = ", ".join(f"{name} = {value.format(name)}" for name in _COLUMNS)
    keys = sorted(lists)  # in the order of the primary key, which PostgreSQL inserts faster
    with session.connection.pipeline():  # the next batch is built while one is sent
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            columns = zip(*(lists[key].pack() for key in batch), strict=True)
            session.run(
                f"""
                INSERT INTO posting_lists AS p
                    (tenant, agent, token, owner, block, chunks, lengths, places)
                SELECT %(tenant)s, %(agent)s, k.* FROM unnest(
                    %(tokens)s::text[], %(owners)s::text[], %(blocks)s::bigint[],
                    %(chunks)b::bytea[], %(lengths)b::bytea[], %(places)b::bytea[]
                ) AS k
                ON CONFLICT (tenant, agent, token, owner, block) DO UPDATE SET {changes}
                """,
                **_key_columns(batch),
                **{name: [*column] for name, column in zip(_COLUMNS, columns, strict=True)},
            )


def _key_columns(keys: Sequence[_Key]) -> dict[str, Any]:
    tokens, owners, blocks = zip(*keys, strict=True)
    return {"tokens": array(tokens), "owners": array(owners), "blocks": [*blocks]}


def to_numbers(column: bytes) -> list[int]:
    """Return the numbers of a column."""
    return [*struct.unpack(f">{len(column) // 4}I", column)]
