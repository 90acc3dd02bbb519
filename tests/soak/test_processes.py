"""Eight processes write, search and sync on one home: nothing fails, nothing is lost."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from memwell import Memory
from memwell.store.contract.values import FactFilter
from tests.soak.conftest import print_figures, sizes
from tests.support.states import contents, index_file

pytestmark = pytest.mark.process
SPAWN = multiprocessing.get_context("spawn")
NOTES = 30
SAMPLE = 1
"""Seconds of the sample, in which only one process has each role."""
MOST_FACTS = 150
"""Facts that one process has at most: then it forgets the oldest."""


@dataclass(frozen=True)
class Job:
    """The work of one process, and the files in which it reports."""

    number: int
    role: str
    home: Path
    workspace: Path
    folder: Path

    @property
    def over(self) -> Path:
        """A file that tells all processes to end."""
        return self.folder / "over"

    @property
    def report(self) -> Path:
        return self.folder / f"report-{self.number}.json"

    @property
    def failure(self) -> Path:
        return self.folder / f"failure-{self.number}"


class Worker:
    """One process: its memory, and what it did."""

    def __init__(self, job: Job, memory: Memory) -> None:
        self.job = job
        self.memory = memory
        self.chance = random.Random(job.number)
        self.counts: Counter[str] = Counter()
        self.facts: dict[str, str] = {}
        """The facts that memwell acknowledged and that were not forgotten."""

    def write(self) -> None:
        text = f"Zq{self.job.number}x{self.counts['turns']}k is a lamp in a room"
        done = self.memory.remember(text, scope="global")
        assert done.outcome == "added", done
        self.facts[done.fact.id] = text
        self.counts["remembered"] += 1
        if self.chance.random() < 0.1:
            result = self.memory.search(text.split()[0])
            # If others kept the index busy for too long, the result says so.
            found = done.fact.id in [hit.path for hit in result.hits]
            assert found or result.freshness.note, (done, result)
            self.counts["stale"] += not found
            self.counts["searches"] += 1
        if len(self.facts) > MOST_FACTS or self.chance.random() < 0.2:
            fact = next(iter(self.facts))
            assert self.memory.forget(fact).count == 1
            del self.facts[fact]
            self.counts["forgotten"] += 1

    def search(self) -> None:
        result = self.memory.search(f"apple number {self.chance.randrange(NOTES)}", k=5)
        assert result.legs[0].answered, result
        assert result.hits, result
        self.counts["searches"] += 1
        if self.chance.random() < 0.2:
            self.memory.recall("Where is the lamp in the room?")
            self.memory.status()
            self.counts["recalls"] += 1

    def sync(self) -> None:
        turn = self.counts["turns"]
        for number in self.chance.sample(range(NOTES), 4):
            file = self.job.workspace / f"{self.job.number}-{number}.md"
            if file.exists() and self.chance.random() < 0.2:
                file.unlink()
            else:
                file.write_text(f"# Note {number}\n\napple number {number} turn {turn}\n")
        self.memory.index(self.job.workspace)
        self.counts["syncs"] += 1

    def back_up(self) -> None:
        file = self.job.folder / "backup.db"
        self.memory.backup(file, force=True)
        assert self.memory.verify(file) == []
        assert self.memory.verify() == []
        self.counts["backups"] += 1
        self.search()


def work(job: Job) -> None:
    """Do the turns of a role until all shall end; report what was done."""
    try:
        with Memory(job.home, settings={"embedding.chain": ("test",)}) as memory:
            worker = Worker(job, memory)
            while not job.over.exists() or not worker.counts["turns"]:
                getattr(worker, job.role)()
                worker.counts["turns"] += 1
            notices = {notice for notice in memory.notices if "embed" not in notice}
            assert not notices, notices
    except BaseException:
        job.failure.write_text(traceback.format_exc())
        raise
    job.report.write_text(json.dumps({"counts": worker.counts, "facts": worker.facts}))


ROLES = ["write", "write", "write", "search", "search", "sync", "sync", "back_up"]


@sizes(sample=SAMPLE, whole=600)
def test_eight_processes_on_one_home(
    home: Path, workspace: Path, tmp_path: Path, size: int
) -> None:
    for number in range(NOTES):
        (workspace / f"{number}.md").write_text(f"# Note {number}\n\napple number {number}\n")
    with Memory(settings={"embedding.chain": ("test",)}) as memory:
        memory.index(workspace)
        first = memory.remember("A lamp stands in the room.", scope="global").fact
    roles = ROLES if size > SAMPLE else ["write", "search", "sync", "back_up"]
    jobs = [Job(number, role, home, workspace, tmp_path) for number, role in enumerate(roles)]
    workers = [SPAWN.Process(target=work, args=(job,), daemon=True) for job in jobs]
    for worker in workers:
        worker.start()
    until = time.monotonic() + size
    while time.monotonic() < until and all(worker.is_alive() for worker in workers):
        time.sleep(0.1)
    jobs[0].over.touch()
    for worker in workers:
        worker.join()
    assert [job.failure.read_text() for job in jobs if job.failure.exists()] == []
    reports = [json.loads(job.report.read_text()) for job in jobs]
    facts = {fact: text for report in reports for fact, text in report["facts"].items()}
    check_whole(home, workspace, {**facts, first.id: first.text})
    counts = sum((Counter(report["counts"]) for report in reports), Counter[str]())
    print_figures("processes", processes=len(jobs), seconds=size, **counts, lost=0, came_back=0)


def check_whole(home: Path, workspace: Path, facts: dict[str, str]) -> None:
    """The home has exactly these facts, and the index is as if it were new."""
    with Memory(settings={"embedding.chain": ("test",)}) as memory:
        memory.index(workspace)
        assert {fact.id: fact.text for fact in memory.facts.find(FactFilter())} == facts
        assert memory.verify() == []
        assert memory.fill().left == 0
        assert memory.status(deep=True).deep["integrity"] == "ok"
        (space,) = [space for space in memory.spaces() if space.state == "live"]
        assert space.embedded == space.chunks
        memory.backup(home.with_name("last.db"))
    with Memory(home.with_name("fresh"), settings={"embedding.chain": ()}) as memory:
        memory.restore(home.with_name("last.db"))
        memory.index(workspace)
        memory.search("apple")
    # Restoring gives facts another revision, but the index has none.
    used, new = (contents(index_file(folder)) for folder in (home, home.with_name("fresh")))
    for kind in used:
        extra, missing = (
            [row for row in one[kind] if row not in other[kind]][:5]
            for one, other in ((used, new), (new, used))
        )
        assert (kind, extra, missing) == (kind, [], [])
    assert used == new
