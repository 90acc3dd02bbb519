"""How much memory indexing takes, and whether four times the notes take more of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench import data
from bench.measure import temporary_home
from bench.results import Row, at_most

_COPIES = 4
_REPOSITORY = Path(__file__).resolve().parent.parent


def run() -> list[Row]:
    """Index k8s-en, then four different copies of it, each in a process of its own."""
    root = data.workspace("k8s-en")
    with temporary_home():
        once = _peak(root)
    with temporary_home() as folder:
        copies = folder / "copies"
        for number in range(_COPIES):
            _copy(root, copies / f"copy-{number}", f"\n\nThis is copy {number}.\n")
        fourfold = _peak(copies)
    growth = fourfold["peak_mb"] / once["peak_mb"]
    return [
        Row(
            "peak memory, 4 x k8s-en / k8s-en",
            growth,
            "times",
            at_most(1.3),
            {"1": once, "4": fourfold},
        ),
        Row("  k8s-en", once["peak_mb"], "MB"),
        Row("  4 x k8s-en", fourfold["peak_mb"], "MB"),
    ]


def _copy(root: Path, to: Path, last_words: str) -> None:
    """Copy the notes of a workspace, each with a last line that no other copy has."""
    for path in data.note_paths(root):
        file = to / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((root / path).read_bytes() + last_words.encode())


def _peak(root: Path) -> dict[str, float]:
    """Index a folder in a child process; return its peak memory and how many chunks it wrote."""
    command = [sys.executable, "-m", "bench.index_once", str(root)]
    child = subprocess.run(command, cwd=_REPOSITORY, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(child.stdout)
    return found
