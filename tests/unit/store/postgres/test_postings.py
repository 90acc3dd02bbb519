"""Postings as arrays, without a server: how they are packed, read and matched."""

from __future__ import annotations

import numpy as np
import pytest

from memwell.store.postgres.posting_lists import PostingRow
from memwell.store.postgres.postings import LAST, PostingReader, Postings, unpack
from memwell.store.postgres.term_hits import TermHits
from memwell.store.postgres.tokenizer import COLUMN_BITS
from memwell.store.words.scoring import COLUMN_WEIGHTS
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Term

HEADING = 1 << COLUMN_BITS
BLOCKS = {100: {103: (9, [0, 4]), 107: (5, [2])}, 200: {200: (7, [1, HEADING])}}
"""Chunks by block: the tokens of each, and the places of the word."""


def row_of(block: int) -> PostingRow:
    row = PostingRow([], [], [])
    for chunk, (length, places) in BLOCKS[block].items():
        row.append(chunk - block, length, places)
    return row


def postings_of(chunks: dict[int, tuple[int, list[int]]]) -> Postings:
    """The postings of a word, as the server joins them: all in one block that begins at 0."""
    row = PostingRow([], [], [])
    for chunk, (length, places) in chunks.items():
        row.append(chunk, length, places)
    block, size = (0).to_bytes(8, "big"), len(chunks).to_bytes(4, "big")
    return unpack(block, size, *row.pack())


class Reader(PostingReader):
    """A reader that has read everything."""

    def __init__(self, words: dict[str, dict[int, tuple[int, list[int]]]]) -> None:
        self._tokens = {word: postings_of(chunks) for word, chunks in words.items()}
        self._prefixes, self._terms = {}, {}


def test_rows_of_several_blocks_are_read_as_one_list() -> None:
    rows = [row_of(block) for block in BLOCKS]
    columns = [b"".join(parts) for parts in zip(*(row.pack() for row in rows), strict=True)]
    blocks = b"".join(block.to_bytes(8, "big") for block in BLOCKS)
    sizes = b"".join(len(row.chunks).to_bytes(4, "big") for row in rows)
    found = unpack(blocks, sizes, *columns)
    assert found.chunks.tolist() == [103, 107, 200]
    assert found.lengths.tolist() == [9, 5, 7]
    assert found.places.tolist() == [0, 4, 2, 1, HEADING]
    assert found.of.tolist() == [0, 0, 1, 2, 2]
    content, heading = COLUMN_WEIGHTS["content"], COLUMN_WEIGHTS["heading"]
    assert found.frequencies.tolist() == [2 * content, content, content + heading]


def test_a_number_takes_four_bytes_in_network_order() -> None:
    chunks, lengths, places = row_of(100).pack()
    assert chunks == bytes([0, 0, 0, 3, 0, 0, 0, 7])
    assert lengths == bytes([0, 0, 0, 9, 0, 0, 0, 5])
    assert places == bytes([0, 0, 0, 0, 0x80, 0, 0, 4, 0x80, 0, 0, 2])


def test_a_row_without_some_chunks_keeps_the_others() -> None:
    row, gone = row_of(100), PostingRow([], [], [])
    gone.append(3, 9, [0, 4])
    assert row.without(gone) == PostingRow([7], [5], [2 + LAST])
    assert row.without(row) == PostingRow([], [], [])


@pytest.fixture
def reader() -> Reader:
    return Reader(
        {
            "blue": {1: (10, [0, 5]), 2: (10, [3]), 3: (8, [1])},
            "boat": {1: (10, [1, 9]), 3: (8, [0])},
            "sail": {2: (10, [4]), 4: (2, [HEADING])},
        }
    )


BLUE, BOAT, SAIL = Term(("blue",)), Term(("boat",)), Term(("sail",))


def test_a_phrase_is_where_its_words_stand_in_a_row(reader: Reader) -> None:
    phrase = reader.postings(Term(("blue", "boat")))
    assert (phrase.chunks.tolist(), phrase.places.tolist()) == ([1], [0])
    assert phrase.lengths.tolist() == [10]
    assert reader.postings(Term(("boat", "sail"))).chunks.tolist() == []
    assert reader.postings(Term(("blue", "sail"))).chunks.tolist() == [2]


def test_conditions_are_met_by_chunks(reader: Reader) -> None:
    hits = TermHits([BLUE, BOAT, SAIL], reader)
    assert hits.chunks.tolist() == [1, 2, 3, 4]
    for condition, expected in (
        (AllOf((BLUE, BOAT)), [True, False, True, False]),
        (AnyOf((BOAT, SAIL)), [True, True, True, True]),
        (AndNot(AnyOf((BLUE, SAIL)), BOAT), [False, True, False, True]),
    ):
        assert hits.meet(condition).tolist() == expected


def test_occurrences_are_counted_in_the_chunks_that_are_asked_for(reader: Reader) -> None:
    chunks, found = TermHits([BLUE, SAIL], reader, np.array([4, 9, 1])).occurrences()
    blue, sail = (np.asarray(counts).tolist() for counts in found.counts)
    assert (chunks.tolist(), np.asarray(found.length).tolist()) == ([4, 1], [2, 10])
    assert (blue, sail) == ([0, 2], [COLUMN_WEIGHTS["heading"], 0])
