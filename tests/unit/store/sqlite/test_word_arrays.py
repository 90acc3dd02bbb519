"""A process that searches more than once ranks by arrays: the answers are those of FTS5."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memwell import Memory
from memwell.config.fields import Value
from memwell.search.parse import parse
from memwell.store.contract.query import Match
from memwell.store.sqlite import word_arrays
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.sqlite.keywords import SqliteKeywords
from memwell.store.sqlite.postings import Postings
from memwell.store.words.tree import Term
from tests.conftest import EXAMPLES, Write
from tests.support.states import index_file

_TEXTS = (
    "the cat sat on the mat and the cat slept",
    "cat food for a hungry cat; dog food is elsewhere",
    "a dog chased the cat over the mat",
    "ERR_NGX_502 means that the upstream of nginx is gone",
    "rankToScore turns a rank into a score",
    "会议室 预订 在 星期五",
    "Kafka consumers and consumer groups; consuming consumes",
)


@pytest.fixture
def index(memory: Memory, workspace: Path, write: Write, home: Path) -> Iterator[SqliteIndex]:
    """Some notes with few words, so that many scores are equal."""
    chance = random.Random(4)
    for number in range(60):
        lines = [f"# {chance.choice(_TEXTS[:3])}\n", *chance.choices(_TEXTS, k=3)]
        write(f"{'ab'[number % 2]}/{number}.md", "\n\n".join(lines) + "\n")
    memory.index(workspace)
    memory.remember("The cat of Anna is named Miso.")
    memory.search("cat")
    found = SqliteIndex(index_file(home))
    yield found
    found.close()


@contextmanager
def both(
    index: SqliteIndex, visible: frozenset[str] | None = None
) -> Iterator[list[SqliteKeywords]]:
    """Yield the keywords as FTS5 has them, and as the arrays have them."""
    postings = Postings(index.database)
    with index.database.reading() as connection:
        assert postings.arrays(connection) is None  # the first search
        yield [SqliteKeywords(connection, visible, kept) for kept in (None, postings)]


QUERIES = (
    "cat",
    "the cat mat",
    "the",
    "cat food dog",
    '"the cat" mat',
    '"cat food"',
    "cat AND dog",
    "(cat OR dog) NOT mat",
    "cat -dog",
    "con* cat",
    "consum*",
    "ERR_NGX_502",
    "rank_to_score rankToScore",
    "会议室",
    "nothing knownhere",
    "path:a/ cat mat",
    "path:b/ -path:b/1* the dog",
    "cat cat dog",
)


@pytest.mark.parametrize("visible", [None, frozenset[str]()], ids=["all", "no facts"])
@pytest.mark.parametrize("limit", [3, 200])
def test_the_answers_are_those_of_fts5(
    index: SqliteIndex, limit: int, visible: frozenset[str] | None, few: None
) -> None:
    with both(index, visible) as (by_fts5, by_arrays):
        for asked in (parse(query).query for query in QUERIES):
            one, other = by_fts5.search(asked, limit), by_arrays.search(asked, limit)
            assert by_arrays._arrays is not None
            assert _plain(one) == _plain(other)
            chunks = [match.chunk_id for match in one] + [1, 7, 10_000]
            scored = [keywords.scores(asked, chunks) for keywords in (by_fts5, by_arrays)]
            assert _plain([*scored[0].values()]) == _plain([*scored[1].values()])
            assert by_fts5.ideal_score(asked) == by_arrays.ideal_score(asked)


@contextmanager
def after_additions(
    index: SqliteIndex, memory: Memory, workspace: Path, write: Write
) -> Iterator[list[SqliteKeywords]]:
    """Yield the keywords as `both`, where the arrays were read before some notes were added."""
    postings = Postings(index.database)
    for number in range(4):
        for _ in range(2):
            with index.database.reading() as connection:
                if arrays := postings.arrays(connection):
                    arrays.postings(Term(("cat",)), connection)
        texts = (*_TEXTS[number:], f"A new word: zebra{number}, and RankOfZebra.")
        write(f"added/{number}.md", "# The cat\n\n" + "\n\n".join(texts) + "\n")
        memory.index(workspace)
    with index.database.reading() as connection:
        arrays = postings.arrays(connection)
        assert arrays is not None
        assert len(arrays._added) == 4
        yield [SqliteKeywords(connection, None, kept) for kept in (None, postings)]


def test_added_notes_extend_the_arrays(
    index: SqliteIndex, memory: Memory, workspace: Path, write: Write, few: None
) -> None:
    """The answers are those of FTS5, and what was read before is still used."""
    with after_additions(index, memory, workspace, write) as (by_fts5, by_arrays):
        for text in (*QUERIES, "zebra1", "zebra*", '"new word"', "zeb* -zebra2", "rank zebra"):
            query = parse(text).query
            for limit in (3, 200):
                found = [keywords.search(query, limit) for keywords in (by_fts5, by_arrays)]
                assert _plain(found[0]) == _plain(found[1]), text
        lengths = (3, 12)
        words = [sorted(each.vocabulary(*lengths)) for each in (by_fts5, by_arrays)]
        assert words[0] == words[1]
        assert "zebra3" in words[0]


def test_an_earlier_state_is_searched_without_what_was_added_since(
    index: SqliteIndex, memory: Memory, workspace: Path, write: Write
) -> None:
    postings = Postings(index.database)
    with index.database.reading() as before:
        assert postings.arrays(before) is None
        write("added.md", "A zebra.\n")
        memory.index(workspace)
        for _ in range(2):
            with index.database.reading() as now:
                later = postings.arrays(now)
        earlier = [postings.arrays(before) for _ in range(2)][1]
    assert earlier is not None
    assert later is not None
    assert len(earlier.chunks) == len(later.chunks) - 1


def test_too_many_additions_are_read_from_the_index(
    index: SqliteIndex,
    memory: Memory,
    workspace: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(word_arrays, "_MOST_ADDED", 2)
    postings = Postings(index.database)
    added = []
    for number in range(6):
        with index.database.reading() as connection:
            arrays = postings.arrays(connection) or postings.arrays(connection)
        assert arrays is not None
        added.append(len(arrays._added))
        write(f"added/{number}.md", "A zebra.\n")
        memory.index(workspace)
    assert added == [0, 1, 2, 0, 1, 2]


@pytest.fixture(params=[100, 5])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Select few candidates, so that the selection matters."""
    monkeypatch.setattr("memwell.store.words.ranking.POOL", request.param)
    monkeypatch.setattr("memwell.store.words.ranking._SELECT_ROWS", request.param)


def _plain(matches: list[Match]) -> list[tuple[int, float, float]]:
    rounded = ((one.chunk_id, round(one.score, 9), round(one.covered, 9)) for one in matches)
    return sorted(rounded, key=lambda match: (-match[1], match[0]))


def test_the_example_notes_have_the_same_answers_by_arrays(memory: Memory, home: Path) -> None:
    memory.index(EXAMPLES)
    index = SqliteIndex(index_file(home))
    words = sorted({word for file in EXAMPLES.rglob("*.md") for word in file.read_text().split()})
    chance = random.Random(7)
    with both(index) as (by_fts5, by_arrays):
        for _ in range(150):
            query = parse(" ".join(chance.choices(words, k=5))).query
            assert _plain(by_fts5.search(query, 10)) == _plain(by_arrays.search(query, 10))
    index.close()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"cat.md": "The fox is named Miso.\n"}, {"fox": True, "cat": True, "Miso": True}),
        ({"cat.md": "The dog is named Miso.\n"}, {"dog": True, "Miso": True}),
        ({"cat.md": None}, {"cat": False, "Miso": False}),
        ({"cat.md": None, "owl.md": "The cat is named Miso.\n"}, {"owl": True, "cat": True}),
        ({"new.md": "An owl.\n"}, {"owl": True, "cat": True}),
        ({"new.md": "An owl.\n", "cat.md": None}, {"owl": True, "cat": False}),
        (
            {"cat.md": "---\naliases: owl\n---\nThe cat is named Miso.\n"},
            {"owl": True, "cat": True},
        ),
    ],
)
def test_a_change_by_another_process_is_found(
    workspace: Path, write: Write, home: Path, change: dict[str, str | None], found: dict[str, bool]
) -> None:
    """Also one that leaves as many chunks and tokens as there were before."""
    write("cat.md", "The cat is named Miso.\n")
    write("other.md", "Something else.\n")
    settings: dict[str, Value] = {"embedding.chain": (), "sync.on_search": False}
    with Memory(home, settings=settings) as one, Memory(home, settings=settings) as other:
        one.index(workspace)
        for _ in range(2):  # the second search reads the arrays
            assert one.search("cat Miso fox dog owl", mode="words").hits
        for name, text in change.items():
            if text is None:
                (workspace / name).unlink()
            else:
                write(name, text)
        other.index(workspace)
        for word, is_found in found.items():
            assert bool(one.search(word, mode="words").hits) == is_found


@pytest.mark.parametrize("quick", [0, 20_000])
def test_a_large_index_is_read_when_a_second_search_asks_for_the_same_state(
    memory: Memory,
    workspace: Path,
    write: Write,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    quick: int,
) -> None:
    monkeypatch.setattr("memwell.store.sqlite.postings._QUICKLY_READ", quick)
    index = SqliteIndex(index_file(home))
    postings = Postings(index.database)
    used = []
    for text in ("A cat.\n", "A dog.\n"):
        write("pet.md", text)
        memory.index(workspace)
        for _ in range(3):
            with index.database.reading() as connection:
                used.append(postings.arrays(connection) is not None)
    index.close()
    assert used == [False, True, True, quick > 0, True, True]


def test_an_index_that_was_built_anew_is_read_anew(
    workspace: Path, write: Write, home: Path
) -> None:
    """Its records may be equal to those of the file before it."""
    with Memory(home, settings={"embedding.chain": ()}) as memory:
        for word in ("cat", "dog"):
            write("pet.md", f"The {word} sleeps.\n")
            memory.index(workspace)
            for _ in range(2):
                assert memory.search(word, mode="words").hits
            memory.reset()


def test_fts5_ranks_words_that_too_many_chunks_hold(
    index: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memwell.store.sqlite.keywords._MOST_CHUNKS", 20)
    with both(index) as (by_fts5, by_arrays):
        for query in QUERIES:
            asked = parse(query).query
            assert _plain(by_fts5.search(asked, 10)) == _plain(by_arrays.search(asked, 10))
        assert by_arrays._arrays is not None
        kept = by_arrays._arrays._tokens._kept
        assert "会议" in kept
        assert "cat" not in kept


def test_arrays_that_were_not_used_for_longest_are_dropped(
    index: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_arrays, "_MOST_BYTES", 1_000)
    with both(index) as (by_fts5, by_arrays):
        for query in QUERIES:
            asked = parse(query).query
            assert _plain(by_fts5.search(asked, 10)) == _plain(by_arrays.search(asked, 10))
        assert by_arrays._arrays is not None
        cache = by_arrays._arrays._terms
        kept = [one.nbytes for one in cache._kept.values()]
        assert 0 < sum(kept) == cache._bytes <= 1_000
