"""A server under load: 50 clients search and write at once, over loopback.

Searches by words and meaning (of counted words, which cost nothing) among 2,000 notes, with a fact
remembered after every tenth. None may fail, no fact may be lost, and the server may not grow: its
memory at the end against that after the same clients have warmed it up. In a second round one
worker is killed every few seconds; a request whose connection breaks is sent once more.

`MEMWELL_BENCH_BASE` may name the Python of an environment with another version of memwell, which
is then measured by turns in the same run.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.facts import _sentence as sentence
from bench.measure import temporary_home
from bench.results import Row, at_least, at_most

_CLIENTS = 50
_WARMING, _SEARCHES = 10, 80
"""Of each client."""
_SEARCHES_A_WRITE = 10
_NOTES = 2_000
_KILL_SECONDS = 10.0
BASE = "MEMWELL_BENCH_BASE"
_SEED = 7
_HEADERS = "content-type: application/json\r\ncontent-length: {}\r\n\r\n"


@dataclass(slots=True)
class _Seen:
    """What a client saw."""

    seconds: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Figures:
    """What a server did under load."""

    p50: float
    p99: float
    rate: float
    failed: int
    told: int
    lost: int
    before_mb: float
    after_mb: float


def run() -> list[Row]:
    """Load a server, and look at what it did; then the same while its workers are killed."""
    base = os.environ.get(BASE)
    old = _measure(base) if base else None
    new = _measure(sys.executable)
    killed = _measure(sys.executable, kills=True)
    faster = (
        [
            Row("searches a second / those of the base", new.rate / old.rate, "times", at_least(3)),
            Row("p99 / that of the base", new.p99 / old.p99, "times", at_most(1 / 3)),
        ]
        if old
        else []
    )
    rows = [*faster]
    for name, seen in (("the base", old), ("50 clients", new), ("workers killed", killed)):
        if seen:
            wanted = None if seen is old else at_most(0)
            rows += [
                Row(f"{name}: searches a second", seen.rate, ""),
                Row("  p50 of a search", seen.p50, "ms"),
                Row("  p99 of a search", seen.p99, "ms"),
                Row("  requests that failed", seen.failed, "", wanted),
                Row("  facts acknowledged, then lost", seen.lost, f"of {seen.told}", wanted),
                Row("  memory of all processes, in the end", seen.after_mb, "MB"),
                Row("  memory in the end / after warming", seen.after_mb / seen.before_mb, "times"),
            ]
    return rows


def _measure(python: str, *, kills: bool = False) -> _Figures:
    with temporary_home("test") as home, _server(home, python) as (process, address):
        first = _loaded(address, _WARMING)
        before = _resident_mb(process.pid)
        over = threading.Event()
        killer = threading.Thread(target=_kill_workers, args=(process.pid, over))
        if kills:
            killer.start()
        started = time.perf_counter()
        rest = _loaded(address, _SEARCHES)
        lasted = time.perf_counter() - started
        over.set()
        if kills:
            killer.join()
        after = _resident_mb(process.pid)
        kept = {fact["text"] for fact in _facts(address)}
    seen = [*first, *rest]
    times = sorted(taken for one in rest for taken in one.seconds)
    cuts = quantiles(times, n=100)
    return _Figures(
        1000 * cuts[49],
        1000 * cuts[98],
        len(times) / lasted,
        sum(len(one.failed) for one in seen),
        sum(len(one.told) for one in seen),
        sum(text not in kept for one in seen for text in one.told),
        before,
        after,
    )


def _kill_workers(parent: int, over: threading.Event) -> None:
    chance = random.Random(_SEED)
    while not over.wait(_KILL_SECONDS):
        if workers := _children(parent):
            os.kill(chance.choice(workers), signal.SIGKILL)


def _children(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")
    return [int(child) for child in children.split()]


@contextmanager
def _server(home: Path, python: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `memwell serve` among some notes."""
    notes = home / "notes"
    notes.mkdir()
    chance = random.Random(_SEED)
    for number in range(_NOTES):
        text = "\n\n".join(sentence(chance, number) for _ in range(5))
        (notes / f"{number}.md").write_text(f"# Note {number}\n\n{text}\n", encoding="utf-8")
    subprocess.run(
        [python, "-m", "memwell", "index", str(notes)], check=True, capture_output=True, cwd=home
    )
    command = [python, "-m", "memwell", "serve", "--port", "0", "--workspace", str(notes)]
    takes = subprocess.run([*command[:4], "--help"], capture_output=True, text=True, check=True)
    command += ["--no-token"] if "--no-token" in takes.stdout else []
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=home)
    assert process.stderr is not None
    try:
        yield process, process.stderr.readline().split()[3].removeprefix("http://")
    finally:
        process.terminate()
        process.stderr.read()
        process.wait()


def _loaded(address: str, searches: int) -> list[_Seen]:
    with ThreadPoolExecutor(_CLIENTS) as threads:
        asked = [
            threads.submit(_client, address, f"{searches}/{n}", searches) for n in range(_CLIENTS)
        ]
        return [one.result() for one in asked]


def _client(address: str, name: str, searches: int) -> _Seen:
    """Search, and remember now and then, over one connection."""
    chance, seen = random.Random(name), _Seen()
    with closing(_Client(address)) as connection:
        for turn in range(searches):
            query = " ".join(sentence(chance, turn).split()[1:5])
            started = time.perf_counter()
            status = _send(connection, "/api/search", {"query": query})
            seen.seconds.append(time.perf_counter() - started)
            if status != 200:
                seen.failed.append(f"{status}")
            if turn % _SEARCHES_A_WRITE == 0:
                text = sentence(chance, turn)
                status = _send(connection, "/api/remember", {"text": text})
                (seen.told if status == 200 else seen.failed).append(text)
    return seen


def _send(client: _Client, path: str, body: object) -> int:
    """Send a request, and again if the connection breaks; return the status, 0 without one."""
    for _ in range(2):
        try:
            return client.post(path, body)
        except OSError:
            client.close()
    return 0


class _Client:
    """A connection that sends JSON. It shares the processor with the server, so it does little."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket: socket.socket | None = None

    def post(self, path: str, body: object) -> int:
        """Send a request, read the response, and return its status."""
        if self._socket is None:
            host, port = self._address.rsplit(":", 1)
            self._socket = socket.create_connection((host, int(port)), timeout=60)
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: {self._address}\r\n" + _HEADERS.format(len(content))
        self._socket.sendall(head.encode() + content)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._receive()
        first, _, rest = received.partition(b"\r\n\r\n")
        length = re.search(rb"\ncontent-length: (\d+)", first.lower())
        assert length, first
        left = int(length[1]) - len(rest)
        while left > 0:
            left -= len(self._receive())
        return int(first.split(None, 2)[1])

    def _receive(self) -> bytes:
        assert self._socket
        if not (part := self._socket.recv(1 << 16)):
            raise ConnectionResetError
        return part

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket:
            self._socket.close()
        self._socket = None


def _facts(address: str) -> list[dict[str, Any]]:
    with closing(HTTPConnection(address, timeout=60)) as connection:
        connection.request("GET", "/api/facts?limit=10000")
        facts: list[dict[str, Any]] = json.loads(connection.getresponse().read())["facts"]
        return facts


def _resident_mb(parent: int) -> float:
    """Return the memory that the processes of a server use; what they share counts once."""
    total = 0
    for process in (parent, *_children(parent)):
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
        total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    return total / 1000
