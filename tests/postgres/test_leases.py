"""Several processes embed the passages of one agent on a server, each passage once."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memwell import Memory
from memwell.embed.base import Limits
from memwell.embed.testing import WordCounts
from memwell.store.postgres import leases
from tests.conftest import Write
from tests.support.postgres import app_url, new_tenant, shared
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

SPAWN = multiprocessing.get_context("spawn")
LEASE_SECONDS = 2.0


class Recording(WordCounts):
    """Appends each text that it embeds to a file; waits while another file exists.

    It also waits until as many processes as `together` have embedded something.
    """

    limits = Limits(texts=5, parallel=2)

    def __init__(self, log: Path, together: int = 1) -> None:
        super().__init__()
        self._log = log
        self._together = together

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        descriptor = os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, "".join(f"{os.getpid()} {text}\n" for text in texts).encode())
        os.close(descriptor)
        if texts[0].startswith("passage"):  # not what the model's cosines are measured on
            wait_until(lambda: not barred(self._log).exists())
            wait_until(lambda: len(processes_in(self._log)) >= self._together)
        return super().embed_documents(texts)


def barred(log: Path) -> Path:
    """The file that makes the embedder wait while it exists."""
    return log.with_suffix(".barred")


def lines_in(log: Path) -> list[tuple[str, str]]:
    """The process and the text of each passage that was embedded."""
    lines = log.read_text().splitlines() if log.exists() else []
    parts = [line.partition(" ") for line in lines]
    return [(process, text) for process, _, text in parts if text.startswith("passage")]


def texts_in(log: Path) -> list[str]:
    return [text for _, text in lines_in(log)]


def processes_in(log: Path) -> set[str]:
    return {process for process, _ in lines_in(log)}


@dataclass(frozen=True)
class Shared:
    """An agent's memory on the server, and the log of its embedder."""

    settings: dict[str, Any]
    home: Path
    log: Path

    def opened(self, together: int = 1) -> Memory:
        made = {"mine": lambda: Recording(self.log, together)}
        return Memory(self.home, settings=self.settings, embedders=made)

    def process(self, together: int = 1) -> BaseProcess:
        """A process that fills the space; it is not started yet."""
        return SPAWN.Process(target=_fill, args=(self, together), daemon=True)


def _fill(shared: Shared, together: int) -> None:
    leases.SECONDS, leases.MOST_CHUNKS = LEASE_SECONDS, 20
    with shared.opened(together) as memory:
        assert memory.fill().left == 0


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Shared]:
    settings: dict[str, Any] = {
        "store.url": app_url(),
        "store.tenant": new_tenant(),
        "embedding.chain": ("mine",),
    }
    made = Shared(settings, tmp_path / "home", tmp_path / "embedded")
    try:
        yield made
    finally:
        barred(made.log).unlink(missing_ok=True)


def index(agent: Shared, workspace: Path, write: Write, notes: int) -> set[str]:
    """Index notes of one passage each; return their texts."""
    texts = {f"passage {number} of words that nobody else has" for number in range(notes)}
    for number, text in enumerate(texts):
        write(f"{number}.md", f"{text}\n")
    with agent.opened() as memory:
        memory.index(workspace, embed=False)
    return texts


def held(agent: Shared) -> int:
    """How many chunks are leased."""
    tenant = agent.settings["store.tenant"]
    rows = shared().execute(f"SELECT count(*) FROM memwell.leases WHERE tenant = '{tenant}'")
    return int(rows[0][0])


def leased_until(agent: Shared) -> dt.datetime:
    """When the last lease ends, if nobody renews it."""
    tenant = agent.settings["store.tenant"]
    rows = shared().execute(f"SELECT max(until) FROM memwell.leases WHERE tenant = '{tenant}'")
    assert isinstance(rows[0][0], dt.datetime)
    return rows[0][0]


def test_four_processes_embed_each_text_once(agent: Shared, workspace: Path, write: Write) -> None:
    texts = index(agent, workspace, write, 400)
    processes = [agent.process(together=4) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert sorted(texts_in(agent.log)) == sorted(texts)
    assert len(processes_in(agent.log)) == 4
    with agent.opened() as memory:
        (space,) = memory.spaces()
        assert (space.state, space.embedded, space.chunks) == ("live", 400, 400)
        assert space.random_mean is not None
    assert held(agent) == 0


def test_another_process_embeds_the_chunks_of_a_killed_one(
    agent: Shared, workspace: Path, write: Write
) -> None:
    texts = index(agent, workspace, write, 30)
    barred(agent.log).touch()
    killed = agent.process()
    killed.start()
    wait_until(lambda: bool(texts_in(agent.log)))
    assert killed.pid
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    barred(agent.log).unlink()
    assert held(agent) == 20
    other = agent.process()
    other.start()
    other.join(30)
    assert other.exitcode == 0  # it took the rest, and waited for what the killed one had
    assert {*texts_in(agent.log)} == texts
    with agent.opened() as memory:
        assert memory.spaces()[0].embedded == 30
    assert held(agent) == 0


@pytest.mark.slow
def test_a_slow_process_renews_its_leases(agent: Shared, workspace: Path, write: Write) -> None:
    texts = index(agent, workspace, write, 5)
    barred(agent.log).touch()
    processes = [agent.process(), agent.process()]
    for process in processes:
        process.start()
    wait_until(lambda: bool(texts_in(agent.log)))
    first_end = leased_until(agent)
    wait_until(lambda: leased_until(agent) > first_end + dt.timedelta(seconds=2 * LEASE_SECONDS))
    barred(agent.log).unlink()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0]
    assert sorted(texts_in(agent.log)) == sorted(texts)


@contextmanager
def held_up(agent: Shared) -> Iterator[BaseProcess]:
    """Run a process whose embedder waits until the end of the block."""
    barred(agent.log).touch()
    at_work = agent.process()
    at_work.start()
    wait_until(lambda: bool(texts_in(agent.log)))
    yield at_work
    barred(agent.log).unlink()
    at_work.join(30)
    assert at_work.exitcode == 0


def test_a_note_can_be_rewritten_while_its_passage_is_being_embedded(
    agent: Shared, workspace: Path, write: Write
) -> None:
    index(agent, workspace, write, 5)
    with held_up(agent) as at_work, agent.opened() as memory:
        for number in range(5):
            write(f"{number}.md", f"passage {number}, written anew\n")
        memory.index(workspace, embed=False)
        assert at_work.is_alive()
        assert memory.spaces()[0].embedded == 0
    with agent.opened() as memory:
        assert texts_in(agent.log)[-1].endswith("written anew")
        (space,) = memory.spaces()
        assert (space.embedded, space.chunks) == (5, 5)
        rows = "SELECT count(*) FROM memwell.vectors WHERE tenant = "
        assert shared().execute(f"{rows}'{agent.settings['store.tenant']}'") == [(5,)]
    assert held(agent) == 0


def test_a_stopped_fill_releases_its_leases(agent: Shared, workspace: Path, write: Write) -> None:
    index(agent, workspace, write, 30)
    stop = threading.Event()
    barred(agent.log).touch()
    with agent.opened() as memory:
        filling = threading.Thread(target=memory.fill, kwargs={"stop": stop})
        filling.start()
        wait_until(lambda: bool(texts_in(agent.log)))
        stop.set()
        barred(agent.log).unlink()
        filling.join()
        assert memory.spaces()[0].embedded < 30
        assert held(agent) == 0


def test_a_search_does_not_wait_for_another_process_that_embeds(
    agent: Shared, workspace: Path, write: Write
) -> None:
    index(agent, workspace, write, 5)
    with held_up(agent), agent.opened() as memory:
        result = memory.search("passage 3")
        assert result.hits
        assert result.freshness.unembedded == 5
        assert len(texts_in(agent.log)) == 5
