"""`python -m tests.quality`: the suite in every way of ranking, as the table of the README."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from memwell import Memory
from tests.conftest import EXAMPLES
from tests.quality.suite import STYLES, run, summary

WAYS = {
    "words and meaning, `standard`": ("hybrid", "standard"),
    "words and meaning, `rrf`": ("hybrid", "rrf"),
    "words and meaning, `weighted`": ("hybrid", "weighted"),
    "meaning alone": ("meaning", "standard"),
    "words alone": ("words", "standard"),
}


def main() -> None:
    """Index the example notes as a fresh installation does, and ask everything in every way."""
    for name in [name for name in os.environ if name.startswith("MEMWELL_")]:
        del os.environ[name]
    columns = [*STYLES, "all", "notes passing", "MRR"]
    click.echo(_row(["", *columns]))
    click.echo(_row(["---"] * (len(columns) + 1)))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEMWELL_CONFIG"] = str(Path(folder) / "config")
        with Memory(home=Path(folder) / "home") as memory:
            memory.index(EXAMPLES)
            for name, (mode, fusion) in WAYS.items():
                found = summary(run(mode, memory, fusion=fusion))
                overall = found["overall"]
                cells = [f"{found[style].found} / {found[style].queries}" for style in STYLES]
                cells += [f"{overall.found} / {overall.queries}"]
                cells += [f"{overall.notes_passing} / {overall.notes}", f"{overall.mrr:.3f}"]
                click.echo(_row([name, *cells]))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
