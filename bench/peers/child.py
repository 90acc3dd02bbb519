"""`python -m bench.peers.child ACTION PEER SET STORE`: one measurement, in the peer's environment.

The actions are build, cold (one question), warm (many questions), answers and packages. The result
is one line of JSON, the last one on standard output.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.peak_memory import peak_bytes
from bench.peers.catalogue import BY_NAME, Product
from bench.peers.passages import Passages

SHOWN = 10
"""Passages that a question asks for while time is measured."""
DEPTH = 50
"""Passages from which the first ten documents are taken, to measure quality."""
_WARMING, _MEASURED = 5, 50


def main(action: str, peer: str, passages: Path, store: Path) -> None:
    """Run one action and print what it found."""
    result: object
    if action == "packages":
        result = list_packages(BY_NAME[peer])
    else:
        driver = importlib.import_module(f"bench.peers.drivers.{peer}")
        result = _ACTIONS[action](driver, Passages(passages, driver.VECTORS), store)
    print(json.dumps(result), flush=True)


def _build(driver: Any, passages: Passages, store: Path) -> dict[str, float]:
    """Write all passages, which are in memory before the clock starts, to an empty store."""
    for name in driver.READS:
        getattr(passages, name)
    begun, spent = time.perf_counter(), time.process_time()
    driver.build(store, passages)
    return {
        "wall": time.perf_counter() - begun,
        "cpu": time.process_time() - spent,
        "peak": peak_bytes(),
    }


def _cold(driver: Any, passages: Passages, store: Path) -> dict[str, object]:
    """Open the store and ask one question; the parent measures the whole process."""
    question = passages.questions[0]
    search = driver.connect(store, passages)
    return {"found": len(search(question.text, passages.vector(question.row), SHOWN))}


def _warm(driver: Any, passages: Passages, store: Path) -> dict[str, object]:
    """Ask many questions of an open store."""
    search = driver.connect(store, passages)
    asked = [(one.text, passages.vector(one.row)) for one in passages.questions]
    walls, cpus = [], []
    for text, vector in (asked[:_WARMING] + asked)[: _WARMING + _MEASURED]:
        begun, spent = time.perf_counter(), time.process_time()
        search(text, vector, SHOWN)
        walls.append(time.perf_counter() - begun)
        cpus.append(time.process_time() - spent)
    return {"walls": walls[_WARMING:], "cpus": cpus[_WARMING:], "peak": peak_bytes()}


def _answers(driver: Any, passages: Passages, store: Path) -> dict[str, list[str]]:
    """Ask every question."""
    search = driver.connect(store, passages)
    return {one.id: search(one.text, passages.vector(one.row), DEPTH) for one in passages.questions}


def list_packages(product: Product) -> list[tuple[str, str, str]]:
    """List the packages of a store, each with its version and its licence."""
    from importlib.metadata import metadata

    found = []
    for name in product.packages:
        fields = metadata(name)
        trove = [text for text in fields.get_all("Classifier", []) if text.startswith("License")]
        named = [fields[key] for key in ("License-Expression", "License") if key in fields]
        licence = (
            (*named, *trove, "unknown")[0].splitlines()[0].split(" :: ")[-1].split(": http")[0]
        )
        found.append((fields["Name"], fields["Version"], licence))
    return found


_ACTIONS: dict[str, Callable[[Any, Passages, Path], object]] = {
    "build": _build,
    "cold": _cold,
    "warm": _warm,
    "answers": _answers,
}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
