"""Many processes write and search on a server that is restarted under them."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import secrets
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.model import Hit
from memwell.store.contract.values import FactFilter
from memwell.store.postgres import server as connect
from tests.soak.conftest import print_figures, sizes
from tests.support.postgres import Cluster, cluster, new_role
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.server]
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Job:
    """The work of one process, and the files in which it reports."""

    url: str
    tenant: str
    folder: Path
    over: Path
    """A file that tells all processes to end."""

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "store.url": self.url,
            "store.tenant": self.tenant,
            "embedding.chain": ("test",),
        }

    @property
    def acknowledged(self) -> Path:
        """The ids of the facts that memwell acknowledged."""
        return self.folder / "acknowledged"

    @property
    def tally(self) -> Path:
        return self.folder / "tally.json"

    @property
    def retries(self) -> Path:
        """A line for each time that a transaction was run again."""
        return self.folder / "retries"

    @property
    def wrong(self) -> Path:
        return self.folder / "wrong"

    def count(self, file: Path) -> int:
        """The lines of a file; a process that failed fails the test."""
        assert not self.wrong.exists(), self.wrong.read_text()
        return len(file.read_text().splitlines()) if file.exists() else 0


def work(job: Job) -> None:
    """Remember, write notes, search and recall until `over` exists; check every answer."""
    logger = logging.getLogger(connect.__name__)
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.FileHandler(job.retries))
    tally: Counter[str] = Counter()
    connect.PATIENCE_SECONDS = 600.0  # a server starts slowly on a busy machine
    try:
        with Memory(job.folder / "home", settings=job.settings) as memory:
            while not job.over.exists():
                _turn(job, memory, tally)
    except BaseException:
        job.wrong.write_text(traceback.format_exc())
        raise
    finally:
        job.tally.write_text(json.dumps({**tally, "retries": job.count(job.retries)}))


def _turn(job: Job, memory: Memory, tally: Counter[str]) -> None:
    words = " ".join(secrets.token_hex(4) for _ in range(6))
    done = memory.remember(f"Of {job.tenant} the words {words} are kept.", scope="global")
    assert done.outcome == "added", done  # else it was done twice
    with job.acknowledged.open("a") as file:
        file.write(f"{done.fact.id}\n")
        file.flush()
        os.fsync(file.fileno())
    tally["writes"] += 1
    if random.random() < 0.2:
        note = job.folder / "notes" / f"{tally['notes']}.md"
        note.parent.mkdir(exist_ok=True)
        note.write_text(f"A note of {job.tenant} about words: {words}.\n")
        memory.index(note.parent)
        tally["notes"] += 1
    _all_of(job.tenant, memory.search("words that are kept", k=20).hits)
    found = memory.search(words)
    _all_of(job.tenant, found.hits)
    assert done.fact.id in [hit.path for hit in found.hits]
    _all_of(job.tenant, memory.recall(f"What are the words of {words}?").hits)
    tally["searches"] += 3


def _all_of(tenant: str, hits: Iterable[Hit]) -> None:
    strange = [hit.text for hit in hits if tenant not in hit.text]
    assert not strange, strange


def restarted_under_work(
    own: Cluster, folder: Path, processes: int, tenants: int, turns: int
) -> Counter[str]:
    """Let processes work while the server is stopped twice; return what they did together.

    Each process finishes so many turns before the first stop and after every start, and one of
    them tries a transaction again while the server is down.
    """
    patience = 60.0 + turns * processes
    url = own.url(user=new_role(on=own))
    jobs = []
    for number in range(processes):
        place = folder / str(number)
        place.mkdir()
        jobs.append(Job(url, f"tenant{number % tenants}", place, folder / "over"))
    workers = [SPAWN.Process(target=work, args=(job,), daemon=True) for job in jobs]
    for worker in workers:
        worker.start()
    _wait_for(_goals([(job, job.acknowledged) for job in jobs], turns), patience)
    for how in ("fast", "immediate"):
        retried = _goals([(job, job.retries) for job in jobs], 1)  # a stop takes a while itself
        own.stop(how)
        # Not all: one that waits for the answer to a commit does not try again before that.
        _wait_for(retried, patience, enough=any)
        own.start()
        _wait_for(_goals([(job, job.acknowledged) for job in jobs], turns), patience)
    jobs[0].over.touch()
    for worker in workers:
        worker.join(patience)
    assert [job.wrong.read_text() for job in jobs if job.wrong.exists()] == []
    assert [worker.exitcode for worker in workers] == [0] * processes
    for number in range(tenants):
        _verify(own, [job for job in jobs if job.tenant == f"tenant{number}"])
    tallies = [json.loads(job.tally.read_text()) for job in jobs]
    return sum(map(Counter, tallies), Counter[str]())


def _goals(jobs: Sequence[tuple[Job, Path]], more: int) -> list[tuple[Job, Path, int]]:
    """Return how many lines each file has once its process has written so many more."""
    return [(job, file, job.count(file) + more) for job, file in jobs]


def _wait_for(
    goals: Sequence[tuple[Job, Path, int]],
    seconds: float,
    enough: Callable[[Iterable[bool]], bool] = all,
) -> None:
    """Wait until each process (or any of them) has written as many lines as its goal says."""
    wait_until(lambda: enough(job.count(file) >= goal for job, file, goal in goals), seconds)


def _verify(own: Cluster, jobs: Sequence[Job]) -> None:
    """Check that exactly the acknowledged facts are stored, and that index and facts agree."""
    acknowledged = [line for job in jobs for line in job.acknowledged.read_text().splitlines()]
    notes = sum(len([*job.folder.glob("notes/*.md")]) for job in jobs)
    tenant = jobs[0].tenant
    with Memory(jobs[0].folder / "home", settings=jobs[0].settings) as memory:
        facts = memory.facts.find(FactFilter())
        assert sorted(fact.id for fact in facts) == sorted(acknowledged)
        assert all(tenant in fact.text for fact in facts)
        assert memory.fill().left == 0
        status = memory.status(deep=True)
        assert status.deep == {"integrity": "ok"}
        assert status.warnings == ()
        assert sum(row.notes for row in status.workspaces) == notes
        assert [space.embedded for space in status.spaces] == [len(facts) + notes]
        assert [check for check in memory.doctor() if not check.ok] == []
    strange = f"tenant = '{tenant}' AND text NOT LIKE '%{tenant} %'"
    for table in ("facts", "chunks"):
        assert own.execute(f"SELECT text FROM memwell.{table} WHERE {strange}") == []
    assert own.execute("SELECT * FROM memwell.leases") == []


@sizes(sample=3, whole=20)
def test_processes_write_and_search_while_the_server_restarts(tmp_path: Path, size: int) -> None:
    tenants, turns = (2, 2) if size < 20 else (5, 10)
    with cluster() as own:
        done = restarted_under_work(own, tmp_path, size, tenants, turns)
    assert done["writes"] >= 3 * size * turns
    assert done["retries"] >= 2
    print_figures("restarts", processes=size, restarts=2, **done, lost=0)
