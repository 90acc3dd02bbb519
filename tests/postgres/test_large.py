"""The indexes of large agents on a server find the same as comparing all vectors and postings."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memwell.errors import IndexDatabaseError
from memwell.model import Chunk, Note, Viewer
from memwell.search.parse import parse
from memwell.store.contract.index import Index
from memwell.store.contract.quantisation import round_vectors
from memwell.store.contract.query import Filters, WordQuery
from memwell.store.contract.values import SourceFile, Space
from memwell.store.factory import open_postgres, open_sqlite
from memwell.store.postgres import agent_indexes, bm25, keywords, textsearch
from memwell.store.postgres.build_indexes import BuildReport
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.reader import PostgresReader
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import Values
from memwell.store.postgres.textsearch import find_candidates
from memwell.store.words import ranking
from tests.contract.test_stores import Indexed
from tests.support.cli import run, run_json
from tests.support.postgres import (
    app_url,
    build_agent_indexes,
    new_database,
    new_tenant,
    server,
    shared,
)

PASSAGES = 4_000
PER_NOTE = 20
DIMENSIONS = 32
RARE = Filters(paths=("rare/**",))
"""One passage in two hundred."""


def clustered(count: int, dimensions: int, seed: int) -> Any:
    """Vectors of unit length around some centres, like those of texts, as the stores keep them."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(50, dimensions))
    found = centres[chance.integers(50, size=count)] + chance.normal(size=(count, dimensions))
    return round_vectors((found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32))


@dataclass(frozen=True)
class Large:
    """An agent with many passages, its vectors in the order of its chunks."""

    tenant: str
    indexed: Indexed
    index: Index
    chunks: list[int]
    vectors: Any

    def space(self) -> Space:
        with self.index.reading() as reader:
            live = reader.spaces.live()
        assert live
        return live

    def nearest(self, query: Any, filters: Filters, limit: int = 10) -> list[int]:
        with self.index.reading() as reader:
            found = reader.vectors.nearest(self.space(), query, WordQuery(filters=filters), limit)
        return [match.chunk_id for match in found]

    def truly_nearest(self, query: Any, among: Sequence[int], limit: int = 10) -> list[int]:
        best = sorted(among, key=lambda number: -float(self.vectors[number] @ query))
        return [self.chunks[number] for number in best[:limit]]


@contextmanager
def opened(folder: Path, tenant: str) -> Iterator[Indexed]:
    stores = open_postgres(app_url(), tenant, folder, "main")
    try:
        yield Indexed(stores)
    finally:
        stores.index.close()
        stores.facts.close()


def filled(indexed: Indexed, tenant: str, passages: int = PASSAGES, seed: int = 1) -> Large:
    """Write notes, one in two hundred under rare/, each passage with a vector."""
    chunks: list[int] = []
    with indexed.index.writing() as notes:
        for number in range(passages // PER_NOTE):
            path = f"{'rare' if number % 200 == 7 else 'usual'}/{number}.md"
            texts = tuple(Chunk(f"p{number} {line}", line, line) for line in range(PER_NOTE))
            note = Note("", None, (), (), (), {}, texts)
            key, _ = notes.put(indexed.workspace, SourceFile(path, 1, 1, 1, path, "r"), note)
            chunks += notes.chunk_ids(key)
    vectors = clustered(len(chunks), DIMENSIONS, seed)
    pairs = zip(chunks, vectors.reshape(-1, 1, DIMENSIONS), strict=True)
    indexed.index.put_vectors(indexed.embedded(dimensions=DIMENSIONS), pairs)
    shared().execute("ANALYZE memwell.vectors, memwell.chunks, memwell.notes")
    return Large(tenant, indexed, indexed.index, chunks, vectors)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    """An agent with its own index, searched by the role with the fewest rights."""
    tenant = new_tenant()
    with opened(tmp_path_factory.mktemp("large"), tenant) as indexed:
        made = filled(indexed, tenant)
        meaning, words = build_agent_indexes(tenant).built
        assert (meaning.agent, meaning.passages, words.passages) == ("main", PASSAGES, PASSAGES)
        yield made


@contextmanager
def forced(large: Large) -> Iterator[Session]:
    """A reader whose planner can only use the agent's own index."""
    with server(app_url(), large.tenant) as app, app.reading("main") as session:
        session.connection.execute("SET LOCAL enable_sort = off")
        yield session


def scans(session: Session, name: str) -> int:
    """How often an index was searched in this transaction."""
    asked = "SELECT pg_stat_get_xact_numscans(to_regclass(%(name)s)) WHERE %(tenant)s != ''"
    return int(session.value(asked, name=f"memwell.{name}"))


# -- meaning ---------------------------------------------------------------------------------------


def test_an_agent_index_finds_the_same_as_comparing_all_vectors(large: Large) -> None:
    everywhere = range(len(large.chunks))
    same = 0
    for query in clustered(20, DIMENSIONS, seed=2):
        found = large.nearest(query, Filters())
        same += len({*found} & {*large.truly_nearest(query, everywhere)})
    assert same >= 0.95 * 20 * 10


def test_scores_come_from_full_vectors_though_the_index_is_used(large: Large) -> None:
    space, query = large.space(), clustered(1, DIMENSIONS, seed=3)[0]
    with forced(large) as session:
        found = PostgresReader(session).vectors.nearest(space, query, WordQuery(), 10)
        assert scans(session, space.location) == 1
    for match in found:
        exact = float(large.vectors[large.chunks.index(match.chunk_id)] @ query)
        assert match.score == pytest.approx(exact, abs=1e-6)


def test_a_filter_that_keeps_one_in_two_hundred_still_gives_ten_of_ten(large: Large) -> None:
    rare = [n for n in range(PASSAGES) if n // PER_NOTE % 200 == 7]
    for query in clustered(5, DIMENSIONS, seed=4):
        truly = large.truly_nearest(query, rare)
        assert large.nearest(query, RARE) == truly
        with forced(large) as session:
            rare_only = WordQuery(filters=RARE)
            found = PostgresReader(session).vectors.nearest(large.space(), query, rare_only, 5)
            assert [match.chunk_id for match in found] == truly[:5]
            assert scans(session, large.space().location) == 1


def test_without_iterative_scans_most_filtered_hits_would_be_lost(large: Large) -> None:
    space, query = large.space(), clustered(1, DIMENSIONS, seed=4)[0]
    with forced(large) as session:
        session.connection.execute("SET LOCAL hnsw.iterative_scan = off")
        values = Values(space=space.id, query=str(query.tolist()))
        rows = session.rows_inlined(
            f"""
            SELECT v.chunk_id FROM vectors v
            JOIN chunks c ON c.tenant = v.tenant AND c.agent = v.agent AND c.id = v.chunk_id
            JOIN notes n ON n.tenant = c.tenant AND n.agent = c.agent AND n.id = c.note_id
            WHERE v.tenant = %(tenant)s AND v.agent = %(agent)s AND v.space_id = %(space)s
                AND v.vector IS NOT NULL {filter_sql(RARE, values)}
            ORDER BY {agent_indexes.as_half_precision("v.vector", DIMENSIONS)}
                <#> {agent_indexes.as_half_precision("%(query)s", DIMENSIONS)} LIMIT 10
            """,
            **values,
        )
    assert len(rows) <= 5


def test_deleted_and_new_passages_are_visible_immediately(large: Large) -> None:
    space, query = large.space(), clustered(1, DIMENSIONS, seed=5)[0]
    note = large.indexed.put("new.md", "something new")
    (chunk,) = large.indexed.chunks(note)
    large.index.put_vectors(space, [(chunk, query.reshape(1, -1))])
    assert large.nearest(query, Filters())[0] == chunk
    large.indexed.delete(note)
    assert chunk not in large.nearest(query, Filters())


def test_chunks_of_many_windows_count_once(tmp_path: Path) -> None:
    tenant = new_tenant()
    with opened(tmp_path, tenant) as indexed:
        made = filled(indexed, tenant, 200)
        space = indexed.embedded("other", DIMENSIONS)
        windows = np.repeat(made.vectors, 6, axis=0).reshape(200, 6, DIMENSIONS)
        made.index.put_vectors(space, zip(made.chunks, windows, strict=True))
        build_agent_indexes(tenant)
        with made.index.writing_spaces() as spaces:
            spaces.go_live(space, "2026-01-02")
        query = made.vectors[3]
        for limit in (1, 50, 200):
            found = made.nearest(query, Filters(), limit)
            assert {*found} == {*made.truly_nearest(query, range(200), limit)}


def test_each_of_two_spaces_has_an_index(tmp_path: Path) -> None:
    tenant = new_tenant()
    with opened(tmp_path, tenant) as indexed:
        made = filled(indexed, tenant, 400)
        other = indexed.embedded("other", 8)
        vectors = clustered(400, 8, seed=9)
        pairs = zip(made.chunks, vectors.reshape(-1, 1, 8), strict=True)
        made.index.put_vectors(other, pairs)
        assert len(build_agent_indexes(tenant).built) == 3
        with made.index.reading() as reader:
            first, second = reader.spaces.all()
            assert first.location != second.location
        assert made.nearest(made.vectors[17], Filters())[0] == made.chunks[17]
        with made.index.writing_spaces() as spaces:
            spaces.go_live(second, "2026-01-02")
        assert made.nearest(vectors[21], Filters())[0] == made.chunks[21]
        made.index.drop_space(first)
        assert build_agent_indexes(tenant).removed == [first.location]
        assert build_agent_indexes(tenant) == BuildReport()


def test_an_agent_index_never_returns_rows_of_another_tenant_or_user(tmp_path: Path) -> None:
    tenants = [new_tenant(), new_tenant()]
    while len({*map(partition, tenants)}) > 1:
        tenants[1] = new_tenant()
    with opened(tmp_path, tenants[0]) as indexed, opened(tmp_path, tenants[1]) as others:
        made, theirs = filled(indexed, tenants[0], 200), filled(others, tenants[1], 200)
        space, query = made.space(), made.vectors[0]
        with made.index.writing() as notes:
            indexed.workspace = notes.workspace("facts:user:anna")
        (secret,) = indexed.chunks(indexed.put("secret", "of anna"))
        made.index.put_vectors(space, [(secret, query.reshape(1, -1))])
        for tenant in tenants:
            build_agent_indexes(tenant)
        seen = {
            name: replace(made, index=made.index.for_viewer(Viewer(name, "main")))
            for name in ("anna", "ben")
        }
        assert secret in seen["anna"].nearest(query, Filters())
        everything = seen["ben"].nearest(query, Filters(), 90)
        assert {*everything} <= {*made.chunks}
        assert {*theirs.nearest(query, Filters(), 90)} <= {*theirs.chunks}


def partition(tenant: str) -> int:
    """The partition that has a tenant's rows."""
    asked = "SELECT satisfies_hash_partition('memwell.vectors'::regclass, 8, {}, '{}'::text)"
    app_url()  # which makes the tables
    return next(n for n in range(8) if shared().execute(asked.format(n, tenant))[0][0])


# -- words -----------------------------------------------------------------------------------------

COMMON = 400
ASKED = [
    "common words",
    "common words zebra",
    "common Äpfel",
    "下午的会议 common",
    "common 4711",
    f"common {'k' * 5000}",
    "common bm25RankToScore",
    'common "blue fox"',
    "common zeb*",
    "common words -zebra",
    "zebra AND common",
    "common path:usual",
    "common path:rare",
    "nowhere",
]


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as if the agent were a hundred times larger: no word is so rare that all its postings are read."""
    monkeypatch.setattr(ranking, "_SELECT_ROWS", 0)
    for module in (textsearch, keywords):  # and only blocks of candidates are read
        monkeypatch.setattr(module, "MANY_POSTINGS", 0)


def with_words(indexed: Indexed) -> Indexed:
    """Write passages of which most are similar."""
    lines = [f"common words are in {'some of ' * (n % 7)}them, even {n}" for n in range(COMMON)]
    indexed.put("usual/many.md", *lines)
    indexed.put("usual/others.md", *(f"something else, {n} times" for n in range(COMMON, 1000)))
    indexed.put("rare/fox.md", "a common quick blue fox", "a zebra, blue and common")
    indexed.put("rare/apfel.md", "Die Apfel sind common.", "common: 4711", f"common {'k' * 5000}")
    indexed.put("rare/zh.md", "下午的会议改到三点 common", heading=["会议"])
    indexed.put("usual/code.md", "Call `bm25RankToScore`, which is common.")
    return indexed


@pytest.fixture
def with_index(tmp_path: Path) -> Iterator[Indexed]:
    """An agent with its own text index."""
    tenant = new_tenant()
    with opened(tmp_path, tenant) as indexed:
        with_words(indexed)
        assert [built.what for built in build_agent_indexes(tenant).built] == ["words (bm25)"]
        yield indexed


Scored = tuple[str, int, float]
"""A passage by its path and first line, and its score."""


def scored(indexed: Indexed, asked: str) -> list[Scored]:
    """The best passages for words, each with its score."""
    with indexed.index.reading() as reader:
        found = [
            (match.chunk_id, match.score)
            for match in reader.keywords.search(parse(asked).query, 10)
        ]
        return [(hit.path, hit.start_line, hit.score) for hit in reader.chunks.hits(found)]


def assert_same(found: Sequence[Scored], expected: Sequence[Scored]) -> None:
    """The same passages in the same order, with the same scores but for rounding."""
    assert [place for *place, _ in found] == [place for *place, _ in expected]
    assert [score for *_, score in found] == pytest.approx([score for *_, score in expected])


def chosen(index: Index, asked: str) -> list[int]:
    """The candidates that the text index returns; empty if the search does not use it."""
    given: list[list[int]] = []

    def noted(*arguments: Any) -> list[int]:
        given.append(find_candidates(*arguments))
        return given[-1]

    with pytest.MonkeyPatch.context() as patch, index.reading() as reader:
        patch.setattr(bm25, "find_candidates", noted)
        reader.keywords.search(parse(asked).query, 10)
    return [chunk for some in given for chunk in some]


def test_keyword_scores_are_the_same_as_in_sqlite(
    with_index: Indexed, tmp_path: Path, costly: None
) -> None:
    files = with_words(Indexed(open_sqlite(tmp_path / "files", "main")))
    by_index = [asked for asked in ASKED if chosen(with_index.index, asked)]
    assert {*by_index} >= {*ASKED[:6], "common path:usual"}
    for asked in ASKED:
        assert_same(scored(with_index, asked), scored(files, asked))
    files.index.close()


def test_words_with_few_postings_need_no_index(
    with_index: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_index.put("usual/seldom.md", *(f"it is seldom and common, {n}" for n in range(120)))
    everything = scored(with_index, "seldom common")
    for most_postings, used in ((700, False), (600, True)):
        monkeypatch.setattr(ranking, "_SELECT_ROWS", most_postings)
        monkeypatch.setattr(textsearch, "MANY_POSTINGS", 0)
        assert bool(chosen(with_index.index, "seldom common")) == used
        assert_same(scored(with_index, "seldom common"), everything)


def test_edited_and_deleted_words_are_visible_immediately(
    with_index: Indexed, costly: None
) -> None:
    assert scored(with_index, "common yak") == scored(with_index, "common")
    note = with_index.put("new.md", "a common yak")
    assert chosen(with_index.index, "common yak")
    assert scored(with_index, "common yak")[0][0] == "new.md"
    with_index.put("new.md", "a common gnu")
    assert scored(with_index, "common gnu")[0][0] == "new.md"
    with_index.put("new.md", "a common gnu", title="Okapi")  # the same passage by another name
    assert scored(with_index, "common okapi")[0][0] == "new.md"
    with_index.delete(note)
    for asked in ("common yak", "common gnu", "common okapi"):
        assert "new.md" not in {path for path, *_ in scored(with_index, asked)}
    kept = "SELECT count(*) FROM memwell.chunk_texts s LEFT JOIN memwell.chunks c ON c.tenant = s.tenant"
    assert shared().execute(f"{kept} AND c.id = s.chunk_id WHERE c.id IS NULL") == [(0,)]
    with_index.index.rebuild_keyword_index()
    assert scored(with_index, "common zebra")[0][:2] == ("rare/fox.md", 2)
    shared().execute("VACUUM memwell.chunk_texts")  # unless another test still sees what is gone
    assert scored(with_index, "common zebra")[0][:2] == ("rare/fox.md", 2)


def test_a_deleted_index_is_built_again(costly: None, tmp_path: Path) -> None:
    tenant = new_tenant()
    with opened(tmp_path, tenant) as indexed:
        with_words(indexed)
        build_agent_indexes(tenant)
        indexed.index.delete()
        again = with_words(Indexed(open_postgres(app_url(), tenant, tmp_path, "main")))
        assert chosen(again.index, "common zebra") == []
        assert scored(again, "common zebra")[0][:2] == ("rare/fox.md", 2)
        done = build_agent_indexes(tenant)
        assert (len(done.removed), len(done.built)) == (2, 1)
        assert chosen(again.index, "common zebra")
        again.index.close()


def test_without_pg_textsearch_words_are_looked_up_in_postings(
    tmp_path: Path, costly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    stores = open_postgres(url, "mine", tmp_path, "main")
    indexed = with_words(Indexed(stores))
    assert build_agent_indexes("mine", url) == BuildReport(wordless=["main"])
    monkeypatch.setenv("MEMWELL_STORE_TENANT", "mine")
    done = run("--store", url, "store", "index", "--smallest", "1", cwd=tmp_path)
    assert "main: no index for words, because the database lacks pg_textsearch." in done.stdout
    assert chosen(indexed.index, "common zebra") == []
    assert scored(indexed, "common zebra")[0][:2] == ("rare/fox.md", 2)
    stores.index.close()


def test_words_of_other_tenants_are_not_candidates(with_index: Indexed, costly: None) -> None:
    before = with_index.workspace
    with with_index.index.writing() as notes:
        with_index.workspace = notes.workspace("facts:user:anna")
    (secret,) = with_index.chunks(with_index.put("secret", "a common secret zebra"))
    with_index.workspace = before
    for name, sees in (("anna", True), ("ben", False)):
        seen = with_index.index.for_viewer(Viewer(name, "main"))
        with seen.reading() as reader:
            found = [
                match.chunk_id for match in reader.keywords.search(parse("common zebra").query, 100)
            ]
        assert (secret in found) == sees
        assert len(found) >= 100  # with all that tie with the last


def test_an_interrupted_build_of_a_text_index_is_repeated(tmp_path: Path, costly: None) -> None:
    tenant = new_tenant()
    with opened(tmp_path, tenant) as indexed:
        with_words(indexed)
        with building(tenant) as under_way:
            indexed.put("new.md", "a common yak, written meanwhile")
            shared().execute(f"SELECT pg_terminate_backend({under_way.backend()})")
            under_way.thread.join()
        assert under_way.error
        assert chosen(indexed.index, "common yak") == []
        assert scored(indexed, "common yak")[0][0] == "new.md"
        done = build_agent_indexes(tenant)
        assert (len(done.removed), len(done.built)) == (2, 1)
        assert chosen(indexed.index, "common yak")
        assert scored(indexed, "common yak")[0][0] == "new.md"


# -- building --------------------------------------------------------------------------------------


@dataclass
class Waiting:
    """A build that waits for a transaction, as on a busy server."""

    error: list[IndexDatabaseError]
    thread: threading.Thread

    def backend(self) -> int:
        """The server process that builds, as soon as it has started."""
        while not (found := shared().execute("SELECT pid FROM pg_stat_progress_create_index")):
            assert self.thread.is_alive()
        return int(found[0][0])


@contextmanager
def building(tenant: str) -> Iterator[Waiting]:
    """A build that cannot end before this block: it waits for the reader."""

    def build() -> None:
        try:
            build_agent_indexes(tenant)
        except IndexDatabaseError as error:
            waiting.error.append(error)

    waiting = Waiting([], threading.Thread(target=build))
    with server(shared().url(), tenant) as other:
        with other.reading("main") as session:
            session.run("SELECT 1 FROM chunks WHERE tenant = %(tenant)s")
            waiting.thread.start()
            waiting.backend()
            yield waiting
        waiting.thread.join()


def test_others_write_and_search_while_an_index_is_built(tmp_path: Path) -> None:
    tenant = new_tenant()
    with opened(tmp_path, tenant) as indexed:
        made = filled(indexed, tenant, 200)
        query = -made.vectors[0]
        with building(tenant) as under_way:
            (chunk,) = indexed.chunks(indexed.put("new.md", "written meanwhile"))
            made.index.put_vectors(made.space(), [(chunk, query.reshape(1, -1))])
            assert made.space().location == ""
            assert made.nearest(query, Filters())[0] == chunk
            assert under_way.backend()
            with pytest.raises(IndexDatabaseError, match="Another process"):
                build_agent_indexes(tenant)
        assert under_way.error == []
        assert made.space().location
        assert made.nearest(query, Filters())[0] == chunk


def test_an_interrupted_build_of_a_vector_index_is_repeated(tmp_path: Path) -> None:
    tenant = new_tenant()
    with opened(tmp_path, tenant) as indexed:
        made = filled(indexed, tenant, 200)
        with building(tenant) as under_way:
            shared().execute(f"SELECT pg_terminate_backend({under_way.backend()})")
            under_way.thread.join()
        assert under_way.error
        assert made.space().location == ""
        assert made.nearest(made.vectors[3], Filters())[0] == made.chunks[3]
        done = build_agent_indexes(tenant)
        assert (len(done.removed), len(done.built)) == (1, 2)
        assert made.space().location == done.removed[0]


def test_the_command_builds_indexes_for_large_agents_and_reports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = new_tenant()
    build_agent_indexes(tenant)  # which has pg_textsearch installed
    monkeypatch.setenv("MEMWELL_STORE_TENANT", tenant)
    with opened(tmp_path, tenant) as indexed:
        made = filled(indexed, tenant, 200)
        monkeypatch.setattr(agent_indexes, "SMALLEST", 200)
        (check,) = [check for check in made.index.run_checks() if not check.ok]
        assert check.detail == "200 passages or more have no index for meaning and words"
        assert "memwell store index" in check.remedy
        refused = run("--store", app_url(), "store", "index", cwd=tmp_path)
        assert refused.returncode == 3
        assert "Run it as memwell" in refused.stderr
        command = ("--store", shared().url(), "store", "index")
        small = run(*command, "--smallest", "201", cwd=tmp_path)
        assert small.stdout.startswith("Nothing to build")
        assert run_json(*command, "--smallest", "100", "--agent", "other", cwd=tmp_path) == {
            "built": [],
            "removed": [],
            "wordless": [],
        }
        done = run(*command, "--smallest", "100", cwd=tmp_path)
        meaning, words = done.stdout.splitlines()
        assert meaning.startswith("main: 200 passages, meaning (hnsw) built in ")
        assert words.startswith("main: 200 passages, words (bm25) built in ")
        assert all(check.ok for check in made.index.run_checks())


def test_without_a_server_there_is_nothing_to_build(tmp_path: Path) -> None:
    refused = run("store", "index", cwd=tmp_path)
    assert "store.url is not set" in refused.stderr
