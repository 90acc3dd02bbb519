"""How long a search from the shell takes, with the interpreter's own start beside it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from bench import data
from bench.measure import seconds, temporary_home
from bench.results import Row, at_most
from memwell.embed.multilingual import Multilingual
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.memory import Memory
from memwell.store.contract.values import FILLING, Space
from memwell.store.sqlite.index import SqliteIndex

_SEED = 3
_CHUNKS = 10_000
_ROUNDS = 15
_QUERY = "how does a pod get its IP address"


def run() -> list[Row]:
    """Search 10,000 chunks from the shell by words, by meaning too, and start Python alone."""
    root = data.workspace("k8s-en")
    with temporary_home("bench") as folder:
        chunks = _copy_some(root, folder / "notes")
        with Memory() as memory:
            memory.index(folder / "notes", embed=False)
        _fill(folder)
        os.environ["MEMWELL_EMBEDDING_CHAIN"] = "memwell"
        program = str(Path(sysconfig.get_path("scripts")) / "memwell")
        place = ["--workspace", str(folder / "notes")]
        commands = {
            "words": [program, "search", _QUERY, *place, "--mode", "words"],
            "meaning": [program, "search", _QUERY, *place],
            "python": [sys.executable, "-c", "pass"],
        }
        for command in (*commands.values(), *commands.values()):
            _call(command)  # the first call writes the bytecode that later ones load
        rounds = [
            {name: seconds(partial(_call, command)) for name, command in commands.items()}
            for _ in range(_ROUNDS)
        ]
    detail = {"chunks": chunks, **{name: [taken[name] for taken in rounds] for name in commands}}
    words, meaning, python = (median(taken[name] for taken in rounds) for name in commands)
    return [
        Row("search by words from the shell, 10,000 chunks", words, "s", at_most(0.25), detail),
        Row("search by words and meaning", meaning, "s", at_most(0.9)),
        Row("  python -c pass", python, "s"),
    ]


def _fill(folder: Path, most: int = 10 * _CHUNKS) -> None:
    """Give every chunk vectors of the default model's length, made up: embedding takes minutes."""
    chance = np.random.default_rng(_SEED)
    index = SqliteIndex(next(folder.rglob("index.db")))
    with index.writing_spaces() as spaces:
        model, dimensions = Multilingual.model, Multilingual.dimensions
        new = Space(0, Multilingual.fingerprint, "memwell", model, dimensions, "{}", FILLING, "")
        space = spaces.open(new)
        waiting = spaces.waiting(space, most)
        rows = chance.standard_normal((len(waiting), 2, Multilingual.dimensions)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=2, keepdims=True)
        spaces.put(space, zip((item.chunk_id for item in waiting), rows, strict=True))
        spaces.mark_complete(space, 0.0, 0.05)
    index.compact(Multilingual.fingerprint)
    index.close()


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
        chunks += len(data.read_note(root, path, ChunkSettings()).chunks)
    return chunks


def _call(command: list[str]) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
