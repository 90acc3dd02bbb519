"""A server with several processes: they share writes, counters and work, and are replaced."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from memwell.surfaces.listen import listen
from memwell.surfaces.worker_group import WorkerGroup
from memwell.surfaces.workers import BalancedSocket
from tests.support.http_servers import Server, served
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name != "posix", reason="workers inherit descriptors"),
]
WORKERS = 2


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n\nThe lighthouse is painted every spring.\n")
    return folder


@pytest.fixture
def server(tmp_path: Path, notes: Path) -> Iterator[Server]:
    home = tmp_path / "home"
    with served(home, notes, workers=WORKERS, MEMWELL_EMBEDDING_CHAIN="test") as running:
        yield running


def worker_ids(server: Server) -> list[int]:
    """Return the processes of the workers that run."""
    assert server.process is not None
    parent = server.process.pid
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def search(server: Server, query: str) -> list[str]:
    return [hit["text"] for hit in server.post("/api/search", {"query": query})["hits"]]


def test_every_worker_sees_a_write(server: Server) -> None:
    assert len(worker_ids(server)) == WORKERS
    server.post("/api/remember", {"text": "The ferry leaves at seven"})
    answers = [search(server, "when does the ferry leave") for _ in range(8 * WORKERS)]
    assert all("The ferry leaves at seven" in texts for texts in answers)


def test_a_worker_that_dies_is_replaced_and_loses_nothing(server: Server) -> None:
    kept: list[str] = []
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            text = f"Parcel zq{number}x is in the shed"
            try:
                if server.ask("POST", "/api/remember", {"text": text}).status == 200:
                    kept.append(text)
            except (OSError, HTTPException):  # its worker was killed
                continue

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(3):
        before = worker_ids(server)
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda gone=before[0]: gone not in worker_ids(server))  # type: ignore[misc]
        wait_until(lambda: len(worker_ids(server)) == WORKERS)
        done = len(kept)
        wait_until(lambda done=done: len(kept) > done + 3)  # type: ignore[misc]
    over.set()
    writer.join()
    facts = {fact["text"] for fact in server.get("/api/facts?limit=10000")["facts"]}
    assert {*kept} <= facts


@pytest.mark.slow
def test_another_worker_leads_if_the_leader_dies(server: Server, notes: Path) -> None:
    for turn, worker in enumerate(worker_ids(server)):
        os.kill(worker, signal.SIGKILL)
        (notes / "MEMORY.md").write_text(f"The word is zq{turn}lamp.\n")

        def is_embedded(turn: int = turn) -> bool:
            query = {"query": f"zq{turn}lamp", "mode": "meaning"}
            try:
                hits = server.post("/api/search", query)["hits"]
            except (OSError, HTTPException):
                return False
            return any(f"zq{turn}lamp" in hit["text"] for hit in hits)

        wait_until(is_embedded)


@pytest.mark.slow
def test_the_counters_are_of_all_workers(server: Server) -> None:
    for _ in range(6):
        search(server, "lighthouse")

    def counted() -> bool:
        text = server.ask("GET", "/metrics").body.decode()
        return "memwell_searches_total 6" in text

    wait_until(counted)


@pytest.mark.slow
def test_the_workers_end_with_the_server(server: Server) -> None:
    workers = worker_ids(server)
    assert server.process is not None
    server.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


@contextmanager
def two_workers(clients: int) -> Iterator[tuple[BalancedSocket, BalancedSocket]]:
    """The socket as two workers see it, where so many connections wait."""
    with (
        listen("127.0.0.1", 0) as given,
        closing(WorkerGroup.create()) as group,
        ExitStack() as ends,
    ):
        waiting = []
        for place in range(2):
            counts = group.at(place).connection_counts()
            waiting.append(BalancedSocket.open(os.dup(given.fileno()), counts))
            ends.enter_context(waiting[-1]).setblocking(False)
        for _ in range(clients):
            ends.enter_context(socket.create_connection(given.getsockname()))
        yield waiting[0], waiting[1]


def test_the_worker_with_fewest_connections_takes_the_next() -> None:
    with two_workers(clients=4) as (one, other):
        first = one.accept()[0]
        with pytest.raises(BlockingIOError):
            one.accept()
        with closing(other.accept()[0]), closing(one.accept()[0]):
            with pytest.raises(BlockingIOError):
                one.accept()
            first.close()
            first.close()  # counts once
            one.accept()[0].close()


def test_a_connection_that_another_worker_does_not_take_is_taken() -> None:
    with two_workers(clients=2) as (one, _), closing(one.accept()[0]):
        taken: list[socket.socket] = []

        def take() -> bool:
            with suppress(BlockingIOError):
                taken.append(one.accept()[0])
            return bool(taken)

        assert not take()
        wait_until(take)
        taken[0].close()
