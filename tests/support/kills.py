"""Operations that are killed with SIGKILL, at the n-th write or at any moment.

``python -m tests.support.kills`` is a server of such operations: it has imported memwell once and
forks a process for each job, so that a kill takes milliseconds instead of the start of a program.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import apsw

from memwell import Memory
from memwell.embed.testing import WordCounts
from memwell.facts.comparison import normalised
from memwell.progress import no_progress
from memwell.store.copy.locations import open_location
from memwell.store.copy.memory import copy_memory
from memwell.store.vectors.backend import BackendSetting

# -- the n-th write --------------------------------------------------------------------------------


class Fuse:
    """Counts the writes of this process, and kills it at one of them."""

    def __init__(self, at: int) -> None:
        """`at` 0 only counts."""
        self.at = at
        self.count = 0

    def is_due(self) -> bool:
        self.count += 1
        return self.count == self.at

    def burn(self) -> None:
        if self.is_due():
            kill_myself()


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FusedFiles(apsw.VFS):
    """The files of SQLite: each write, sync, truncation and deletion counts."""

    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse
        self.base = apsw.vfs_names()[0]
        super().__init__("fused", self.base, makedefault=True)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.fuse.burn()
        super().xDelete(filename, syncdir)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return FusedFile(self.fuse, self.base, name, flags)


class FusedFile(apsw.VFSFile):
    """One file of SQLite; a write that kills the process is written in part."""

    def __init__(
        self, fuse: Fuse, base: str, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self.fuse = fuse
        super().__init__(base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.fuse.is_due():
            if offset % 3:
                super().xWrite(data[: len(data) // 2], offset)
            kill_myself()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.fuse.burn()
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        self.fuse.burn()
        super().xTruncate(newsize)


_INSTALLED: list[FusedFiles] = []
"""SQLite forgets files of Python that nothing refers to."""


def install(fuse: Fuse) -> None:
    """Count what this process writes: through SQLite, and what it renames, removes and syncs."""
    _INSTALLED.append(FusedFiles(fuse))  # as the default, on which the checksums are built
    for name in ("replace", "rename", "unlink", "fsync", "open"):
        setattr(os, name, _fused(fuse, getattr(os, name), is_open=name == "open"))


def _fused(fuse: Fuse, call: Any, *, is_open: bool) -> Any:
    def counted(*arguments: Any, **options: Any) -> Any:
        if not is_open or arguments[1] & os.O_CREAT:
            fuse.burn()
        return call(*arguments, **options)

    return counted


# -- operations ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """What a process shall do; it writes a line for each step that memwell acknowledged."""

    operation: str
    home: str
    acknowledged: str
    arguments: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    model: str = "words"
    tenant: str = "default"
    at: int = 0

    def run(self) -> int:
        """Do it, and return how often it wrote."""
        fuse = Fuse(self.at)
        install(fuse)
        settings = {"embedding.chain": ["test"], **self.settings}
        if "store.url" in settings or any(
            word.startswith("postgresql:") for word in self.arguments
        ):
            install_on_server(fuse)
        if settings.get("vectors.backend") == "lancedb":
            install_on_lance(fuse)
        with (
            open(self.acknowledged, "ab", buffering=0) as log,
            Memory(
                self.home, settings=settings, embedders={"test": lambda _: WordCounts(self.model)}
            ) as memory,
        ):
            for line in OPERATIONS[self.operation](memory, self):
                log.write(f"{line}\n".encode())
        return fuse.count


def install_on_server(fuse: Fuse) -> None:
    """Count each statement that is sent to PostgreSQL, and each commit."""
    import psycopg

    for owner, name in (
        (psycopg.Cursor, "execute"),
        (psycopg.Cursor, "executemany"),
        (psycopg.Connection, "commit"),
    ):
        setattr(owner, name, _fused(fuse, getattr(owner, name), is_open=False))


def install_on_lance(fuse: Fuse) -> None:
    """Count each change of a table of LanceDB, before it and after it."""
    from memwell.store.vectors.lance_tables import Tables

    for name in ("add", "create", "drop", "tidy", "ensure_index"):
        call = getattr(Tables, name)

        def counted(*arguments: Any, call: Any = call, **options: Any) -> Any:
            fuse.burn()
            result = call(*arguments, **options)
            fuse.burn()
            return result

        setattr(Tables, name, counted)


def remember(memory: Memory, job: Job) -> Iterator[str]:
    for text in job.arguments:
        done = memory.remember(text, scope="global")
        assert done.outcome in ("added", "reinforced"), done
        yield f"{done.fact.id} {text}"


def forget(memory: Memory, job: Job) -> Iterator[str]:
    for fact in job.arguments:
        if not memory.forget(fact).pending:
            yield fact


def sync(memory: Memory, job: Job) -> Iterator[str]:
    for folder in job.arguments:
        memory.index(folder)
        yield folder


def backup(memory: Memory, job: Job) -> Iterator[str]:
    for file in job.arguments:
        memory.backup(file, force=True)
        yield file


def restore(memory: Memory, job: Job) -> Iterator[str]:
    for file in job.arguments:
        memory.restore(file)
        yield file


def copy(memory: Memory, job: Job) -> Iterator[str]:
    for target in job.arguments:
        places = [
            open_location(name, job.tenant, Path(job.home), BackendSetting(), is_there=False)
            for name in (job.home, target)
        ]
        report = copy_memory(
            places[0],
            places[1],
            normalised,
            lambda _: contextlib.nullcontext(no_progress),
            into_existing=True,
        )
        assert report.same, report
        yield target


def migrate(memory: Memory, job: Job) -> Iterator[str]:
    memory.search("lamp")
    memory.fill()
    yield job.home


OPERATIONS = {
    "sync": sync,
    "remember": remember,
    "forget": forget,
    "embed": sync,
    "backup": backup,
    "restore": restore,
    "copy": copy,
    "migrate": migrate,
}


# -- the server of operations ----------------------------------------------------------------------


class Operations:
    """A process that forks a process for each job."""

    def __init__(self, *modules: str) -> None:
        """The process imports these modules once, before it forks."""
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.support.kills", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Operations:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def start(self, job: Job) -> int:
        """Start a job; return the id of its process."""
        assert self._server.stdin
        self._server.stdin.write(json.dumps(asdict(job)) + "\n")
        self._server.stdin.flush()
        return int(self._answer())

    def end(self) -> int | None:
        """Wait for the job; return how often it wrote, or None if it was killed."""
        status, writes = self._answer().split()
        assert status in ("0", str(-signal.SIGKILL)), "the operation failed: see standard error"
        return int(writes) if status == "0" else None

    def _answer(self) -> str:
        assert self._server.stdout
        answer = self._server.stdout.readline()
        assert answer, "the process that forks ended"
        return answer


class Killer:
    """Kills jobs, in turn at one of their writes and at any moment; counts the kills."""

    def __init__(self, operations: Operations, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kills = self.at_a_write = 0
        self._operations = operations
        self._cost: dict[str, tuple[int, float]] = {}
        """The writes and seconds of an operation that was not killed."""

    def let_end(self, job: Job) -> None:
        """Run a job without killing it."""
        self._operations.start(job)
        assert self._operations.end() is not None

    def kill(self, job: Job) -> bool:
        """Kill a job; False if it ended before. The first one of an operation may end."""
        writes, seconds = self._cost.get(job.operation, (0, 0.0))
        at_a_write = self.at_a_write * 2 <= self.kills
        at = self.chance.randint(1, writes) if at_a_write and writes else 0
        started = time.monotonic()
        pid = self._operations.start(replace(job, at=at))
        if writes and not at:
            time.sleep(self.chance.uniform(0, seconds))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended = self._operations.end()
        if ended is None:
            self.kills += 1
            self.at_a_write += bool(at)
        else:
            # A later run may be shorter: what is measured follows it.
            seconds = min(seconds or 1e9, time.monotonic() - started) * 0.95
            self._cost[job.operation] = max(ended, 1), seconds
        return ended is None


def serve() -> None:
    """Fork a process for each job on standard input; print its id, then its status and writes."""
    for line in sys.stdin:
        received, sent = os.pipe()
        pid = os.fork()
        if not pid:
            _run_forked(Job(**json.loads(line)), sent)
        os.close(sent)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        with open(received, "rb") as pipe:
            writes = pipe.read().decode() or "0"
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {writes}\n")
        sys.stdout.flush()


def _run_forked(job: Job, sent: int) -> None:
    try:
        os.write(sent, str(job.run()).encode())
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        import_module(name)
    serve()
