"""`python -m bench peers`: memwell beside other local stores, in one run and by turns.

1. memwell cuts three labelled sets into passages and embeds them and the questions, once
2. every peer stores the same passages with the same vectors, a process for each set
3. by turns: build the index of the largest set again, ask one question in a new process, ask many
4. every peer answers all questions of all sets, and nDCG@10 is computed from the documents
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import platformdirs

from bench import data
from bench.peers.catalogue import MEMWELL, PEERS
from bench.peers.environments import CannotInstallError, install
from bench.peers.inputs import write_set
from bench.peers.peer import TIMED_SET, FailedError, Peer
from bench.peers.table import Figures, package_table, table
from bench.results import Row, Target, at_least, at_most
from memwell.evaluate.dataset import Dataset

SETS = (TIMED_SET, "anthropic-docs", "xquad-en")
_BUILDS, _COLD, _WARM = 3, 9, 3
_NEARLY_FIRST = 1.1
_FOLDER = Path(platformdirs.user_cache_dir("memwell-bench", appauthor=False)) / "peers"
_SETS = _FOLDER / "sets"


def run() -> list[Row]:
    """Compare all peers that can be installed, print the tables and return memwell's ratios."""
    datasets = {name: data.labelled_set(name) for name in SETS}
    documents = {name: write_set(dataset, _SETS / name) for name, dataset in datasets.items()}
    with tempfile.TemporaryDirectory(prefix="memwell-peers-") as stores:
        peers = [*_installed(Path(stores))]
        for step in _steps(datasets, documents):
            for peer in [*peers]:
                try:
                    step(peer)
                except FailedError as error:
                    if peer.product is MEMWELL:
                        raise
                    print(f"{peer.product.label}: left out, {error}", flush=True)
                    peers.remove(peer)
        figures = [peer.figures() for peer in peers]
        packages = [package for peer in peers for package in peer.packages]
    print(f"\n{table(figures)}\n\n{package_table(packages)}\n", flush=True)
    return rows(figures)


def _installed(stores: Path) -> Iterator[Peer]:
    """Yield memwell, and every peer whose packages can be had."""
    yield Peer(MEMWELL, Path(sys.executable), _SETS, stores)
    for product in PEERS:
        try:
            python = install(_FOLDER / "environments" / product.name, product.packages)
        except CannotInstallError as error:
            print(f"{product.label}: left out, {error}", flush=True)
            continue
        yield Peer(product, python, _SETS, stores)


def _steps(
    datasets: Mapping[str, Dataset], documents: Mapping[str, Mapping[str, str]]
) -> Iterator[Callable[[Peer], None]]:
    """Yield what every peer does before the next step begins."""
    for name in SETS:
        for _ in range(_BUILDS if name == TIMED_SET else 1):
            yield partial(Peer.build, name=name)
    yield Peer.ask_cold  # writes bytecode, and brings the files into memory
    yield lambda peer: peer.cold.clear()
    for _ in range(_COLD):
        yield Peer.ask_cold
    for _ in range(_WARM):
        yield Peer.ask_warm
    for name in SETS:
        yield partial(Peer.answer, name=name, dataset=datasets[name], documents=documents[name])


def rows(figures: Sequence[Figures]) -> list[Row]:
    """Return how memwell compares with the best peer in each figure, by processor time."""
    own = next(one for one in figures if one.name == MEMWELL.label)
    others = [one for one in figures if one is not own]
    if not others:
        return []
    costs: dict[str, tuple[Callable[[Figures], float], Target | None]] = {
        "index": (lambda one: one.index[0], at_most(2)),
        "cold query": (lambda one: one.cold[0], at_most(_NEARLY_FIRST)),
        "warm query": (lambda one: one.warm[0], at_most(_NEARLY_FIRST)),
        "memory": (lambda one: one.peak, at_most(_NEARLY_FIRST)),
        "disk": (lambda one: one.disk, None),
    }
    found = [
        Row(
            f"{name}, memwell / least of the others",
            cost(own) / min(map(cost, others)),
            "times",
            target,
        )
        for name, (cost, target) in costs.items()
    ]
    for name, figure in own.ndcg.items():
        best = max(one.ndcg[name] for one in others)
        target = at_least(1 / _NEARLY_FIRST)
        found.append(Row(f"nDCG@10 {name}, memwell / best other", figure / best, "times", target))
    return found
