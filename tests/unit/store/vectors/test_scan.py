"""The meaning leg: exact, filtered before ranking, right while vectors come and go."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memwell.model import Chunk, Note
from memwell.store.contract.quantisation import quantise, round_vectors, spread
from memwell.store.contract.query import Filters, Word, WordQuery
from memwell.store.contract.values import FILLING, LIVE, SourceFile, Space
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.sqlite.schema import MIGRATIONS
from memwell.store.vectors import snapshot
from memwell.store.vectors.backend import LANCEDB, SCAN, SQL, BackendSetting
from memwell.store.vectors.scan import ScanBackend, Snapshots
from memwell.store.vectors.snapshot import Segment
from tests.conftest import REPOSITORY

DIMENSIONS = 70
EVERYTHING = WordQuery()
BACKENDS = (SCAN, SQL, LANCEDB)
PACKAGES = {SCAN: "numpy", SQL: "sqlite_vec", LANCEDB: "lancedb"}
Vectors = npt.NDArray[np.float32]


def unit(rng: np.random.Generator, count: int, dimensions: int = DIMENSIONS) -> Vectors:
    rows = rng.standard_normal((count, dimensions)).astype(np.float32)
    return round_vectors(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def note(chunks: int, tag: str = "") -> Note:
    parts = tuple(Chunk(f"text {number}", number + 1, number + 1) for number in range(chunks))
    return Note("title", None, (tag,) if tag else (), (), (), {}, parts)


class Filled:
    """An index whose chunks have known vectors, and what must be found in it."""

    def __init__(self, folder: Path, seed: int = 0, backend: BackendSetting | None = None) -> None:
        self.index = SqliteIndex(folder / "index.db", backend)
        self.rng = np.random.default_rng(seed)
        self.vectors: dict[int, Vectors] = {}
        self.note_of: dict[int, int] = {}
        self.written = 0
        with self.index.writing() as notes:
            self.workspace = notes.workspace("w")
        with self.index.writing_spaces() as spaces:
            spaces.open(Space(0, "f", "test", "m", DIMENSIONS, "{}", FILLING, "2026-01-01"))
        self.index.move_vectors(self.space)

    @property
    def space(self) -> Space:
        with self.index.reading() as reader:
            found = reader.spaces.find("f")
        assert found is not None
        return found

    def add(self, chunks: int, *, windows: int = 1, tag: str = "") -> int:
        """Write a note; return its id."""
        self.written += 1
        file = SourceFile(f"{tag or 'n'}{self.written}.md", 0, 0, 0, str(self.written), "r")
        with self.index.writing() as notes:
            note_id, _ = notes.put(self.workspace, file, note(chunks, tag))
        with self.index.reading() as reader:
            waiting = reader.spaces.waiting(self.space, 10**6)
        new = {item.chunk_id: unit(self.rng, windows) for item in waiting}
        self.index.put_vectors(self.space, new.items())
        self.vectors |= new
        self.note_of |= dict.fromkeys(new, note_id)
        return note_id

    def remove(self, note_id: int) -> None:
        with self.index.writing() as notes:
            notes.delete([note_id])
        gone = [chunk for chunk, of in self.note_of.items() if of == note_id]
        for chunk in gone:
            del self.vectors[chunk], self.note_of[chunk]

    def nearest(self, query: Vectors, limit: int, asked: WordQuery = EVERYTHING) -> list[int]:
        with self.index.reading() as reader:
            matches = reader.vectors.nearest(self.space, query, asked, limit, words=False)
        for match in matches:
            assert match.score == pytest.approx(self.cosine(match.chunk_id, query), abs=1e-5)
        return [match.chunk_id for match in matches]

    def cosine(self, chunk: int, query: Vectors) -> float:
        return float((self.vectors[chunk] @ query).max())

    def expected(self, query: Vectors, limit: int) -> list[int]:
        return sorted(self.vectors, key=lambda chunk: -self.cosine(chunk, query))[:limit]


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    return Filled(tmp_path)


@pytest.fixture(params=BACKENDS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filled]:
    """The same, whichever backend keeps the vectors."""
    pytest.importorskip(PACKAGES[request.param])
    made = Filled(tmp_path, backend=BackendSetting(request.param))
    yield made
    made.index.close()


# -- what holds of every backend -------------------------------------------------------------------


def test_a_chunk_is_as_near_as_its_best_window(kept: Filled) -> None:
    kept.add(40, windows=3)
    query = unit(kept.rng, 1)[0]
    assert kept.nearest(query, 10) == kept.expected(query, 10)


@pytest.mark.parametrize("compacted", [False, True])
def test_any_number_of_chunks_can_be_asked_for(kept: Filled, compacted: bool) -> None:
    kept.add(5_000)
    if compacted:
        kept.index.compact("f", even_if_little_changed=True)
    query = unit(kept.rng, 1)[0]
    found, expected = kept.nearest(query, 4_500), kept.expected(query, 4_500)
    assert len({*found}) == 4_500
    cosines = [kept.cosine(chunk, query) for chunk in expected]
    assert [kept.cosine(chunk, query) for chunk in found] == pytest.approx(cosines, abs=1e-6)
    assert len(kept.nearest(query, 10**6)) == 5_000


@pytest.mark.parametrize("compacted", [False, True])
def test_filters_act_before_ranking(kept: Filled, compacted: bool) -> None:
    query = unit(kept.rng, 1)[0]
    for _ in range(20):
        kept.add(100)
    wanted = kept.add(6, tag="rare")
    if compacted:
        kept.index.compact("f", even_if_little_changed=True)
    tagged = WordQuery(filters=Filters(tags=("rare",)))
    found = kept.nearest(query, 6, tagged)
    assert {kept.note_of[chunk] for chunk in found} == {wanted}
    assert len(found) == 6
    nobody = WordQuery(filters=Filters(paths=("nowhere/*",)))
    assert kept.nearest(query, 6, nobody) == []


@pytest.mark.parametrize(("backend", "examples"), [(SCAN, 30), (SQL, 10), (LANCEDB, 8)])
def test_whatever_came_or_went_the_answer_is_that_of_a_plain_scan(
    tmp_path_factory: pytest.TempPathFactory, backend: str, examples: int
) -> None:
    pytest.importorskip(PACKAGES[backend])

    @settings(max_examples=examples)
    @given(
        seed=st.integers(0, 10**6),
        steps=st.lists(st.sampled_from(["add", "add", "drop", "compact"]), max_size=12),
        turned=st.booleans(),
    )
    def holds(seed: int, steps: list[str], turned: bool) -> None:
        filled = Filled(tmp_path_factory.mktemp("index"), seed, BackendSetting(backend))
        chance = random.Random(seed)
        for step in ["add", *steps]:
            if step == "add":
                filled.add(chance.randint(1, 5), windows=chance.randint(1, 3))
            elif step == "compact":
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(snapshot, "FEW", 0 if turned else snapshot.FEW)
                    filled.index.compact("f", even_if_little_changed=True)
            elif filled.note_of:
                filled.remove(chance.choice([*filled.note_of.values()]))
            query = unit(filled.rng, 1)[0]
            assert filled.nearest(query, 7) == filled.expected(query, 7)
        filled.index.close()

    holds()


def test_words_that_must_or_must_not_match_hold_for_every_backend(kept: Filled) -> None:
    kept.add(30)
    query = unit(kept.rng, 1)[0]
    one = WordQuery(all_of=(Word("7"),))
    others = WordQuery(none_of=(Word("text"),))
    with kept.index.reading() as reader:
        (match,) = reader.vectors.nearest(kept.space, query, one, 10)
        assert reader.vectors.nearest(kept.space, query, others, 10) == []
        (hit,) = reader.chunks.hits([(match.chunk_id, 1.0)])
    assert hit.text == "text 7"


def test_cosines_and_vectors_of_chunks_are_those_that_were_stored(kept: Filled) -> None:
    kept.add(20, windows=2)
    query = unit(kept.rng, 1)[0]
    chunks = [*kept.vectors][::3]
    with kept.index.reading() as reader:
        cosines = reader.vectors.cosines(kept.space, query, [*chunks, 10**6])
        vectors = reader.vectors.first_windows(kept.space, chunks)
        some = reader.vectors.sample(kept.space, 10)
    assert cosines == pytest.approx({chunk: kept.cosine(chunk, query) for chunk in chunks})
    for chunk in chunks:
        np.testing.assert_array_equal(vectors[chunk], kept.vectors[chunk][0])
    known = {row.tobytes() for rows in kept.vectors.values() for row in rows}
    assert len(some) == 10
    assert {vector for _, vector in some} <= known


def test_spaces_of_several_models_lie_side_by_side(kept: Filled) -> None:
    kept.add(10)
    with kept.index.writing_spaces() as spaces:
        other = spaces.open(Space(0, "g", "test", "other", 3, "{}", FILLING, "2026-01-02"))
    kept.index.move_vectors(other)
    vectors = {chunk: unit(kept.rng, 1, 3) for chunk in kept.vectors}
    kept.index.put_vectors(other, vectors.items())
    query, short = unit(kept.rng, 1)[0], unit(kept.rng, 1, 3)[0]
    assert kept.nearest(query, 5) == kept.expected(query, 5)
    with kept.index.reading() as reader:
        named = reader.spaces.find("g")
        assert named
        found = [match.chunk_id for match in reader.vectors.nearest(named, short, EVERYTHING, 5)]
    assert found == sorted(vectors, key=lambda chunk: -float(vectors[chunk][0] @ short))[:5]
    kept.index.drop_space(named)
    assert kept.nearest(query, 5) == kept.expected(query, 5)


# -- the scan and SQL ------------------------------------------------------------------------------


def test_the_sql_of_the_documentation_finds_neighbours(filled: Filled) -> None:
    """What docs/data.md shows, run by a plain connection with sqlite-vec."""
    sqlite_vec = pytest.importorskip("sqlite_vec")
    text = (REPOSITORY / "docs" / "data.md").read_text(encoding="utf-8")
    (statement,) = re.findall(r"```sql\n(.*?)```", text, re.S)
    filled.add(50, windows=2)
    filled.index.close()
    query = unit(filled.rng, 1)[0]
    connection = apsw.Connection(str(filled.index.path))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    functions: dict[str, Any] = {}
    exec(code, functions)
    numbers = functions["to_numbers"](query)
    rows = connection.execute(statement, {"query": numbers.tobytes()}).fetchall()
    best = [filled.cosine(chunk, query) for chunk in filled.expected(query, 5)]
    assert [row[-1] for row in rows] == pytest.approx(best, abs=1e-5)
    (blob,) = connection.execute("SELECT vector FROM vectors LIMIT 1").fetchall()[0]
    stored = filled.vectors[min(filled.vectors)][0]
    np.testing.assert_allclose(functions["from_numbers"](blob), stored, atol=1e-6)
    assert {row[0] for row in rows} == {"n1.md"}


def test_two_processes_that_compact_at_once_lose_nothing(filled: Filled) -> None:
    """The snapshot that was read first must not replace one that knows of later deletions."""
    from memwell.store.vectors import scan as vectors

    first = filled.add(5)
    filled.add(5)
    with filled.index.database.reading() as connection:
        slow = vectors.write_segment(connection, filled.index.path.parent, filled.space, {})
    space = filled.space
    filled.remove(first)
    filled.index.compact("f", even_if_little_changed=True)
    with filled.index.database.writing() as connection:
        vectors.adopt_segment(connection, space, slow)
    query = unit(filled.rng, 1)[0]
    assert filled.nearest(query, 10) == filled.expected(query, 10)


def snapshots_of(index: SqliteIndex) -> Snapshots:
    assert isinstance(index.backends.table, ScanBackend)
    return index.backends.table.snapshots


@pytest.mark.parametrize("damage", ["missing", "empty", "shorter", "other", "older"])
def test_a_snapshot_that_is_not_whole_is_not_used(filled: Filled, damage: str) -> None:
    """Not one of an older format either; the next filling writes it anew, though nothing changed."""
    filled.add(50)
    filled.index.compact("f", even_if_little_changed=True)
    (file,) = filled.index.path.parent.glob("vectors-*")
    filled.index.close()
    data = file.read_bytes()
    older = data.replace(b"memwell vectors 3", b"memwell vectors 2")
    broken = {
        "empty": b"",
        "shorter": data[:-100],
        "other": b"x" * len(data),
        "older": older,
    }
    file.unlink() if damage == "missing" else file.write_bytes(broken[damage])
    again = SqliteIndex(filled.index.path)
    filled.index = again
    query = unit(filled.rng, 1)[0]
    assert filled.nearest(query, 10) == filled.expected(query, 10)
    assert not snapshots_of(again).get(filled.space)
    again.compact("f")
    assert snapshots_of(again).get(filled.space)
    assert not file.exists()
    assert filled.nearest(query, 10) == filled.expected(query, 10)


def test_only_the_latest_snapshot_is_kept(filled: Filled) -> None:
    for _ in range(3):
        filled.add(10)
        filled.index.compact("f", even_if_little_changed=True)
    assert [file.name for file in filled.index.path.parent.glob("vectors-*")] == [
        filled.space.snapshot
    ]
    assert oct(next(filled.index.path.parent.glob("vectors-*")).stat().st_mode)[-3:] == "600"


def clustered(rng: np.random.Generator, count: int) -> Vectors:
    """Vectors around a hundred centres."""
    rows = unit(rng, 100, 384)[rng.integers(0, 100, count)]
    rows += 0.03 * rng.standard_normal(rows.shape, dtype=np.float32)
    return round_vectors(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def written(folder: Path, rows: Vectors) -> Segment:
    """A segment of many vectors, mapped from its file."""
    file, (count, dimensions) = folder / "vectors.bin", rows.shape
    numbered = ((n + 1, n + 1, 1, row.tobytes()) for n, row in enumerate(quantise(rows)))
    snapshot.write(file, numbered, count, dimensions, spread(rows[::7]))
    loaded = snapshot.load(file)
    assert loaded is not None
    return loaded


def test_the_first_pass_keeps_the_nearest(tmp_path: Path) -> None:
    """Of many vectors only those are compared in full that lie alike along the main axes."""
    rng = np.random.default_rng(3)
    rows = clustered(rng, 50_000)
    loaded = written(tmp_path, rows)
    queries = rows[rng.choice(50_000, 30)] + 0.02 * rng.standard_normal((30, 384), np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    exact, some = queries @ rows.T, rng.random(50_000)
    for keep in (None, some < 0.5, some < 0.05):
        allowed = np.arange(50_000) if keep is None else np.flatnonzero(keep)
        for wanted in (10, 100):
            found = looked_at = 0
            for query, cosines in zip(queries, exact, strict=True):
                scores, candidates = loaded.scores(spread(query), wanted, keep)
                assert candidates is not None
                assert keep is None or keep[candidates].all()
                np.testing.assert_allclose(scores, cosines[candidates], atol=1e-5)
                best = allowed[np.argsort(-cosines[allowed])[:wanted]]
                found += int(np.isin(best, candidates).sum())
                looked_at += len(candidates)
            assert found >= 0.99 * wanted * len(queries)
            if wanted < 0.01 * len(allowed):
                assert looked_at < 0.1 * len(queries) * len(allowed)


def test_vectors_without_structure_are_all_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows, query = unit(rng, 10_000), unit(rng, 1)[0]
    loaded = written(tmp_path, rows)
    scores, candidates = loaded.scores(spread(query), 100, None)
    exact = rows @ query
    assert candidates is None
    np.testing.assert_allclose(scores, exact, atol=1e-5)
    np.testing.assert_allclose(exact[np.argsort(-scores)], -np.sort(-exact), atol=1e-5)
    keep = rng.random(10_000) < 0.5
    scores, candidates = loaded.scores(spread(query), 100, keep)
    np.testing.assert_array_equal(candidates, np.flatnonzero(keep))
    np.testing.assert_allclose(scores, exact[keep], atol=1e-5)


# -- segments --------------------------------------------------------------------------------------


def sizes_of(filled: Filled) -> list[int]:
    return [len(segment.ids) for segment in snapshots_of(filled.index).get(filled.space).values()]


def test_new_vectors_do_not_rewrite_many_old_ones(filled: Filled) -> None:
    """A segment is written anew with those after it only if it is not many times as large."""
    filled.add(6_000)
    filled.index.compact("f")
    (first,) = filled.space.segments
    sizes = []
    for _ in range(6):
        filled.add(600)
        filled.index.compact("f")
        sizes.append(sizes_of(filled))
        query = unit(filled.rng, 1)[0]
        assert filled.nearest(query, 10) == filled.expected(query, 10)
    assert filled.space.segments[0] != first
    assert sizes[:2] == [[6_000, 600], [6_000, 1_200]]
    assert sizes[2:] == [[6_000 + 3 * 600], [7_800, 600], [7_800, 1_200], [7_800, 1_800]]


def test_few_new_vectors_are_read_from_the_index(filled: Filled) -> None:
    filled.add(1_000)
    filled.index.compact("f")
    filled.add(100)
    filled.index.compact("f")
    assert sizes_of(filled) == [1_000]
    query = unit(filled.rng, 1)[0]
    assert filled.nearest(query, 10) == filled.expected(query, 10)


def test_deleted_vectors_are_left_out_of_every_segment(filled: Filled) -> None:
    notes = [filled.add(3_000), filled.add(3_000)]
    filled.index.compact("f")
    notes += [filled.add(600)]
    filled.index.compact("f")
    assert sizes_of(filled) == [6_000, 600]
    small = [filled.add(20), filled.add(20)]
    for note_id in (notes[2], small[0]):
        filled.remove(note_id)
    query = unit(filled.rng, 1)[0]
    assert filled.nearest(query, 10) == filled.expected(query, 10)
    filled.index.compact("f")  # a tenth was deleted
    assert sizes_of(filled) == [6_000 + 20]
    assert filled.nearest(query, 10) == filled.expected(query, 10)
    assert len([*filled.index.path.parent.glob("vectors-*")]) == 1


def test_vectors_of_an_earlier_version_are_rewritten(filled: Filled) -> None:
    """They were little-endian float32; a chunk without a vector has an empty one."""
    filled.add(601, windows=2)
    empty, *chunks = filled.vectors
    floats = {chunk: unit(filled.rng, 2) for chunk in chunks}
    with filled.index.database.writing() as connection:
        connection.executemany(
            "UPDATE vectors SET vector = ? WHERE chunk_id = ? AND window = ?",
            ((row.tobytes(), key, n) for key, rows in floats.items() for n, row in enumerate(rows)),
        )
        connection.execute("UPDATE vectors SET vector = x'' WHERE chunk_id = ?", (empty,))
        steps = [name for name, _ in MIGRATIONS]
        before = steps.index("keep a vector as a byte for each dimension")
        connection.pragma("user_version", before)
    filled.index.close()
    filled.index = SqliteIndex(filled.index.path)
    filled.vectors = {chunk: round_vectors(rows) for chunk, rows in floats.items()}
    query = unit(filled.rng, 1)[0]
    expected = filled.expected(query, 10)
    assert filled.nearest(query, 10) == expected
    with filled.index.reading() as reader:
        cosines = reader.vectors.cosines(filled.space, query, expected)
        windows = reader.vectors.windows(filled.space, [empty, *expected])
    assert cosines == pytest.approx({chunk: filled.cosine(chunk, query) for chunk in expected})
    assert windows.pop(empty).shape == (0, DIMENSIONS)
    for chunk in expected:
        np.testing.assert_array_equal(windows[chunk], filled.vectors[chunk])


def test_a_chunk_with_very_many_near_windows_leaves_room_for_others(filled: Filled) -> None:
    """The first pass looks for windows, and may keep none but those of one chunk."""
    filled.add(40)
    (crowded, query) = min(filled.vectors), unit(filled.rng, 1)[0]
    near = query + 0.02 * unit(filled.rng, snapshot.FEW)
    windows = near / np.linalg.norm(near, axis=1, keepdims=True)
    with filled.index.database.writing() as connection:
        connection.execute("DELETE FROM vectors WHERE chunk_id = ?", (crowded,))
    filled.index.put_vectors(filled.space, [(crowded, windows)])
    filled.vectors[crowded] = windows
    filled.index.compact("f", even_if_little_changed=True)
    assert filled.nearest(query, 10) == filled.expected(query, 10)


def test_no_wrong_vector_can_be_stored(kept: Filled) -> None:
    note_id = kept.add(1)
    (chunk,) = [chunk for chunk, of in kept.note_of.items() if of == note_id]
    good = unit(kept.rng, 1)
    wrong: list[Any] = [
        good[:, :-1],
        good * 2,
        good * 0,
        good * np.nan,
        good[0],
        np.full_like(good, np.inf),
    ]
    for matrix in wrong:
        with pytest.raises(ValueError, match="vector"):
            kept.index.put_vectors(kept.space, [(chunk, matrix)])


def test_one_space_at_most_is_live(filled: Filled) -> None:
    with filled.index.writing_spaces() as spaces:
        spaces.open(Space(0, "g", "test", "other", 3, "{}", FILLING, "2026-01-02"))
    assert filled.space.state == LIVE
    with pytest.raises(apsw.ConstraintError), filled.index.database.writing() as connection:
        connection.execute("UPDATE spaces SET state = 'live'")
