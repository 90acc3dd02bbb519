"""Vectors in LanceDB, in a folder and on S3: found, filtered, forgotten, and never lost.

What holds of every backend is in test_vectors.py, which runs over this one, too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memwell import Memory
from memwell.errors import ConfigError, VectorSearchUnavailable
from memwell.model import Leg
from memwell.store.contract.quantisation import quantise, round_vectors
from memwell.store.contract.query import Filters, WordQuery
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.vectors import lance, lance_tables
from memwell.store.vectors.backend import LANCEDB, BackendSetting
from tests.conftest import REPOSITORY, Write
from tests.support.embedders import Faulty
from tests.support.lance_writer import CHUNKS, ROUNDS, own_vector
from tests.support.s3_server import BUCKET, KEY, SECRET, objects, s3_server
from tests.support.states import index_file
from tests.support.waiting import wait_until
from tests.unit.memory.test_embed_pending import SCRIPT
from tests.unit.store.vectors.test_scan import EVERYTHING, Filled, unit

pytest.importorskip("lancedb")

NOWHERE = "s3://bucket/folder/1-1-a?endpoint=http://127.0.0.1:1"
"""A table on a server that is not there."""


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Filled]:
    made = Filled(tmp_path, backend=BackendSetting(LANCEDB))
    yield made
    made.index.close()


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Faulty:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    monkeypatch.setenv("MEMWELL_VECTORS_BACKEND", "lancedb")
    monkeypatch.setenv("MEMWELL_SEARCH_MIN_SCORE", "0")
    return Faulty()


@pytest.fixture
def memory(provider: Faulty, write: Write, workspace: Path) -> Iterator[Memory]:
    """Two notes, their vectors in LanceDB."""
    write("cats.md", "# Cats\n\nthe cat sleeps all day\n")
    write("dogs.md", "# Dogs\n\nthe dog barks at night\n")
    with Memory(embedders={"mine": lambda: provider}) as made:
        made.index(workspace)
        yield made


def meaning(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query, mode="meaning").hits]


def place_of(home: Path) -> str:
    index = SqliteIndex(index_file(home))
    with index.reading() as reader:
        (space,) = reader.spaces.all()
    index.close()
    return space.location


def count_connections(monkeypatch: pytest.MonkeyPatch) -> list[lance_tables.Root]:
    """Return the list of folders that LanceDB connects to from now on."""
    connections: list[lance_tables.Root] = []
    connect = lance_tables._connect

    def connecting(root: lance_tables.Root) -> object:
        connections.append(root)
        return connect(root)

    monkeypatch.setattr(lance_tables, "_connect", connecting)
    return connections


def put_elsewhere(home: Path, place: str) -> None:
    """Let the ledger say that the vectors are somewhere else."""
    index = SqliteIndex(index_file(home))
    with index.database.writing() as connection:
        connection.execute("UPDATE spaces SET place = ?", (place,))
    index.close()


def files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


# -- a memory over it ------------------------------------------------------------------------------


def test_a_search_finds_the_same_as_with_the_scan(memory: Memory, home: Path) -> None:
    result = memory.search("the cat")
    assert [hit.path for hit in result.hits] == ["cats.md", "dogs.md"]
    assert result.legs == (Leg("words", True), Leg("meaning", True, detail="words (mine)"))
    assert {hit.path for hit in memory.search("the -cat").hits} == {"dogs.md"}
    assert {hit.path for hit in memory.search("the path:dogs", mode="meaning").hits} == {"dogs.md"}
    assert place_of(home).startswith(str(index_file(home).with_name("lance")))


def test_nothing_stops_a_search_while_the_model_changes(
    memory: Memory, workspace: Path, provider: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = Faulty("new", 32)
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "new,mine")
    with Memory(embedders={"mine": lambda: provider, "new": lambda: new}) as changed:
        assert meaning(changed, "cat")[0] == "cats.md"
        changed.fill()
        assert {space.model: space.state for space in changed.spaces()} == {
            "new": "live",
            "words": "retired",
        }
        assert meaning(changed, "cat")[0] == "cats.md"
        changed.drop_space(1)
        assert meaning(changed, "cat")[0] == "cats.md"


def test_a_note_that_is_gone_or_cut_anew_is_answered_for_at_once(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "dogs.md").unlink()
    assert meaning(memory, "dog") == ["cats.md"]
    monkeypatch.setenv("MEMWELL_CHUNK_SIZE", "16")
    monkeypatch.setenv("MEMWELL_CHUNK_OVERLAP", "0")
    memory.index(workspace, embed=False)
    assert meaning(memory, "cat") == ["cats.md"]


@pytest.mark.parametrize("how", ["another backend and back", "another folder"])
def test_vectors_follow_the_settings_and_none_is_made_again(
    how: str,
    memory: Memory,
    provider: Faulty,
    workspace: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened(*settings: str) -> None:
        monkeypatch.setenv("MEMWELL_VECTORS_BACKEND", settings[0])
        monkeypatch.setenv("MEMWELL_VECTORS_LANCE_URI", settings[1])
        with Memory(embedders={"mine": lambda: provider}) as again:
            assert meaning(again, "cat")[0] == "cats.md"  # wherever they are, they are found
            again.index(workspace)
            assert meaning(again, "cat")[0] == "cats.md"

    asked, before = len(provider.texts), place_of(home)
    index_file(home).with_name("embeddings.db").unlink()
    if how == "another folder":
        opened("lancedb", str(tmp_path / "elsewhere"))
        assert place_of(home).startswith(str(tmp_path / "elsewhere"))
    else:
        opened("scan", "")
        assert place_of(home) == ""
        index = SqliteIndex(index_file(home))
        index.compact(provider.fingerprint, even_if_little_changed=True)
        index.close()
        opened("lancedb", "")
        assert not [*home.rglob("vectors-*")]  # the copy that was scanned is gone
    assert not Path(before + ".lance").exists()
    assert len(provider.texts) == asked


def test_a_folder_that_was_deleted_comes_back(
    memory: Memory, provider: Faulty, workspace: Path, home: Path
) -> None:
    shutil.rmtree(index_file(home).with_name("lance"))
    with Memory(embedders={"mine": lambda: provider}) as again:
        assert [hit.path for hit in again.search("cat").hits] == ["cats.md"]
        assert meaning(again, "cat") == []
        again.index(workspace)
        assert meaning(again, "cat")[0] == "cats.md"
    assert len(provider.texts) == 2  # the second time they came from the cache


def test_where_the_server_does_not_answer_words_do(
    memory: Memory,
    provider: Faulty,
    workspace: Path,
    home: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    put_elsewhere(home, NOWHERE)
    connections = count_connections(monkeypatch)
    with Memory(embedders={"mine": lambda: provider}) as cut_off:
        assert [hit.path for hit in cut_off.search("cat").hits] == ["cats.md"]
        query = unit(np.random.default_rng(0), 1, 64)[0]
        with cut_off._index.reading() as reader:
            (space,) = reader.spaces.all()
            assert reader.vectors.nearest(space, query, EVERYTHING, 3) == []
            assert len(connections) == 1, "it is not waited for again"
            assert "127.0.0.1:1" in reader.vectors.problem
            assert "it does not answer" in reader.vectors.problem
        write("birds.md", "# Birds\n\nthe bird sings\n")
        with pytest.raises(VectorSearchUnavailable, match=r"it does not answer.*AWS_ACCESS_KEY_ID"):
            cut_off.index(workspace)
        assert [hit.path for hit in cut_off.search("bird").hits] == ["birds.md"]
        with pytest.raises(VectorSearchUnavailable):
            cut_off._index.scrub()  # what is forgotten stays pending


def test_an_address_that_is_none_is_named(
    provider: Faulty, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("cats.md", "the cat")
    monkeypatch.setenv("MEMWELL_VECTORS_LANCE_URI", "gopher://somewhere")
    with Memory(embedders={"mine": lambda: provider}) as memory:
        with pytest.raises(ConfigError, match=r"gopher://somewhere.*s3://BUCKET/FOLDER"):
            memory.index(workspace)
        assert memory.search("cat").hits


def test_without_the_package_the_remedy_is_said(
    memory: Memory, provider: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(ConfigError, match=r"pip install 'memwell\[lance\]'"):
        Memory()
    monkeypatch.setenv("MEMWELL_VECTORS_BACKEND", "scan")
    with Memory(embedders={"mine": lambda: provider}) as without:
        assert [hit.path for hit in without.search("cat").hits] == ["cats.md"]


@pytest.mark.process
def test_what_was_written_survives_a_kill(
    provider: Faulty, workspace: Path, write: Write, home: Path
) -> None:
    for number in range(60):
        write(f"{number}.md", f"number {number}")
    script = SCRIPT.format(repository=str(REPOSITORY), workspace=str(workspace))
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    with Memory(embedders={"mine": lambda: provider}) as memory:
        wait_until(lambda: sum(space.embedded for space in memory.spaces()) == 30)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert memory.spaces()[0].embedded == 30
        assert memory.fill().embedded == 30
        assert "17.md" in meaning(memory, "17")[:3]  # the embedder for tests mixes numbers up


# -- what is not named, and what was forgotten -----------------------------------------------------


def test_rows_that_the_ledger_does_not_name_are_not_found_and_not_copied(kept: Filled) -> None:
    """As a writer leaves them that was killed between LanceDB and the ledger."""
    note = kept.add(5)
    query = unit(kept.rng, 1)[0]
    tables, place = kept.index.backends.lance.tables, kept.space.location
    tables.add(place, [(key, note, kept.workspace, query.tobytes()) for key in range(50)])
    assert kept.nearest(query, 5) == kept.expected(query, 5)
    kept.index.compact("f", even_if_little_changed=True)
    assert tables.count(kept.space.location) == 5
    assert kept.nearest(query, 5) == kept.expected(query, 5)


def test_what_was_forgotten_is_in_no_file(kept: Filled) -> None:
    gone, _ = kept.add(5), kept.add(5)
    chunk = next(chunk for chunk, note in kept.note_of.items() if note == gone)
    numbers, folder = kept.vectors[chunk][0].tobytes()[:64], kept.index.path.parent
    assert numbers in files(folder)
    kept.remove(gone)
    kept.index.close()
    forgetting = SqliteIndex(kept.index.path)  # knows no settings, as `forget` does not
    assert forgetting.scrub()
    forgetting.close()
    assert numbers not in files(folder)
    query = unit(kept.rng, 1)[0]
    assert kept.nearest(query, 10) == kept.expected(query, 10)


def test_a_fact_that_is_forgotten_and_an_index_that_is_deleted_leave_nothing(
    memory: Memory, provider: Faulty, home: Path
) -> None:
    told = memory.remember("The hamster is called Zebulon Quux.")
    assert meaning(memory, "hamster called Zebulon")[0] == told.fact.id
    (vectors,) = provider.embed_documents([told.fact.text])
    kept, cached = round_vectors(vectors)[0].tobytes(), quantise(vectors)[0].tobytes()
    assert kept in files(home)
    assert cached in files(home)
    assert not memory.forget(told.fact.id).pending
    assert kept not in files(home)
    assert cached not in files(home)
    assert meaning(memory, "cat")[0] == "cats.md"
    assert [*home.rglob("*.lance")]
    memory._index.delete()
    assert not [*home.rglob("*.lance")]


def test_the_text_of_a_deleted_note_is_in_no_file(
    memory: Memory, home: Path, workspace: Path, write: Write
) -> None:
    text = "the hamster zebulon sleeps at noon"
    write("hamsters.md", f"# Hamsters\n\n{text}\n")
    memory.index(workspace)
    assert meaning(memory, text)[0] == "hamsters.md"
    assert text.encode() in files(home)
    (workspace / "hamsters.md").unlink()
    memory.index(workspace)
    memory.close()
    left = files(home)
    assert [word for word in (text, "hamster", "zebulon") if word.encode() in left] == []
    assert meaning(memory, "cat")[0] == "cats.md"


def test_tables_that_nobody_names_are_dropped_when_they_are_old(
    kept: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.add(5)
    tables, (root, name) = (
        kept.index.backends.lance.tables,
        lance_tables.parse_address(kept.space.location),
    )
    tables.create(root.place("7-1000000000-old"), 3)
    young = root.place(f"7-{int(time.time())}-young")
    tables.create(young, 3)
    kept.index.compact("f")
    assert {*tables.names(root)} == {name, lance_tables.parse_address(young)[1]}


def test_a_search_that_began_before_a_compaction_is_answered(kept: Filled) -> None:
    kept.add(20)
    query = unit(kept.rng, 1)[0]
    with kept.index.reading() as reader:
        (space,) = reader.spaces.all()
        kept.index.compact("f", even_if_little_changed=True)
        found = reader.vectors.nearest(space, query, EVERYTHING, 5)
    assert [match.chunk_id for match in found] == kept.expected(query, 5)


# -- many ------------------------------------------------------------------------------------------


def test_many_vectors_are_indexed_and_few_survivors_are_all_found(
    kept: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_tables, "INDEXED", 1_000)
    for _ in range(3):
        kept.add(1_000)
    rare = kept.add(6, tag="rare")
    tables = kept.index.backends.lance.tables
    kept.index.compact("f")
    assert tables._open(kept.space.location).list_indices()
    kept.add(10)  # not in the index yet
    for compacted in (False, True):
        if compacted:
            kept.index.compact("f", even_if_little_changed=True)
        query = unit(kept.rng, 1)[0]
        tagged = WordQuery(filters=Filters(tags=("rare",)))
        assert {kept.note_of[chunk] for chunk in kept.nearest(query, 10, tagged)} == {rare}
        assert len(kept.nearest(query, 10, tagged)) == 6
        newest = [*kept.vectors][-1]
        assert kept.nearest(kept.vectors[newest][0], 1) == [newest]
        assert len(kept.nearest(query, 10**6)) == 3_016


def test_long_lists_are_left_to_the_ledger(kept: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance, "_MOST_LISTED", 3)
    for number in range(20):
        kept.add(5, tag="even" if number % 2 else "odd")
    query = unit(kept.rng, 1)[0]
    for tag in ("even", "odd"):
        found = kept.nearest(query, 100, WordQuery(filters=Filters(tags=(tag,))))
        assert len(found) == 50
        assert len(kept.nearest(query, 7, WordQuery(filters=Filters(not_tags=(tag,))))) == 7


def test_small_files_become_one(kept: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance_tables, "_MANY_FILES", 4)
    for _ in range(8):
        kept.add(2)
    kept.index.compact("f")
    stats = kept.index.backends.lance.tables._open(kept.space.location).stats()
    assert stats["fragment_stats"]["num_fragments"] == 1
    query = unit(kept.rng, 1)[0]
    assert kept.nearest(query, 16) == kept.expected(query, 16)


# -- three writers ---------------------------------------------------------------------------------


def three_writers(kept: Filled, address: str) -> None:
    """Three processes at once, each of which also compacts; every vector is there afterwards."""
    command = [sys.executable, "-m", "tests.support.lance_writer", str(kept.index.path), address]
    writers = [subprocess.Popen([*command, str(me)], cwd=REPOSITORY) for me in range(3)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    total = 3 * ROUNDS * CHUNKS
    with kept.index.reading() as reader:
        assert reader.spaces.coverage(kept.space) == (total, total)
        vectors = reader.vectors.first_windows(kept.space, range(200))
    assert len(vectors) == total
    for chunk, vector in vectors.items():
        kept.vectors[chunk] = round_vectors(own_vector(chunk))
        np.testing.assert_array_equal(vector, kept.vectors[chunk][0])
    query = unit(kept.rng, 1)[0]
    assert kept.nearest(query, total) == kept.expected(query, total)


@pytest.mark.process
def test_three_writers_at_once_lose_nothing(kept: Filled) -> None:
    three_writers(kept, "")


# -- S3 --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        yield address


@pytest.fixture
def on_s3(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of the server, and its keys in the environment."""
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}?endpoint={server}"


@pytest.fixture
def remote(on_s3: str, tmp_path: Path) -> Iterator[Filled]:
    made = Filled(tmp_path, backend=BackendSetting(LANCEDB, on_s3))
    yield made
    made.index.close()


@pytest.mark.server
def test_on_s3_vectors_are_found_filtered_and_forgotten(remote: Filled, server: str) -> None:
    gone = remote.add(20, windows=2)
    rare = remote.add(6, tag="rare")
    remote.add(20)
    query = unit(remote.rng, 1)[0]
    tagged = WordQuery(filters=Filters(tags=("rare",)))
    before = remote.space.location
    for compacted in (False, True):
        if compacted:
            remote.remove(gone)
            remote.index.compact("f", even_if_little_changed=True)
        assert remote.nearest(query, 15) == remote.expected(query, 15)
        assert {remote.note_of[chunk] for chunk in remote.nearest(query, 10, tagged)} == {rare}
    tables = remote.index.backends.lance.tables
    assert tables.count(remote.space.location) == 26
    left = "\n".join(objects(server))
    assert lance_tables.parse_address(remote.space.location)[1] in left
    assert lance_tables.parse_address(before)[1] not in left


@pytest.mark.server
def test_on_s3_a_memory_answers(
    on_s3: str, provider: Faulty, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("cats.md", "# Cats\n\nthe cat sleeps all day\n")
    write("dogs.md", "# Dogs\n\nthe dog barks at night\n")
    monkeypatch.setenv("MEMWELL_VECTORS_LANCE_URI", on_s3)
    with Memory(embedders={"mine": lambda: provider}) as memory:
        memory.index(workspace)
        assert meaning(memory, "dog")[0] == "dogs.md"
        assert memory.remember("The cat is called Tom.")
        assert meaning(memory, "called Tom")


@pytest.mark.server
@pytest.mark.parametrize(
    ("wrong", "said"),
    [("AWS_SECRET_ACCESS_KEY", "the key is refused"), ("bucket", "the bucket does not exist")],
)
def test_on_s3_what_is_wrong_is_said(
    wrong: str, said: str, on_s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wrong in os.environ:
        monkeypatch.setenv(wrong, "wrong")
    address = on_s3.replace(BUCKET, "nobodys") if wrong == "bucket" else on_s3
    with pytest.raises(VectorSearchUnavailable, match=said):
        Filled(tmp_path, backend=BackendSetting(LANCEDB, address))


@pytest.mark.server
def test_on_s3_three_writers_at_once_lose_nothing(remote: Filled, on_s3: str) -> None:
    three_writers(remote, on_s3)
