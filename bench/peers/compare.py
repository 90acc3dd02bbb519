"""`python -m bench peers`: memwell beside other local stores, in one run and by turns.

1. memwell cuts three labelled sets into passages and embeds them and the questions, once
2. by turns, each store in a process of its own: build the index of the largest set, ask one
   question in a new process, ask many of an open store
3. every store answers all questions of all sets, and nDCG@10 is computed from the documents
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import platformdirs

from bench import data
from bench.peers.catalogue import MEMWELL, PEERS
from bench.peers.environments import CannotInstallError, install
from bench.peers.inputs import sample, write_set
from bench.peers.peer import TIMED_SET, FailedError, Peer
from bench.peers.table import Figures, package_table, table
from bench.results import Row, Target, at_least, at_most

SETS = (TIMED_SET, "anthropic-docs", "xquad-en")
_BUILDS, _COLD, _WARM = 3, 5, 2
_AT_ONCE = 4
"""Processes while only quality is measured."""
_NEARLY_FIRST = 1.1
_FOLDER = Path(platformdirs.user_cache_dir("memwell-bench", appauthor=False)) / "peers"


def run() -> list[Row]:
    """Compare all peers that can be installed, print the tables and return memwell's ratios."""
    datasets = {name: sample(data.labelled_set(name)) for name in SETS}
    written = {name: write_set(dataset, _FOLDER / "sets") for name, dataset in datasets.items()}
    folders = {name: folder for name, (folder, _) in written.items()}
    documents = {name: of_notes for name, (_, of_notes) in written.items()}
    with tempfile.TemporaryDirectory(prefix="memwell-peers-") as stores:
        peers = [*_installed(folders, Path(stores))]
        for step in _timed_steps():
            peers = _keep_successful(step, peers)
        for name in SETS:
            answer = partial(
                Peer.answer, name=name, dataset=datasets[name], documents=documents[name]
            )
            if name != TIMED_SET:
                peers = _keep_successful(partial(Peer.build, name=name), peers, _AT_ONCE)
            peers = _keep_successful(answer, peers, _AT_ONCE)
        figures = [peer.figures() for peer in peers]
        packages = [package for peer in peers for package in peer.packages]
    print(f"\n{table(figures)}\n\n{package_table(packages)}\n", flush=True)
    return rows(figures)


def _installed(sets: Mapping[str, Path], stores: Path) -> Iterator[Peer]:
    """Yield memwell, and every peer whose packages can be had."""
    yield Peer(MEMWELL, Path(sys.executable), sets, stores)
    for product in PEERS:
        try:
            python = install(_FOLDER / "environments" / product.name, product.packages)
        except CannotInstallError as error:
            print(f"{product.label}: left out, {error}", flush=True)
            continue
        yield Peer(product, python, sets, stores)


def _timed_steps() -> Iterator[Callable[[Peer], None]]:
    """Yield the steps of which time is measured: each peer runs one before the next begins."""
    for _ in range(_BUILDS):
        yield partial(Peer.build, name=TIMED_SET)
    yield Peer.ask_cold  # writes bytecode, and brings the files into memory
    yield lambda peer: peer.cold.clear()
    for _ in range(_COLD):
        yield Peer.ask_cold
    for _ in range(_WARM):
        yield Peer.ask_warm


def _keep_successful(
    step: Callable[[Peer], None], peers: Sequence[Peer], at_once: int = 1
) -> list[Peer]:
    """Run a step for every peer and return those that did not fail; memwell must not."""

    def succeeds(peer: Peer) -> bool:
        try:
            step(peer)
        except FailedError as error:
            if peer.product is MEMWELL:
                raise
            print(f"{peer.product.label}: left out, {error}", flush=True)
            return False
        return True

    with ThreadPoolExecutor(at_once) as pool:
        return [peer for peer, kept in zip(peers, pool.map(succeeds, peers), strict=True) if kept]


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
