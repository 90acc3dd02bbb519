"""Fifty clients use `memwell serve` for minutes: no error, and no leak of memory or descriptors."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from memwell import Memory
from memwell.store.contract.values import FactFilter
from memwell.surfaces.http.tokens import Tokens
from tests.soak.conftest import print_figures, sizes
from tests.support.http_servers import Server, served

pytestmark = pytest.mark.process
CLIENTS = 50
ROUNDS = 12
"""The clients pause after each round, so that what an idle server holds can be compared."""
WARM_UP = 6
"""Rounds until caches and pools of connections are full. A pool has as many connections as were in
use at one moment. So that this moment comes first, twice as many clients work in these rounds, and in
the first ones all do the same."""
ACTS = ("remember", "search", "recall", "read")
GROWTH = 1.05
MOST_FACTS = 4
"""Facts of a client at most: then it forgets one for each that it remembers."""


class Client:
    """One client: it remembers, searches and forgets, and knows which facts it has."""

    def __init__(self, server: Server, number: int) -> None:
        self.server = server
        self.number = number
        self.chance = random.Random(number)
        self.counts: Counter[str] = Counter()
        self.facts: dict[str, str] = {}
        self.failures: list[str] = []

    def run(self, acts: Sequence[str], until: float) -> None:
        """Send requests until a time, at least one of each kind."""
        try:
            turn = 0
            while turn < len(acts) or time.monotonic() < until:
                getattr(self, acts[turn % len(acts)])()
                turn += 1
        except Exception as error:
            self.failures.append(repr(error))

    def remember(self) -> None:
        text = f"Zq{self.number}x{self.counts['remembered']}k is a lamp in a room"
        done = self.server.post("/api/remember", {"text": text, "scope": "global"})
        self.facts[done["fact"]["id"]] = text
        self.counts["remembered"] += 1
        if len(self.facts) > MOST_FACTS or self.chance.random() < 0.3:
            fact = next(iter(self.facts))
            assert self.server.post("/api/forget", {"ids": [fact]})["count"] == 1
            del self.facts[fact]
            self.counts["forgotten"] += 1

    def search(self) -> None:
        number = self.chance.randrange(100)
        found = self.server.post("/api/search", {"query": f"heron{number} eats", "k": 3})
        assert found["hits"], found
        self.counts["searches"] += 1

    def recall(self) -> None:
        self.server.post("/api/recall", {"message": "Where is the lamp in the room?"})
        self.counts["recalls"] += 1

    def read(self) -> None:
        path = self.chance.choice(["/api/status", "/api/facts?limit=5", "/api/spaces", "/health"])
        self.server.get(path)
        self.counts["reads"] += 1


def held(process: int) -> tuple[int, int]:
    """The resident memory in bytes and the open descriptors of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{process}/fd"))


@sizes(sample=1, whole=300)
def test_fifty_clients_leak_nothing(home: Path, workspace: Path, size: int) -> None:
    for number in range(100):
        (workspace / f"{number}.md").write_text(
            f"# Note {number}\n\nThe heron{number} eats fish.\n"
        )
    with Memory() as memory:
        memory.index(workspace)
    token = Tokens(home).add("soak", rights="admin")
    is_sample = size < 60
    clients_at_once = 10 if is_sample else CLIENTS
    with served(home, workspace, MEMWELL_EMBEDDING_CHAIN="test") as server:
        server.token = token
        assert server.process
        clients = [Client(server, number) for number in range(2 * clients_at_once)]
        measured = []
        rounds = [ACTS] if is_sample else [*([act] for act in ACTS), *[ACTS] * (ROUNDS - len(ACTS))]
        for number, acts in enumerate(rounds):
            working = clients if number < WARM_UP else clients[:clients_at_once]
            run_round(working, acts, size / len(rounds))
            measured.append(held(server.process.pid))
        memory_bytes, descriptors = zip(*measured, strict=True)
    assert [failure for client in clients for failure in client.failures] == []
    facts = {fact: text for client in clients for fact, text in client.facts.items()}
    with Memory() as memory:
        assert {fact.id: fact.text for fact in memory.facts.find(FactFilter())} == facts
        assert memory.verify() == []
    counts = sum((client.counts for client in clients), Counter[str]())
    print_figures(
        "clients",
        clients=clients_at_once,
        seconds=size,
        **counts,
        lost=0,
        megabytes=" ".join(f"{size / 1e6:.0f}" for size in memory_bytes),
        descriptors=" ".join(map(str, descriptors)),
    )
    if not is_sample:
        assert memory_bytes[-1] <= GROWTH * max(memory_bytes[:WARM_UP])
        assert descriptors[-1] <= GROWTH * max(descriptors[:WARM_UP])


def run_round(clients: list[Client], acts: Sequence[str], seconds: float) -> None:
    """Let all clients work, then wait until each has ended."""
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=client.run, args=(acts, until)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
