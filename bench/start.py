"""How long a search from the shell takes, with the interpreter's own start beside it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from statistics import median

from bench import data
from bench.measure import seconds, temporary_home
from bench.results import Row, at_most
from memwell.ingest.recipe import Recipe
from memwell.memory import Memory

_SEED = 3
_CHUNKS = 10_000
_ROUNDS = 15
_QUERY = "how does a pod get its IP address"


def run() -> list[Row]:
    """Search about 10,000 chunks of k8s-en from the shell, and start Python alone, by turns."""
    root = data.workspace("k8s-en")
    with temporary_home() as folder:
        chunks = _copy_some(root, folder / "notes")
        with Memory() as memory:
            memory.index(folder / "notes")
        program = str(Path(sysconfig.get_path("scripts")) / "memwell")
        searching = [program, "search", _QUERY, "--workspace", str(folder / "notes")]
        nothing = [sys.executable, "-c", "pass"]
        for command in (searching, searching, nothing):
            _call(command)  # the first call writes the bytecode that later ones load
        pairs = [
            (seconds(lambda: _call(searching)), seconds(lambda: _call(nothing)))
            for _ in range(_ROUNDS)
        ]
    cold, python = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    detail = {"chunks": chunks, "memwell_s": cold, "python_s": python}
    return [
        Row("search from the shell, 10,000 chunks", median(cold), "s", at_most(0.25), detail),
        Row("  python -c pass", median(python), "s"),
    ]


def _copy_some(root: Path, to: Path) -> int:
    """Copy notes taken at random until they make enough chunks; return how many they make."""
    paths = data.note_paths(root)
    random.Random(_SEED).shuffle(paths)
    chunks = 0
    for path in paths:
        if chunks >= _CHUNKS:
            break
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, to / path)
        chunks += len(data.read_note(root, path, Recipe()).chunks)
    return chunks


def _call(command: list[str]) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
