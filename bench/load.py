"""A server under load: 50 clients search and write at once, over loopback.

10,000 searches by words and meaning (of counted words, which cost nothing) among 2,000 notes,
with a fact remembered after every tenth. None may fail, no fact may be lost, and the server may
not grow: its memory at the end against that after the same clients have warmed it up.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
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
from bench.results import Row, at_most
from memwell import Memory

_CLIENTS = 50
_WARMING, _SEARCHES = 40, 200
"""Of each client."""
_SEARCHES_A_WRITE = 10
_NOTES = 2_000
SERVE = (sys.executable, "-m", "memwell", "serve")
_SEED = 7


@dataclass(slots=True)
class _Seen:
    """What a client saw."""

    seconds: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def run() -> list[Row]:
    """Load a server, and look at what it did."""
    with temporary_home("test") as home, _server(home) as (process, address):
        first = _loaded(address, _WARMING)
        before = _resident_mb(process.pid)
        started = time.perf_counter()
        rest = _loaded(address, _SEARCHES)
        lasted = time.perf_counter() - started
        after = _resident_mb(process.pid)
        kept = {fact["text"] for fact in _ask(address, "GET", "/api/facts?limit=10000")["facts"]}
    seen = [*first, *rest]
    times = [one for client in rest for one in client.seconds]
    cuts = quantiles(times, n=100)
    lost = sum(text not in kept for client in seen for text in client.told)
    return [
        Row(
            "searches by 50 clients that failed",
            sum(len(one.failed) for one in seen),
            "",
            at_most(0),
        ),
        Row(
            "facts acknowledged, then lost",
            lost,
            f"of {sum(len(one.told) for one in seen)}",
            at_most(0),
        ),
        Row("memory after the load / before", after / before, "times", at_most(1.2)),
        Row("  before", before, "MB"),
        Row("p50 of a search", 1000 * cuts[49], "ms"),
        Row("p99 of a search", 1000 * cuts[98], "ms"),
        Row("searches a second", len(times) / lasted, ""),
    ]


@contextmanager
def _server(home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `memwell serve` among some notes."""
    notes = home / "notes"
    notes.mkdir()
    chance = random.Random(_SEED)
    for number in range(_NOTES):
        text = "\n\n".join(sentence(chance, number) for _ in range(5))
        (notes / f"{number}.md").write_text(f"# Note {number}\n\n{text}\n", encoding="utf-8")
    with Memory(workspace=notes) as memory:
        memory.index(notes)
    process = subprocess.Popen(
        [*SERVE, "--no-token", "--port", "0", "--workspace", str(notes)],
        stderr=subprocess.PIPE,
        text=True,
    )
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
    with closing(HTTPConnection(address, timeout=60)) as connection:
        for turn in range(searches):
            query = " ".join(sentence(chance, turn).split()[1:5])
            started = time.perf_counter()
            status, _ = _asked(connection, "POST", "/api/search", {"query": query})
            seen.seconds.append(time.perf_counter() - started)
            if status != 200:
                seen.failed.append(f"{status}")
            if turn % _SEARCHES_A_WRITE == 0:
                text = sentence(chance, turn)
                status, _ = _asked(connection, "POST", "/api/remember", {"text": text})
                (seen.told if status == 200 else seen.failed).append(text)
    return seen


def _ask(address: str, method: str, path: str) -> Any:
    with closing(HTTPConnection(address, timeout=60)) as connection:
        return json.loads(_asked(connection, method, path, None)[1])


def _asked(connection: HTTPConnection, method: str, path: str, body: object) -> tuple[int, bytes]:
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def _resident_mb(pid: int) -> float:
    """Return the memory that a process has in use."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000
