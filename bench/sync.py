"""How long it takes to see that nothing has changed."""

from __future__ import annotations

from statistics import median

from bench import data
from bench.measure import seconds, temporary_home
from bench.results import Row, at_most
from memwell.memory import Memory

_ROUNDS = 5


def run() -> list[Row]:
    """Index k8s-en, sync it once unmeasured, then several times more."""
    root = data.workspace("k8s-en")
    with temporary_home(), Memory() as memory:
        memory.index(root)
        memory.index(root)
        times = [seconds(lambda: memory.index(root)) for _ in range(_ROUNDS)]
    return [
        Row("sync of k8s-en, nothing changed", median(times), "s", at_most(0.3), {"all_s": times})
    ]
