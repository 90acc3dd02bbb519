"""The contract of a store, tested on SQLite and PostgreSQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memwell.errors import MemwellError, NotFoundError
from memwell.facts.erase import forget
from memwell.facts.export_import import export_facts, import_jsonl, to_jsonl
from memwell.facts.service import FactService, NewFact
from memwell.model import POSITIONS, Chunk, Note, Viewer
from memwell.search.parse import parse
from memwell.store.contract.quantisation import round_vectors
from memwell.store.contract.query import Filters, WordQuery
from memwell.store.contract.values import (
    FILLING,
    FactFilter,
    LinkedNote,
    SourceFile,
    Space,
    Workspace,
    find_innermost,
)
from memwell.store.fact_notes import scope_workspace, sync_facts
from memwell.store.factory import Stores, open_postgres, open_sqlite
from tests.support.postgres import app_url, new_tenant

NOW = dt.datetime(2026, 2, 10, 12, tzinfo=dt.UTC)
LATER = "2026-03-01T00:00:00.000+00:00"
ANNA, BEN = Viewer("anna", "main", "s1"), Viewer("ben", "main", "s2")
EVERYTHING = WordQuery()


@contextmanager
def opened(kind: str, home: Path) -> Iterator[Stores]:
    if kind == "sqlite":
        made = open_sqlite(home, "main")
    else:
        made = open_postgres(app_url(), new_tenant(), home, "main")
    try:
        yield made
    finally:
        made.index.close()
        made.facts.close()


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, home: Path) -> Iterator[Stores]:
    with opened(request.param, home) as made:
        yield made


class Indexed:
    """An index with a workspace that notes are written to."""

    def __init__(self, stores: Stores) -> None:
        self.index = stores.index
        self.read = 0
        with self.index.writing() as notes:
            self.workspace = notes.workspace("/notes", "1:2")

    def put(self, path: str, *texts: str, moved_from: int | None = None, **known: Any) -> int:
        """Write a note of some passages, one a line; return its id."""
        self.read += 1
        chunks = tuple(
            Chunk(text, number, number, tuple(known.get("heading", ())))
            for number, text in enumerate(texts, 1)
        )
        note = Note(
            known.get("title", ""),
            known.get("date"),
            tuple(known.get("tags", ())),
            tuple(known.get("aliases", ())),
            tuple(known.get("links", ())),
            known.get("meta", {}),
            chunks,
        )
        file = SourceFile(path, len(texts), self.read, self.read, known.get("hash", path), "r")
        with self.index.writing() as notes:
            return notes.put(self.workspace, file, note, moved_from=moved_from)[0]

    def delete(self, *note_ids: int) -> None:
        with self.index.writing() as notes:
            notes.delete(note_ids)

    def chunks(self, note_id: int) -> list[int]:
        with self.index.reading() as reader:
            return reader.notes.chunk_ids(note_id)

    def found(self, text: str, filters: Filters | None = None) -> list[str]:
        """The paths that words find, best first."""
        query = parse(text).query
        query = replace(query, filters=filters) if filters else query
        with self.index.reading() as reader:
            matches = [
                (match.chunk_id, match.score) for match in reader.keywords.search(query, 100)
            ]
            return [*dict.fromkeys(hit.path for hit in reader.chunks.hits(matches))]

    def embedded(self, name: str = "model", dimensions: int = 3) -> Space:
        with self.index.writing_spaces() as spaces:
            return spaces.open(
                Space(0, name, "test", name, dimensions, "{}", FILLING, "2026-01-01")
            )

    def nearest(
        self, space: Space, vector: list[float], query: WordQuery = EVERYTHING
    ) -> list[int]:
        with self.index.reading() as reader:
            found = reader.vectors.nearest(space, np.array(vector, dtype=np.float32), query, 10)
        return [match.chunk_id for match in found]


@pytest.fixture
def indexed(stores: Stores) -> Indexed:
    return Indexed(stores)


@pytest.fixture(params=["sqlite", "postgres"], scope="module")
def words(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Indexed]:
    """Notes to find by their words."""
    with opened(request.param, tmp_path_factory.mktemp("words")) as made:
        indexed = Indexed(made)
        indexed.put("run.md", "She runs every day.")
        indexed.put("apfel.md", "Die Apfel liegen dort.")
        indexed.put("zh.md", "下午的会议改到三点")
        indexed.put("th.md", "เรียนภาษาไทยทุกวัน")
        indexed.put("code.md", "Call `bm25RankToScore` there.")
        indexed.put("error.md", "nginx logs ERR_NGX_502 then.")
        indexed.put("config.md", "The configuration is blue.", heading=["Heading"], title="Title")
        indexed.put("fox.md", "A quick blue fox.")
        indexed.put("other.md", "A fox that is blue, lazy, lazy.")
        indexed.put("filler.md", *(f"some words that fill {number}" for number in range(20)))
        yield indexed


@pytest.fixture(params=["sqlite", "postgres"], scope="module")
def filtered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Indexed]:
    """Notes with equal vectors that differ in what filters select."""
    with opened(request.param, tmp_path_factory.mktemp("filtered")) as made:
        indexed = Indexed(made)
        notes = [
            indexed.put("memory/2026-01-31.md", "the cat", date="2026-01-31"),
            indexed.put("Projects/Zoo.md", "a cat", date="2025-12-01", tags=["Animals/Wild"]),
            indexed.put("a[1].md", "one cat"),
        ]
        chunks = [(indexed.chunks(note)[0], rows([1, 0, 0])) for note in notes]
        indexed.index.put_vectors(indexed.embedded(), chunks)
        yield indexed


def rows(*vectors: list[float]) -> Any:
    return np.array(vectors, dtype=np.float32)


# -- notes -----------------------------------------------------------------------------------------


def test_a_note_is_written_whole_and_read_back(indexed: Indexed) -> None:
    note = indexed.put(
        "a.md", "One cat.", "Two dogs.", title="Pets", tags=["Home"], date="2026-01-02"
    )
    with indexed.index.reading() as reader:
        assert reader.notes.counts(indexed.workspace) == (1, 2)
        assert reader.notes.indexed_files(indexed.workspace)["a.md"].hash == "a.md"
        assert reader.notes.note_id(indexed.workspace, "a.md") == note
        (hit,) = reader.chunks.hits([(indexed.chunks(note)[1], 0.5)])
        assert (hit.path, hit.workspace, hit.start_line, hit.text) == (
            "a.md",
            "/notes",
            2,
            "Two dogs.",
        )
        assert (hit.title, hit.tags, hit.date, hit.score) == ("Pets", ("home",), "2026-01-02", 0.5)
        assert reader.chunks.places(indexed.chunks(note))[indexed.chunks(note)[1]] == (
            "a.md",
            "2026-01-02",
            1,
        )
        assert reader.chunks.context(indexed.chunks(note)[0], False).text == "One cat.Two dogs."
        beside = reader.chunks.neighbours(indexed.chunks(note), 100)
        assert beside[indexed.chunks(note)[0]].chunks == (indexed.chunks(note)[1],)
        (listed,) = reader.listing.notes(["/notes"], None)
        assert (listed.path, listed.tags, listed.chunks) == ("a.md", ("home",), 2)
        assert [one.text for one in reader.listing.chunks(["/notes"], "a.md", "/notes")] == [
            "One cat.",
            "Two dogs.",
        ]
        (whole,) = reader.listing.export(note - 1, 10)
        assert (whole.id, whole.workspace, whole.file.path) == (note, "/notes", "a.md")
        assert (whole.note.names, whole.note.tags) == (("Pets", "Home"), ("Home",))
        assert whole.chunk_ids == tuple(indexed.chunks(note))
        assert reader.listing.export(note, 10) == []
    assert indexed.index.check_integrity() == []


def test_chunks_that_did_not_change_keep_their_ids(indexed: Indexed) -> None:
    first = indexed.chunks(indexed.put("a.md", "one", "two", "three"))
    again = indexed.chunks(indexed.put("a.md", "new", "three", "one"))
    assert again[1:] == [first[2], first[0]]
    assert again[0] not in first
    assert indexed.found("two") == []
    assert indexed.found("new") == indexed.found("one") == ["a.md"]
    assert indexed.index.check_integrity() == []


def test_a_note_that_moved_keeps_its_chunks(indexed: Indexed) -> None:
    note = indexed.put("a.md", "one cat")
    before = indexed.chunks(note)
    assert indexed.put("b/c.md", "one cat", moved_from=note) == note
    assert indexed.chunks(note) == before
    assert indexed.found("cat") == ["b/c.md"]
    assert indexed.found("c.md") == ["b/c.md"]


def test_a_deleted_note_is_not_found(indexed: Indexed) -> None:
    note = indexed.put("a.md", "one cat")
    indexed.put("b.md", "two cats")
    indexed.delete(note)
    assert indexed.found("cat") == ["b.md"]
    with indexed.index.writing() as notes:
        notes.remove_workspace(indexed.workspace)
    assert indexed.found("cat") == []
    with indexed.index.reading() as reader:
        assert (reader.keywords.total, reader.keywords.document_frequency("cat")) == (0, 0)
        assert [*reader.keywords.vocabulary(1, 100)] == []


def test_a_transaction_that_fails_leaves_nothing(indexed: Indexed) -> None:
    file = SourceFile("a.md", 0, 0, 0, "", "r")
    note = Note("", None, (), (), (), {}, (Chunk("cat", 1, 1),))
    with suppress(ZeroDivisionError), indexed.index.writing() as notes:
        notes.put(indexed.workspace, file, note)
        raise ZeroDivisionError
    assert indexed.found("cat") == []


def test_a_reader_sees_one_state(indexed: Indexed) -> None:
    indexed.put("a.md", "one cat")
    with indexed.index.reading() as reader:
        assert reader.keywords.total == 1
        indexed.put("b.md", "two cats")
        assert [match.score for match in reader.keywords.search(parse("cat").query, 9)][1:] == []


def test_nul_bytes_and_very_long_words_are_indexed(indexed: Indexed) -> None:
    note = indexed.put("a.md", "nul\0byte " + "x" * 5000, meta={"title": "a\0"}, tags=["t"])
    assert indexed.found("x" * 5000) == ["a.md"]
    indexed.delete(note)
    assert indexed.found("x" * 5000) == []


# -- filters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("cat", {"memory/2026-01-31.md", "Projects/Zoo.md", "a[1].md"}),
        ("cat path:memory", {"memory/2026-01-31.md"}),
        ("cat path:zoo", {"Projects/Zoo.md"}),
        ("cat path:projects/*.md", {"Projects/Zoo.md"}),
        ("cat path:p?ojects/**", {"Projects/Zoo.md"}),
        ("cat path:[a-m]*", {"memory/2026-01-31.md", "a[1].md"}),
        ("cat path:[^a-m]*", {"Projects/Zoo.md"}),
        ("cat path:*.txt", set()),
        ("cat -path:memory", {"Projects/Zoo.md", "a[1].md"}),
        ("cat tag:animals", {"Projects/Zoo.md"}),
        ("cat tag:animals/wild", {"Projects/Zoo.md"}),
        ("cat tag:anim", set()),
        ("cat -tag:animals", {"memory/2026-01-31.md", "a[1].md"}),
        ("cat after:2026-01-31", {"memory/2026-01-31.md"}),
        ("cat before:2026-01-31", {"Projects/Zoo.md"}),
    ],
)
def test_filters_are_inside_the_query(filtered: Indexed, query: str, expected: set[str]) -> None:
    assert {*filtered.found(query)} == expected
    parsed = parse(query).query
    with filtered.index.reading() as reader:
        space = reader.spaces.live()
        assert space is not None
        near = filtered.nearest(space, [1, 0, 0], parsed)
        assert {hit.path for hit in reader.chunks.hits([(key, 0.0) for key in near])} == expected
        if parsed.filters.selects_content:
            listed = reader.chunks.list_filtered(parsed.filters, 10)
            assert {
                hit.path for hit in reader.chunks.hits([(key, 0.0) for key in listed])
            } == expected
        every = filtered.nearest(space, [1, 0, 0])
        assert reader.chunks.has_allowed(parsed.filters, every) == bool(expected)


def test_filters_of_a_caller(indexed: Indexed) -> None:
    for path in ("a.md", "b.md"):
        indexed.put(path, "a cat")
    assert indexed.found("cat", Filters(exact_paths=frozenset({"b.md"}))) == ["b.md"]
    assert indexed.found("cat", Filters(workspaces=())) == []
    assert indexed.found("cat", Filters(workspaces=(indexed.workspace,))) == ["a.md", "b.md"]


# -- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("running", ["run.md"]),
        ("Äpfel", ["apfel.md"]),
        ("会议", ["zh.md"]),
        ("议", ["zh.md"]),
        ("ภาษาไทย", ["th.md"]),
        ("bm25RankToScore", ["code.md"]),
        ("rank", ["code.md"]),
        ("ERR_NGX_502", ["error.md"]),
        ("err_ng", ["error.md"]),
        ("conf*", ["config.md"]),
        ('"blue fox"', ["fox.md"]),
        ('"fox blue"', []),
        ("blue AND fox", ["fox.md", "other.md"]),
        ("blue AND fox -lazy", ["fox.md"]),
        ("blue NOT fox", ["config.md"]),
        ("(lazy OR ngx) AND blue", ["other.md"]),
        ("lazy OR (blue AND quick)", ["fox.md", "other.md"]),
        ("heading title", ["config.md"]),
        ("nothing at all", []),
    ],
)
def test_words_are_found_as_people_write_them(
    words: Indexed, query: str, expected: list[str]
) -> None:
    found = words.found(query)
    assert {*found} == {*expected}
    assert found[:1] == expected[:1]


def test_required_and_excluded_words_apply_to_vector_search(indexed: Indexed) -> None:
    space = indexed.embedded()
    note = indexed.put("a.md", "blue fox", "blue dog", "red fox")
    fox, dog, red = indexed.chunks(note)
    indexed.index.put_vectors(space, [(chunk, rows([1, 0, 0])) for chunk in (fox, dog, red)])
    assert indexed.nearest(space, [1, 0, 0], parse("blue AND fox").query) == [fox]
    assert indexed.nearest(space, [1, 0, 0], parse("x -blue").query) == [red]
    with indexed.index.reading() as reader:
        assert reader.keywords.has_matching(parse('"blue dog"').query, [dog])
        assert not reader.keywords.has_matching(parse('"blue dog"').query, [fox, red])


def test_the_vocabulary_maps_tokens_to_surface_forms(indexed: Indexed) -> None:
    indexed.put("a.md", "Reproducibility matters")
    with indexed.index.reading() as reader:
        ((token, _),) = reader.keywords.tokens("reproducibility")
        assert reader.keywords.document_frequency(token) == 1
        assert token in [*reader.keywords.vocabulary(len(token), len(token))]
        assert (
            reader.keywords.surface_form(token, "Reproducability", Filters()) == "Reproducibility"
        )
        assert (
            reader.keywords.surface_form(token, "x", Filters(exact_paths=frozenset({"b.md"})))
            is None
        )


# -- meaning ---------------------------------------------------------------------------------------


def test_a_chunk_with_very_many_near_windows_leaves_room_for_others(indexed: Indexed) -> None:
    space = indexed.embedded()
    long, *others = indexed.chunks(indexed.put("a.md", *(f"part {n}" for n in range(15))))
    near, less_near = rows(*[[1.0, 0, 0]] * 200), rows([0.6, 0.8, 0])
    indexed.index.put_vectors(space, [(long, near), *((other, less_near) for other in others)])
    assert indexed.nearest(space, [1, 0, 0]) == [long, *others[:9]]


def test_the_nearest_chunk_is_that_of_the_best_window(indexed: Indexed) -> None:
    space = indexed.embedded()
    one, two, nothing = indexed.chunks(indexed.put("a.md", "one", "two", "three"))
    indexed.index.put_vectors(
        space,
        [
            (one, rows([0, 1, 0])),
            (two, rows([0, 0, 1], [0.6, 0.8, 0])),
            (nothing, rows()[:0].reshape(0, 3)),
        ],
    )
    assert indexed.nearest(space, [1, 0, 0]) == [two, one]
    with indexed.index.reading() as reader:
        query = np.array([1, 0, 0], dtype=np.float32)
        assert reader.vectors.cosines(space, query, [one, two, nothing]) == pytest.approx(
            {one: 0, two: 0.6}, abs=0.002
        )
        first = reader.vectors.first_windows(space, [one, two, nothing])
        np.testing.assert_allclose([first[one], first[two]], [[0, 1, 0], [0, 0, 1]], atol=0.003)
        windows = reader.vectors.windows(space, [one, two, nothing])
        assert {key: matrix.tolist() for key, matrix in windows.items()} == {
            one: round_vectors(rows([0, 1, 0])).tolist(),
            two: round_vectors(rows([0, 0, 1], [0.6, 0.8, 0])).tolist(),
            nothing: [],
        }
        assert reader.spaces.coverage(space) == (3, 3)
        assert len(reader.vectors.sample(space, 10)) == 3
        spots = reader.listing.sample_with_vectors(["/notes"], space, 1)
        assert [spot.start_line for spot, _ in spots] == [1, 2]


def test_a_passage_is_embedded_below_its_title_and_headings_and_a_turn_alone(
    indexed: Indexed,
) -> None:
    turn = {"title": "codex in boats, 2026-05-08", "tool": "codex", "session": "s1"}
    texts = "## 10:03 user\n\nWhere is ## the boat?\n\n", "In the harbour.\n\n## Not a turn"
    indexed.put("turn.md", *texts, heading=["10:03 user"], meta=turn)
    for number, title in enumerate(("Boats", 2026, True, None, ["a", "ä"])):
        indexed.put(f"{number}.md", "It is blue.", heading=["Colour"], meta={"title": title})
    indexed.put("tool.md", "It is red.", heading=["Colour"], meta={"tool": "brush"})
    space = indexed.embedded()
    with indexed.index.writing_spaces() as spaces:
        waiting = spaces.waiting(space, 99)
    assert {item.text for item in waiting} == {
        "Where is ## the boat?",
        "In the harbour.\n\n## Not a turn",
        "Boats\nColour\nIt is blue.",
        "2026\nColour\nIt is blue.",
        "1\nColour\nIt is blue.",
        "Colour\nIt is blue.",
        '["a","ä"]\nColour\nIt is blue.',
        "Colour\nIt is red.",
    }


def test_a_vector_of_another_length_or_size_is_refused(indexed: Indexed) -> None:
    space = indexed.embedded()
    (chunk,) = indexed.chunks(indexed.put("a.md", "one"))
    for wrong in (rows([1, 0]), rows([2, 0, 0]), rows([float("nan"), 0, 0])):
        with pytest.raises(ValueError, match="vector"):
            indexed.index.put_vectors(space, [(chunk, wrong)])


def test_another_model_fills_its_space_while_the_old_one_answers(indexed: Indexed) -> None:
    (chunk,) = indexed.chunks(indexed.put("a.md", "one"))
    old = indexed.embedded("old")
    indexed.index.put_vectors(old, [(chunk, rows([1, 0, 0]))])
    new = indexed.embedded("new", 2)
    assert (old.state, new.state) == ("live", "filling")
    with indexed.index.writing_spaces() as spaces:
        assert [item.text for item in spaces.waiting(new, 9)] == ["one"]
        live = spaces.live()
        assert live is not None
        assert live.fingerprint == "old"
    indexed.index.put_vectors(new, [(chunk, rows([0, 1]))])
    with indexed.index.writing_spaces() as spaces:
        assert spaces.count_waiting(new) == 0
        spaces.mark_complete(new, 0.1, 0.2)
        spaces.set_baseline(new, 0.3, 0.4)
        spaces.go_live(new, "2026-01-02")
        spaces.pin(new, "chain")
    with indexed.index.reading() as reader:
        live, before = reader.spaces.all()
        assert (live.fingerprint, live.state, live.pinned) == ("new", "live", "chain")
        assert (live.random_mean, live.unrelated_deviation) == (0.1, 0.4)
        assert (before.fingerprint, before.state, before.retired_at) == (
            "old",
            "retired",
            "2026-01-02",
        )
    indexed.index.drop_space(before)
    with indexed.index.reading() as reader:
        assert [space.fingerprint for space in reader.spaces.all()] == ["new"]
    assert indexed.nearest(live, [0, 1]) == [chunk]


def test_rechunked_text_borrows_vectors_until_it_has_its_own(
    indexed: Indexed,
) -> None:
    space = indexed.embedded()
    (old,) = indexed.chunks(indexed.put("a.md", "one two", hash="same"))
    indexed.index.put_vectors(space, [(old, rows([1, 0, 0]))])
    (new,) = indexed.chunks(indexed.put("a.md", "one two three", hash="same"))
    assert new != old
    assert indexed.nearest(space, [1, 0, 0]) == [new]
    with indexed.index.reading() as reader:
        assert reader.spaces.count_waiting(space) == 1
    indexed.index.put_vectors(space, [(new, rows([0, 1, 0])), (old, rows([0, 0, 1]))])
    with indexed.index.reading() as reader:
        assert reader.spaces.count_waiting(space) == 0
        assert reader.vectors.cosines(space, rows([0, 1, 0])[0], [new, old]) == pytest.approx(
            {new: 1.0}, abs=0.002
        )


def test_the_vector_cache_keeps_returns_and_forgets(stores: Stores) -> None:
    from memwell.files import digest_of

    cache = stores.index.cache(10**6)
    one, two = round_vectors(rows([0.6, 0.8], [1, 0])), round_vectors(rows([0, 1]))
    cache.put("model", [("one", one), ("two", two)])
    found = cache.get("model", 2, ["one", "two", "three"])
    assert {text: vectors.tolist() for text, vectors in found.items()} == {
        "one": one.tolist(),
        "two": two.tolist(),
    }
    assert cache.get("other", 2, ["one"]) == {}
    assert cache.forget([digest_of("one")])
    assert [*cache.get("model", 2, ["one", "two"])] == ["two"]
    cache.trim()
    cache.close()


def test_the_cooldown_of_a_failing_provider_grows(stores: Stores) -> None:
    with stores.index.writing_cooldowns() as rests:
        rests.record_failure("p", "down", 100.0)
        rests.record_failure("p", "down again", 100.0, unavailable=True)
    with stores.index.reading() as reader:
        rest = reader.cooldowns.get("p")
        assert rest is not None
        assert (rest.until, rest.failures, bool(rest.unavailable), rest.reason) == (
            160.0,
            2,
            True,
            "down again",
        )
    with stores.index.writing_cooldowns() as rests:
        rests.clear("p")
        assert rests.get("p") is None


def test_a_leased_chunk_is_not_given_to_another_process(indexed: Indexed) -> None:
    space = indexed.embedded()
    indexed.put("old.md", "one", "two")
    indexed.put("new.md", "three")
    with indexed.index.leasing() as first, indexed.index.leasing() as second:
        assert first is not None
        assert [item.text for item in first(space, 2)] == ["three", "one"]
        if second is not None:  # a store that hands chunks out to several
            assert [item.text for item in second(space, 2)] == ["two"]
            assert first(space, 2) == second(space, 2) == []
    with indexed.index.leasing() as again:
        assert again is not None
        (three, one, two) = again(space, 9)
        indexed.index.put_vectors(space, [(three.chunk_id, rows([1, 0, 0]))])
    with indexed.index.leasing() as last:
        assert last is not None
        assert last(space, 9) == [one, two]


def test_a_hit_names_the_position_in_a_converted_document(indexed: Indexed) -> None:
    note = indexed.put(
        "a.pdf", "one", "two", "three", meta={POSITIONS: [(1, "page=1"), (3, "page=2")]}
    )
    forged = indexed.put("b.md", "four", meta={POSITIONS: "nonsense"})
    plain = indexed.put("c.md", "five", meta={"title": "x"})
    ids = [key for one in (note, forged, plain) for key in indexed.chunks(one)]
    with indexed.index.reading() as reader:
        hits = reader.chunks.hits([(key, 0.5) for key in ids])
        assert [hit.position for hit in hits] == ["page=1", "page=1", "page=2", "", ""]


def test_notes_are_listed_with_their_names_and_links(indexed: Indexed) -> None:
    indexed.put("a.md", "x", title="A", aliases=("Ay",), tags=("Fleet",), links=("b", "C c"))
    indexed.put("b.md", "x", title="B")
    with indexed.index.reading() as reader:
        found = reader.listing.linked_notes(["/notes"])
        assert reader.listing.linked_notes(["/other"]) == []
    assert sorted(found, key=lambda note: note.path) == [
        LinkedNote("a.md", "/notes", ("A", "Ay"), ("C c", "b")),
        LinkedNote("b.md", "/notes", ("B",), ()),
    ]


def test_the_list_of_workspaces(stores: Stores) -> None:
    registry = stores.registry
    assert registry.list_all() == []
    registry.put(Workspace("/a/b", include=("x.md", "y.md")))
    registry.put(Workspace("/a", conventional=True))
    registry.put(Workspace("/a/b", include=("z.md",)))
    assert registry.list_all() == [
        Workspace("/a", conventional=True),
        Workspace("/a/b", include=("z.md",)),
    ]
    assert find_innermost(registry.list_all(), Path("/a/b/c")) == Workspace(
        "/a/b", include=("z.md",)
    )
    registry.remove("/a/b")
    assert find_innermost(registry.list_all(), Path("/a/b/c")) == Workspace("/a", conventional=True)


# -- facts -----------------------------------------------------------------------------------------


def keeper(stores: Stores, viewer: Viewer = ANNA, now: dt.datetime = NOW) -> FactService:
    return FactService(stores.facts, viewer, now)


def test_facts_are_added_reinforced_superseded_and_remember_their_history(stores: Stores) -> None:
    kept = keeper(stores)
    old = kept.remember(NewFact("Standup is at 14:15.", tags=("Team",), confidence=0.6)).fact
    assert kept.remember(NewFact(" STANDUP is at 14:15 ")).outcome == "reinforced"
    done = keeper(stores, now=NOW + dt.timedelta(days=1)).supersede(
        old.id, NewFact("Standup is at 9.")
    )
    assert [fact.text for fact in kept.find(FactFilter())] == ["Standup is at 9."]
    assert kept.get(old.id).superseded_by == done.fact.id
    assert [event.what for event in kept.history(done.fact.id)] == [
        "added",
        "reinforced",
        "added",
        "superseded",
    ]
    assert [fact.id for fact in kept.find(FactFilter(as_of="2026-02-10T13:00"))] == [old.id]
    assert [fact.id for fact in kept.find(FactFilter(tag="team", superseded=True))] == [old.id]


def test_nobody_sees_a_fact_of_another_scope(stores: Stores) -> None:
    anna, ben = keeper(stores), keeper(stores, BEN)
    hers = anna.remember(NewFact("The code is 17.", scope="user")).fact
    everyones = anna.remember(NewFact("The sky is blue.", scope="global")).fact
    assert [fact.id for fact in ben.find(FactFilter())] == [everyones.id]
    for verb in (ben.get, ben.history, lambda key: ben.forget([key])):
        with pytest.raises(NotFoundError):
            verb(hers.id)
    assert ben.remember(NewFact("The code is 17.", scope="user")).outcome == "added"
    anna.promote(hers.id, "global")
    assert {fact.id for fact in ben.find(FactFilter(scope="global"))} == {hers.id, everyones.id}
    assert [event.what for event in ben.history(hers.id)] == ["added", "promoted"]


def test_facts_expire_and_are_pruned_and_the_index_syncs(stores: Stores) -> None:
    kept = keeper(stores)
    brief = kept.remember(NewFact("The door is open.", decay_class="session")).fact
    lasting = kept.remember(NewFact("The door is green.", scope="global")).fact
    at = NOW.isoformat(timespec="milliseconds")
    sync_facts(stores.index, stores.facts, ANNA, at)
    indexed = Indexed(stores)
    assert {*indexed.found("door")} == {brief.id, lasting.id}
    sync_facts(stores.index, stores.facts, ANNA, LATER)
    assert indexed.found("door") == [lasting.id]
    assert keeper(stores, now=dt.datetime.fromisoformat(LATER)).prune() == 1
    new = kept.supersede(lasting.id, NewFact("The door is red.")).fact
    sync_facts(stores.index, stores.facts, ANNA, at)
    with stores.index.reading() as reader:
        known = reader.notes.fact_workspaces()
        assert scope_workspace("global", "") in known
        former = known[scope_workspace("global", "", superseded=True)]
    now = [key for root, key in known.items() if key != former]
    assert indexed.found("door", Filters(workspaces=tuple(now))) == [new.id]
    assert indexed.found("door", Filters(workspaces=(former,))) == [lasting.id]
    held = Filters(valid_at="2026-02-10T11:00:00.000+00:00")
    assert indexed.found("door", held) == []


def test_a_forgotten_fact_is_gone_from_facts_index_and_cache(stores: Stores) -> None:
    kept = keeper(stores)
    fact = kept.remember(NewFact("The zebrafinch sings.", scope="global")).fact
    sync_facts(stores.index, stores.facts, ANNA, LATER)
    indexed = Indexed(stores)
    cache = stores.index.cache(10**6)
    cache.put("model", [(fact.text, rows([1, 0]))])
    assert indexed.found("zebrafinch") == [fact.id]
    done = forget([fact.id], kept)
    assert (done.count, done.pending) == (1, False)
    assert indexed.found("zebrafinch") == []
    assert cache.get("model", 2, [fact.text]) == {}
    assert stores.facts.pending_erasures() == {}
    with pytest.raises(NotFoundError):
        kept.get(fact.id)
    cache.close()


def test_export_and_import_give_the_same_lines(stores: Stores, home: Path) -> None:
    kept = keeper(stores)
    old = kept.remember(NewFact("One.  Two.  Three.", tags=("a", "b"), scope="global")).fact
    kept.supersede(old.id, NewFact("Three is more."))
    kept.remember(NewFact("This is mine alone.", scope="session"))
    written = to_jsonl(export_facts(kept)).encode()
    other = open_sqlite(home / "other", "main")
    assert import_jsonl(written, FactService(other.facts, ANNA, NOW)).added == 3
    assert to_jsonl(export_facts(FactService(other.facts, ANNA, NOW))).encode() == written
    assert import_jsonl(written, kept).unchanged == 3
    kept.forget([old.id])
    assert import_jsonl(written, kept).added == 1
    assert to_jsonl(export_facts(kept)).encode() == written
    hidden = written.replace(b'"session"', b'"user"').replace(b'"s1@anna"', b'"ben"')
    assert len(import_jsonl(hidden, keeper(stores, Viewer("ben", "main"))).refused) == 1
    other.facts.close()


def test_invalid_input_is_reported(stores: Stores) -> None:
    with pytest.raises(MemwellError, match="'nobody' is not a scope"):
        keeper(stores).remember(NewFact("A thing is here.", scope="nobody"))
