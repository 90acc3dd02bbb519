"""Many processes write and search on a server that is restarted under them."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.model import Hit
from memwell.store.contract.values import FactFilter
from memwell.store.postgres import server as connect
from tests.support.postgres import Cluster, cluster, new_role

SPAWN = multiprocessing.get_context("spawn")
DOWN_SECONDS = 3.0
PATIENCE_SECONDS = 120.0
"""How long the slowest process may take to finish what it is at."""


@dataclass(frozen=True)
class Job:
    """What one process does, and where it says what came of it."""

    url: str
    tenant: str
    folder: Path
    over: Path
    """A file that is there when it is time to end."""

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "store.url": self.url,
            "store.tenant": self.tenant,
            "embedding.chain": ("test",),
        }

    @property
    def acknowledged(self) -> Path:
        """The ids of facts that were said to be kept."""
        return self.folder / "acknowledged"

    @property
    def tally(self) -> Path:
        return self.folder / "tally.json"

    @property
    def wrong(self) -> Path:
        return self.folder / "wrong"


class Retries(logging.Handler):
    """Counts how often a transaction was run again."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def work(job: Job) -> None:
    """Remember, write notes, search and recall until it is time; every answer is looked at."""
    retries = Retries()
    logger = logging.getLogger(connect.__name__)
    logger.setLevel(logging.INFO)
    logger.addHandler(retries)
    tally: Counter[str] = Counter()
    try:
        with Memory(job.folder / "home", settings=job.settings) as memory:
            while not job.over.exists():
                _turn(job, memory, tally)
    except BaseException:
        job.wrong.write_text(traceback.format_exc())
        raise
    finally:
        job.tally.write_text(json.dumps({**tally, "retries": retries.count}))


def _turn(job: Job, memory: Memory, tally: Counter[str]) -> None:
    words = " ".join(secrets.token_hex(4) for _ in range(6))
    begun = time.monotonic()
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
    tally["longest_ms"] = max(tally["longest_ms"], int(1000 * (time.monotonic() - begun)))


def _all_of(tenant: str, hits: Iterable[Hit]) -> None:
    strange = [hit.text for hit in hits if tenant not in hit.text]
    assert not strange, strange


def restarted_under_work(
    own: Cluster, folder: Path, processes: int, tenants: int, seconds: float
) -> Counter[str]:
    """Let processes work while the server is stopped twice; return what they did together."""
    url = own.url(user=new_role(on=own))
    jobs = []
    for number in range(processes):
        place = folder / str(number)
        place.mkdir()
        jobs.append(Job(url, f"tenant{number % tenants}", place, folder / "over"))
    workers = [SPAWN.Process(target=work, args=(job,), daemon=True) for job in jobs]
    for worker in workers:
        worker.start()
    _wait_until_all_are_at_work(jobs)
    down = min(DOWN_SECONDS, seconds / 10)
    for how in ("fast", "immediate"):
        time.sleep(seconds / 3)
        own.stop(how)
        time.sleep(down)
        own.start()
    time.sleep(seconds / 3 - 2 * down)
    jobs[0].over.touch()
    last = time.monotonic() + PATIENCE_SECONDS
    for worker in workers:
        worker.join(max(0.0, last - time.monotonic()))
    assert [job.wrong.read_text() for job in jobs if job.wrong.exists()] == []
    assert [worker.exitcode for worker in workers] == [0] * processes
    for number in range(tenants):
        _verify(own, [job for job in jobs if job.tenant == f"tenant{number}"])
    tallies = [json.loads(job.tally.read_text()) for job in jobs]
    together = sum(map(Counter, tallies), Counter[str]())
    together["longest_ms"] = max(tally["longest_ms"] for tally in tallies)
    return together


def _wait_until_all_are_at_work(jobs: Sequence[Job]) -> None:
    """A server that was never there is not waited for, only one that is gone for a while."""
    last = time.monotonic() + PATIENCE_SECONDS
    while not all(job.acknowledged.exists() for job in jobs):
        assert time.monotonic() < last
        assert [job.wrong.read_text() for job in jobs if job.wrong.exists()] == []
        time.sleep(0.05)


def _verify(own: Cluster, jobs: Sequence[Job]) -> None:
    """What was acknowledged is there, and nothing else; what is kept twice agrees."""
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


def test_processes_write_and_search_while_the_server_restarts(tmp_path: Path) -> None:
    with cluster() as own:
        done = restarted_under_work(own, tmp_path, processes=3, tenants=2, seconds=9)
    assert done["retries"] > 0


@pytest.mark.soak
def test_soak_twenty_processes_while_the_server_restarts(tmp_path: Path) -> None:
    with cluster() as own:
        done = restarted_under_work(own, tmp_path, processes=20, tenants=5, seconds=120)
    sys.stderr.write(
        f"\n{done['writes']} facts and {done['notes']} notes written, {done['searches']} searches,"
        f" {done['retries']} times tried again, the longest turn {done['longest_ms']} ms\n"
    )
    assert done["writes"] > 200
