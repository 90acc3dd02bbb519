"""One store in its environment: it runs the child processes and keeps their figures."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from bench.peers.catalogue import Product
from bench.peers.environments import run_environment
from bench.peers.table import Figures
from memwell.evaluate.dataset import Dataset
from memwell.evaluate.metrics import ndcg

TIMED_SET = "scifact"
"""The largest of the sets: times, memory and disk are measured on it."""
_SECONDS = 900
_LONG_BUILD = 60
_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_Times = list[tuple[float, float]]


class FailedError(Exception):
    """A measurement ended with an error; the message is its last line."""


@dataclass(slots=True)
class Peer:
    """A peer in its environment, and what has been measured of it."""

    product: Product
    python: Path
    sets: Mapping[str, Path]
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
        return [tuple(row) for row in self._call("packages", TIMED_SET)[0]]

    def build(self, name: str) -> None:
        """Write the index of a set anew; not again if that took long the first time."""
        if name == TIMED_SET and self.builds and self.builds[0][1] > _LONG_BUILD:
            return
        shutil.rmtree(self._store(name), ignore_errors=True)
        found, _ = self._call("build", name)
        if name == TIMED_SET:
            self.builds.append((found["cpu"], found["wall"]))
            self.build_peaks.append(found["peak"])

    def ask_cold(self) -> None:
        """Measure a new process that asks one question."""
        found, times = self._call("cold", TIMED_SET)
        if not found["found"]:
            raise FailedError("no passage found")
        self.cold.append(times)

    def ask_warm(self) -> None:
        """Measure an open store that is asked many questions."""
        found, _ = self._call("warm", TIMED_SET)
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
            name=self.product.label,
            search=self.product.search,
            index=_medians(self.builds),
            cold=_medians(self.cold),
            warm=_medians(self.warm),
            peak=median(self.peaks),
            index_peak=median(self.build_peaks),
            disk=sum(f.stat().st_size for f in self._store(TIMED_SET).rglob("*") if f.is_file()),
            ndcg=self.ndcg,
        )

    def _store(self, name: str) -> Path:
        return self.stores / self.product.name / name

    def _call(self, action: str, name: str) -> tuple[Any, tuple[float, float]]:
        """Run an action; return its result, and the processor and wall time of the process."""
        store = self._store(name)
        store.mkdir(parents=True, exist_ok=True)
        command = [str(self.python), "-m", "bench.peers.child", action, self.product.name]
        environment = run_environment(self.stores / self.product.name)
        before, begun = _child_seconds(), time.perf_counter()
        try:
            child = subprocess.run(
                [*command, str(self.sets[name]), str(store)],
                cwd=_REPOSITORY,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"{action} took more than {_SECONDS} s") from None
        waited, spent = time.perf_counter() - begun, _child_seconds() - before
        print(f"{self.product.name}: {action} {name}, {waited:.1f} s", file=sys.stderr, flush=True)
        if child.returncode:
            raise FailedError((child.stderr.strip().splitlines() or ["no message"])[-1])
        return json.loads(child.stdout.splitlines()[-1]), (spent, waited)


def _child_seconds() -> float:
    """Return the processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def document_ranking(passages: Sequence[str], documents: Mapping[str, str]) -> list[str]:
    """Return the documents of passages, each once, at the place of its best passage."""
    return [*dict.fromkeys(documents[passage.split("#")[0]] for passage in passages)]


def _medians(times: _Times) -> tuple[float, float]:
    return median(spent for spent, _ in times), median(waited for _, waited in times)
