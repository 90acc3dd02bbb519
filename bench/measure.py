"""Clocks and temporary homes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.data import VARIABLE


def seconds(action: Callable[[], object]) -> float:
    """Return how long `action` takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


@contextmanager
def temporary_home(chain: str = "") -> Iterator[Path]:
    """Lend a folder that holds a memwell home, and let memwell see no other setting.

    There are no vectors unless a `chain` of providers is named.
    """
    before = {name: value for name, value in os.environ.items() if name.startswith("MEMWELL_")}
    with tempfile.TemporaryDirectory(prefix="memwell-bench-") as folder:
        _replace_settings(
            {
                "MEMWELL_HOME": f"{folder}/home",
                "MEMWELL_CONFIG": f"{folder}/config",
                "MEMWELL_EMBEDDING_CHAIN": chain,
                **{name: value for name, value in before.items() if name == VARIABLE},
            }
        )
        try:
            yield Path(folder)
        finally:
            _replace_settings(before)


def _replace_settings(settings: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("MEMWELL_")]:
        del os.environ[name]
    os.environ.update(settings)
