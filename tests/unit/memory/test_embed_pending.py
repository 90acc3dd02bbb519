"""Filling a space: nothing is embedded twice, little is lost, nothing wrong is kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import numpy as np
import pytest

from memwell import Memory
from memwell.embed.base import Limits, split_batches
from memwell.errors import BatchRefused, ProviderUnavailable
from memwell.memory.embed_pending import random_cosines, run_batches, run_parallel
from memwell.store.contract.quantisation import round_vectors
from memwell.store.contract.values import WaitingChunk
from memwell.store.sqlite.cache import SqliteVectorCache
from memwell.token_estimate import count_tokens
from tests.conftest import REPOSITORY, Write
from tests.support.embedders import Faulty
from tests.support.states import index_file
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from memwell.embed.base import Matrix


@pytest.fixture
def provider() -> Faulty:
    return Faulty()


@pytest.fixture
def filled(
    provider: Faulty, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> Memory:
    """A memory of three notes with their vectors."""
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    for name in ("one", "two", "three"):
        write(f"{name}.md", f"# {name.title()}\n\nThe note about {name}.\n")
    memory = Memory(embedders={"mine": lambda: provider})
    memory.index(workspace)
    assert len(provider.texts) == 3
    return memory


def test_an_empty_workspace_sends_nothing_to_its_provider(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    class Counting(Faulty):
        def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
            sent.extend(texts)
            return super().embed_documents(texts)

    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    with Memory(embedders={"mine": Counting}) as memory:
        memory.index(workspace)
        assert sent == []
        (workspace / "note.md").write_text("A note.")
        memory.index(workspace)
    assert "A note." in sent


def test_a_run_that_is_stopped_leaves_scores_of_the_same_scale(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was stopped while it embedded its first fact gave other scores than one that ran on."""
    stop = threading.Event()

    class Stopping(Faulty):
        def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
            vectors = super().embed_documents(texts)
            if self.texts:  # not only those of the baseline
                stop.set()
            return vectors

    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    write("note.md", "The heron eats fish.\n")
    scores = []
    for home, provider in (("stopped", Stopping), ("finished", Faulty)):
        with Memory(workspace.parent / home, embedders={"mine": provider}) as memory:
            memory.index(workspace, embed=False)
            memory.fill(stop=stop if provider is Stopping else None)
            scores.append([hit.relevance for hit in memory.search("heron").hits])
    assert stop.is_set()
    assert scores[0] == scores[1] != []


# -- never twice -----------------------------------------------------------------------------------


def test_a_reindex_with_nothing_new_embeds_nothing(
    filled: Memory, provider: Faulty, workspace: Path
) -> None:
    filled.index(workspace)
    assert len(provider.texts) == 3


def test_a_renamed_or_moved_note_is_not_embedded_again(
    filled: Memory, provider: Faulty, workspace: Path
) -> None:
    (workspace / "one.md").rename(workspace / "uno.md")
    (workspace / "sub").mkdir()
    (workspace / "two.md").rename(workspace / "sub" / "two.md")
    filled.index(workspace)
    assert len(provider.texts) == 3
    assert filled.search("one", mode="meaning").hits[0].path == "uno.md"


def test_a_note_that_is_restored_is_not_embedded_again(
    filled: Memory, provider: Faulty, workspace: Path
) -> None:
    text = (workspace / "one.md").read_text()
    (workspace / "one.md").unlink()
    filled.index(workspace)
    (workspace / "back.md").write_text(text)
    assert filled._vectors(filled.settings).fill().embedded == 0
    filled.index(workspace)
    assert len(provider.texts) == 3


def test_a_copy_is_not_embedded_again(filled: Memory, provider: Faulty, workspace: Path) -> None:
    shutil.copy(workspace / "one.md", workspace / "copy.md")
    filled.index(workspace)
    assert len(provider.texts) == 3
    assert filled.spaces()[0].embedded == 4


def test_equal_passages_of_another_chunking_are_not_embedded_again(
    filled: Memory, provider: Faulty, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_CHUNK_SIZE", "300")
    (report,) = filled.index(workspace)
    assert report.changed == 3
    assert len(provider.texts) == 3


def test_an_index_that_was_deleted_comes_back_without_embedding(
    filled: Memory, provider: Faulty, workspace: Path
) -> None:
    filled.reset()
    filled.index(workspace)
    assert len(provider.texts) == 3
    assert filled.spaces()[0].embedded == 3


def test_only_what_was_edited_is_embedded(
    filled: Memory, provider: Faulty, workspace: Path
) -> None:
    (workspace / "one.md").write_text(
        "# One\n\nThe note about one.\n\n# More\n\nAnother section.\n"
    )
    filled.index(workspace)
    assert len(provider.texts) == 4
    assert "Another section" in provider.texts[-1]


# -- the cache -------------------------------------------------------------------------------------


def vector(number: int) -> Matrix:
    row = np.zeros((1, 64), dtype=np.float32)
    row[0, number % 64] = 1
    return round_vectors(row)


def test_the_cache_is_bounded_and_forgets_what_was_not_used_for_longest(tmp_path: Path) -> None:
    size = 64 + 1  # a byte for each dimension, and one before them
    cache = SqliteVectorCache(tmp_path / "cache.db", most_bytes=100 * size)
    cache.put("f", ((f"text {number}", vector(number)) for number in range(99)))
    cache.trim()
    assert len(cache.get("f", 64, [f"text {number}" for number in range(99)])) == 99
    cache.put("f", [("text 0", vector(0))])  # used again
    cache.put("f", ((f"more {number}", vector(number)) for number in range(11)))
    cache.trim()
    kept = cache.get("f", 64, [f"text {number}" for number in range(99)])
    assert len(kept) == 90 - 11
    assert "text 0" in kept
    assert "text 1" not in kept
    cache.close()


def test_vectors_of_another_model_are_not_taken(tmp_path: Path) -> None:
    cache = SqliteVectorCache(tmp_path / "cache.db", most_bytes=10**6)
    cache.put("f", [("text", vector(1))])
    assert cache.get("g", 64, ["text"]) == {}
    np.testing.assert_array_equal(cache.get("f", 64, ["text", "other"])["text"], vector(1))
    cache.close()


@pytest.mark.parametrize("damage", [b"", b"not a database at all" * 500])
def test_a_damaged_cache_costs_time_and_nothing_else(
    filled: Memory, provider: Faulty, workspace: Path, home: Path, damage: bytes
) -> None:
    filled.close()
    cache = index_file(home).with_name("embeddings.db")
    cache.write_bytes(damage)
    filled.reset()
    filled.index(workspace)
    assert filled.spaces()[0].embedded == 3
    filled.reset()
    filled.index(workspace)
    assert len(provider.texts) == 6  # embedded again once, and cached again


# -- batches ---------------------------------------------------------------------------------------


def test_a_batch_is_as_large_as_its_provider_takes() -> None:
    items = [WaitingChunk(number, "word " * (1 + 37 * number % 900)) for number in range(300)]
    limits = Limits(tokens=8_000, texts=50)
    batches = [*split_batches(items, limits, lambda item: item.text)]
    assert [item for batch in batches for item in batch] == items
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        tokens = sum(count_tokens(item.text) for item in batch)
        assert tokens <= 8_000
        assert len(batch) <= 50
        if following:
            assert tokens + count_tokens(following[0].text) > 8_000 or len(batch) == 50
    assert [len(batch) for batch in split_batches(["x" * 100_000] * 2, limits)] == [1, 1]


def test_so_many_batches_at_once_and_no_more() -> None:
    at_once, most, lock = 0, 0, threading.Lock()
    four = threading.Barrier(4)

    def work(batch: Sequence[WaitingChunk]) -> list[Matrix]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        four.wait(60)  # passes when four batches are in work
        with lock:
            at_once -= 1
        return []

    batches = [[WaitingChunk(number, "x")] for number in range(12)]
    done = [batch for batch, _ in run_parallel(work, batches, 4)]
    assert sorted(batch[0].chunk_id for batch in done) == [*range(12)]
    assert most == 4


def test_a_single_batch_needs_no_thread() -> None:
    used = list[threading.Thread]()

    def work(batch: Sequence[WaitingChunk]) -> Sequence[Matrix]:
        used.append(threading.current_thread())
        if batch[0].text == "refused":
            raise ProviderUnavailable("no model")
        return []

    for text in ("x", "refused"):
        ((_, answer),) = run_batches(work, [[WaitingChunk(1, text)]], 4)
        assert isinstance(answer, ProviderUnavailable) == (text == "refused")
    assert used == [threading.current_thread()] * 2


def test_who_leaves_early_waits_for_the_model_that_embeds() -> None:
    begun, finished = threading.Event(), list[int]()

    def work(batch: Sequence[WaitingChunk]) -> Sequence[Matrix]:
        number = batch[0].chunk_id
        if number:
            begun.set()
            time.sleep(0.05)  # the time that the model takes
        else:
            assert begun.wait(60)
        finished.append(number)
        return []

    batches = [[WaitingChunk(number, "x")] for number in range(12)]
    for _ in run_parallel(work, batches, 2):
        break
    assert 2 <= len(finished) < 12
    assert not [one for one in threading.enumerate() if one.name.endswith("(run)") and one.daemon]


def test_the_newest_notes_come_first(
    provider: Faulty, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    for age, name in enumerate(("newest", "newer", "old", "older", "oldest")):
        os.utime(write(f"{name}.md", name), (1e9 - age, 1e9 - age))
    with Memory(embedders={"mine": lambda: provider}) as memory:
        memory.index(workspace)
    assert provider.texts == ["newest", "newer", "old", "older", "oldest"]


def test_one_bad_input_never_sinks_its_batch(
    provider: Faulty, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Picky(Faulty):
        def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
            if any("poison" in text for text in texts):
                raise BatchRefused("I will not")
            return super().embed_documents(texts)

    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    for number in range(9):
        write(f"{number}.md", "poison" if number == 4 else f"number {number}")
    with Memory(embedders={"mine": Picky}) as memory:
        memory.index(workspace, embed=False)
        report = memory.fill()
        assert (report.embedded, report.refused, report.left) == (8, ("I will not",), 0)
        assert memory.spaces()[0].state == "live"
        assert memory.search("poison").hits[0].path == "4.md"
        assert memory.fill().refused == ()


# -- interrupted -----------------------------------------------------------------------------------

SCRIPT = """
import sys
sys.path.insert(0, {repository!r})
from memwell.surfaces.cli import main
import memwell.memory
from tests.support.embedders import Faulty
hanging = Faulty(batch_texts=5, hang_after=30)
before = memwell.memory.Memory.__init__
def init(self, *args, **options):
    before(self, *args, **options, embedders={{"mine": lambda: hanging}})
memwell.memory.Memory.__init__ = init
sys.argv = ["memwell", "index", {workspace!r}]
main()
"""


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_what_was_written_survives_kill_and_ctrl_c(
    how: signal.Signals, workspace: Path, write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    for number in range(60):
        write(f"{number}.md", f"number {number}")
    script = SCRIPT.format(repository=str(REPOSITORY), workspace=str(workspace))
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: embedded_by(child, home) == 30)
    child.send_signal(how)  # the model hangs: a process that waited for it would never end
    _, said = child.communicate(timeout=60)
    assert "Traceback" not in said
    provider = Faulty()
    with Memory(embedders={"mine": lambda: provider}) as memory:
        assert memory.spaces()[0].embedded == 30
        assert memory.fill().embedded == 30


def embedded_by(child: subprocess.Popen[str], home: Path) -> int:
    """How many vectors a process that is at work has written."""
    assert child.poll() is None
    if not index_file(home).exists():
        return 0
    connection = apsw.Connection(str(index_file(home)), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(5000)
    tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'vectors'")
    count = connection.execute("SELECT count(*) FROM vectors").get if tables.get else 0
    connection.close()
    return int(count)


def test_two_processes_do_not_do_the_same_work(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    for number in range(40):
        write(f"{number}.md", f"number {number}")
    slow = Faulty(batch_texts=5, hang_after=0)
    with Memory(embedders={"mine": lambda: slow}) as one, Memory(embedders={"mine": Faulty}) as two:
        one.index(workspace, embed=False)
        thread = threading.Thread(target=one.fill)
        thread.start()
        wait_until(lambda: bool(slow.texts))
        assert two.fill().notes == ("Another process is embedding",)
        slow.may_go.set()
        thread.join()
        assert len(slow.texts) == 40


def test_watch_fills_in_the_background(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    write("one.md", "the first")
    stop = threading.Event()
    with Memory(embedders={"mine": Faulty}) as memory:
        memory.index(workspace, embed=False)
        thread = threading.Thread(target=memory.watch, args=(lambda event: None, stop))
        thread.start()
        try:
            wait_until(lambda: [space.embedded for space in memory.spaces()] == [1])
            write("two.md", "the second")
            wait_until(lambda: memory.spaces()[0].embedded == 2)
        finally:
            stop.set()
            thread.join()
        assert memory.search("second", mode="meaning").hits[0].path == "two.md"


def test_random_cosines_are_those_of_different_notes() -> None:
    same, other = vector(1).tobytes(), vector(2).tobytes()
    mean, deviation = random_cosines([(1, same), (2, other)] * 500)
    # Pairs of one note, all of cosine 1, are left out. The root of a rounded zero is about 1e-7.
    assert (mean, deviation) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert random_cosines([(1, same), (1, other)]) == (None, None)
    assert random_cosines([]) == (None, None)
