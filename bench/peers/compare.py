"""`python -m bench peers`: memwell beside other local stores, in one run and by turns.

1. memwell cuts three labelled sets into passages and embeds them and the questions, once
2. every peer stores the same passages with the same vectors, a process for each set
3. by turns: build the index of the largest set again, ask one question in a new process, ask many
4. every peer answers all questions of all sets, and nDCG@10 is computed from the documents
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

import platformdirs

from bench import data
from bench.peers.environments import CannotInstallError, install, run_environment
from bench.peers.inputs import write_set
from bench.peers.table import Figures, package_table, table
from bench.results import Row, at_least, at_most
from memwell.evaluate.dataset import Dataset
from memwell.evaluate.metrics import ndcg

TIMED = "scifact"
"""The largest of the sets: times, memory and disk are measured on it."""
SETS = (TIMED, "anthropic-docs", "xquad-en")
MEMWELL = "memwell"
PEERS = ("chromadb", "lancedb", "txtai", "sqlite_utils", "llm", "mem0")
_BUILDS, _COLD, _WARM = 3, 9, 3
_SECONDS = 900
_FOLDER = Path(platformdirs.user_cache_dir("memwell-bench", appauthor=False)) / "peers"
_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_Times = list[tuple[float, float]]


class FailedError(Exception):
    """A measurement ended with an error; the message is its last line."""


@dataclass(slots=True)
class Peer:
    """A peer in its environment, and what has been measured of it."""

    name: str
    python: Path
    stores: Path
    builds: _Times = field(default_factory=list)
    cold: _Times = field(default_factory=list)
    warm: _Times = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    build_peaks: list[float] = field(default_factory=list)
    ndcg: dict[str, float] = field(default_factory=dict)

    @property
    def packages(self) -> list[tuple[str, str, str]]:
        """The packages compared, with version and licence."""
        return [tuple(row) for row in self._call("packages", TIMED)[0]]

    def build(self, name: str) -> None:
        """Write the index of a set anew."""
        shutil.rmtree(self._store(name), ignore_errors=True)
        found, _ = self._call("build", name)
        if name == TIMED:
            self.builds.append((found["cpu"], found["wall"]))
            self.build_peaks.append(found["peak"])

    def ask_cold(self) -> None:
        """Measure a new process that asks one question."""
        found, times = self._call("cold", TIMED)
        if not found["found"]:
            raise FailedError("no passage found")
        self.cold.append(times)

    def ask_warm(self) -> None:
        """Measure an open store that is asked many questions."""
        found, _ = self._call("warm", TIMED)
        self.warm.append((median(found["cpus"]), median(found["walls"])))
        self.peaks.append(found["peak"])

    def answer(self, name: str, dataset: Dataset, documents: Mapping[str, str]) -> None:
        """Measure the quality on a set."""
        found, _ = self._call("answers", name)
        self.ndcg[name] = fmean(
            ndcg(document_ranking(found[question.id], documents), dataset.relevant[question.id])
            for question in dataset.questions
        )

    def figures(self) -> Figures:
        """Return the medians."""
        return Figures(
            name=" with ".join(
                _constant(self.name, "PACKAGES")[: 2 if self.name == "sqlite_utils" else 1]
            ),
            search=_constant(self.name, "SEARCH"),
            index=_medians(self.builds),
            cold=_medians(self.cold),
            warm=_medians(self.warm),
            peak=median(self.peaks),
            index_peak=median(self.build_peaks),
            disk=sum(f.stat().st_size for f in self._store(TIMED).rglob("*") if f.is_file()),
            ndcg=self.ndcg,
        )

    def _store(self, name: str) -> Path:
        return self.stores / self.name / name

    def _call(self, action: str, name: str) -> tuple[Any, tuple[float, float]]:
        """Run an action; return its result, and the processor and wall time of the process."""
        store = self._store(name)
        store.mkdir(parents=True, exist_ok=True)
        command = [str(self.python), "-m", "bench.peers.child", action, self.name]
        environment = run_environment(self.stores / self.name)
        before, begun = os.times(), time.perf_counter()
        try:
            child = subprocess.run(
                [*command, str(_FOLDER / "sets" / name), str(store)],
                cwd=_REPOSITORY,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"{action} took more than {_SECONDS} s") from None
        waited, after = time.perf_counter() - begun, os.times()
        print(f"{self.name}: {action} {name}, {waited:.1f} s", file=sys.stderr, flush=True)
        if child.returncode:
            raise FailedError((child.stderr.strip().splitlines() or ["no message"])[-1])
        spent = after.children_user + after.children_system
        spent -= before.children_user + before.children_system
        return json.loads(child.stdout.splitlines()[-1]), (spent, waited)


def run() -> list[Row]:
    """Compare all peers that can be installed, print the tables and return memwell's ratios."""
    datasets = {name: data.labelled_set(name) for name in SETS}
    documents = {
        name: write_set(dataset, _FOLDER / "sets" / name) for name, dataset in datasets.items()
    }
    with tempfile.TemporaryDirectory(prefix="memwell-peers-") as stores:
        peers = [*_installed(Path(stores))]
        for step in _steps(datasets, documents):
            for peer in [*peers]:
                try:
                    step(peer)
                except FailedError as error:
                    print(f"{peer.name}: left out, {error}", flush=True)
                    peers.remove(peer)
        figures = [peer.figures() for peer in peers]
        packages = [package for peer in peers for package in peer.packages]
    print(f"\n{table(figures)}\n\n{package_table(packages)}\n", flush=True)
    return rows(figures)


def _installed(stores: Path) -> Iterator[Peer]:
    """Yield memwell, and every peer whose packages can be had."""
    yield Peer(MEMWELL, Path(sys.executable), stores)
    for name in PEERS:
        try:
            python = install(_FOLDER / "environments" / name, _constant(name, "PACKAGES"))
        except CannotInstallError as error:
            print(f"{name}: left out, {error}", flush=True)
            continue
        yield Peer(name, python, stores)


def _steps(
    datasets: Mapping[str, Dataset], documents: Mapping[str, Mapping[str, str]]
) -> Iterator[Callable[[Peer], None]]:
    """Yield what every peer does before the next step begins."""
    for name in SETS:
        for _ in range(_BUILDS if name == TIMED else 1):
            yield lambda peer, name=name: peer.build(name)  # type: ignore[misc]
    yield Peer.ask_cold  # writes bytecode, and brings the files into memory
    yield lambda peer: peer.cold.clear()
    for _ in range(_COLD):
        yield Peer.ask_cold
    for _ in range(_WARM):
        yield Peer.ask_warm
    for name in SETS:
        yield lambda peer, name=name: peer.answer(name, datasets[name], documents[name])  # type: ignore[misc]


def document_ranking(passages: Sequence[str], documents: Mapping[str, str]) -> list[str]:
    """Return the documents of passages, each once, at the place of its best passage."""
    return [*dict.fromkeys(documents[passage.split("#")[0]] for passage in passages)]


def rows(figures: Sequence[Figures]) -> list[Row]:
    """Return how memwell compares with the best peer in each figure, by processor time."""
    own = next(one for one in figures if one.name == MEMWELL)
    others = [one for one in figures if one is not own]
    if not others:
        return []
    found = [
        Row(
            "index, memwell / fastest",
            own.index[0] / min(one.index[0] for one in others),
            "times",
            at_most(2),
        ),
        Row(
            "cold query, memwell / fastest",
            own.cold[0] / min(one.cold[0] for one in others),
            "times",
            at_most(1.1),
        ),
        Row(
            "warm query, memwell / fastest",
            own.warm[0] / min(one.warm[0] for one in others),
            "times",
            at_most(1.1),
        ),
        Row(
            "memory, memwell / least",
            own.peak / min(one.peak for one in others),
            "times",
            at_most(1.1),
        ),
        Row("disk, memwell / least", own.disk / min(one.disk for one in others), "times"),
    ]
    for name, figure in own.ndcg.items():
        best = max(one.ndcg[name] for one in others)
        found.append(Row(f"nDCG@10 {name}, memwell / best", figure / best, "times", at_least(0.9)))
    return found


def _medians(times: _Times) -> tuple[float, float]:
    return median(spent for spent, _ in times), median(waited for _, waited in times)


def _constant(peer: str, name: str) -> Any:
    """Return a constant of a driver, which cannot be imported here."""
    source = (Path(__file__).parent / "drivers" / f"{peer}.py").read_text(encoding="utf-8")
    found = re.search(rf"^{name} = (.+)$", source, re.M)
    assert found, (peer, name)
    return literal_eval(found.group(1))
