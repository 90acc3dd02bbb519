"""`python -m bench same-answers OLD NEW`: whether two checkouts behave the same.

Both run the same commands on the same notes, each with its own Python. Exit statuses, JSON keys
and JSON values must be equal. Wording for people may differ. The stages are:

1. commands: a fresh home each, every command of the command line, HTTP, MCP and `memwell.Memory`
2. home: NEW opens the home that OLD wrote
3. sets: `memwell eval` on labelled sets
4. postgres: NEW opens the database that OLD wrote, and writes its own

Each difference is printed as one line. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import platformdirs

from bench.answer_diff import Answer, Cleaner, difference
from bench.answer_player import Checkout, Player, UnplannedError, World
from bench.answer_steps import (
    FACTS,
    FILES,
    READING,
    REST,
    SERVER,
    SERVING,
    WRITING,
    Doing,
    Read,
    shown,
)

SETS = ("scifact", "cranfield", "medline", "locomo-turn-a", "cosqa-code", "rgb-zh", "jsquad-ja")
"""The seven sets of the README, in the order of its table."""
_FIRST, _HOME = "writing", "home"
_PARTS: Mapping[str, Sequence[Doing]] = {
    _FIRST: WRITING,
    "reading": READING,
    "facts": FACTS,
    "files": FILES,
    "rest": REST,
    "serving": SERVING,
}
"""All commands, by what they are about."""
_TEST = {"MEMWELL_EMBEDDING_CHAIN": "test"}
"""Vectors that cost nothing."""


@dataclass(slots=True)
class Comparison:
    """Counts what was compared, and prints what differs."""

    compared: int = 0
    different: int = 0

    def compare(self, stage: str, olds: Sequence[Answer], news: Iterable[Answer]) -> None:
        """Compare answers to the same steps, as those of NEW come in."""
        for old, new in zip(olds, news, strict=True):
            self.compared += 1
            if found := difference(old, new):
                self.different += 1
                print(f"{stage}: {old.name}: {found}", flush=True)


@dataclass(frozen=True, slots=True)
class Pair:
    """The two checkouts, and the folder that all of it happens in."""

    old: Checkout
    new: Checkout
    folder: Path
    comparison: Comparison = field(default_factory=Comparison)
    since: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

    def world(self, environment: dict[str, str]) -> World:
        """Return a world with the notes of NEW."""
        notes, cases = "examples/notes", "tests/quality/cases.jsonl"
        return World(
            self.folder / "world", self.new.folder / notes, self.old.folder / cases, environment
        )

    def player(self, checkout: Checkout, world: World, after: Sequence[Doing] = ()) -> Player:
        """Return what runs steps with one of the checkouts, after steps that were run before."""
        since = self.since.replace(microsecond=0)
        return Player(checkout, world, Cleaner(checkout.names(), since), len(after))


# -- the stages ------------------------------------------------------------------------------------


def _commands(pair: Pair, world: World, names: Sequence[str]) -> None:
    """Run commands from a fresh home on; keep what OLD wrote first."""
    parts = {name: steps for name, steps in _PARTS.items() if name == _FIRST or name in names}
    answers: list[list[Answer]] = []
    world.begin()
    old = pair.player(pair.old, world)
    for name, steps in parts.items():
        _tell(f"{name}: OLD")
        answers.append([*old.play(steps)])
        if name == _FIRST:
            world.keep(_kept(pair))
    world.begin()
    new = pair.player(pair.new, world)
    for (name, steps), olds in zip(parts.items(), answers, strict=True):
        _tell(f"{name}: NEW")
        pair.comparison.compare(name, olds, new.play(steps))


def _home(pair: Pair, world: World) -> None:
    """Open what OLD wrote, with OLD and with NEW: a copy of it each."""
    _tell(f"{_HOME}: OLD")
    world.bring_back(_kept(pair))
    steps = (*READING, shown("verify"))
    olds = [*pair.player(pair.old, world, WRITING).play(steps)]
    _tell(f"{_HOME}: NEW")
    world.bring_back(_kept(pair))
    new = pair.player(pair.new, world, WRITING)
    pair.comparison.compare(_HOME, olds, new.play(steps))


def _sets(pair: Pair, world: World, asked: argparse.Namespace) -> None:
    """Evaluate labelled sets; vectors are made once and kept between runs, in a home of their own.

    The cache in that home is shared: NEW takes from it what OLD put there.
    """
    folder = Path(asked.sets).resolve()
    home = Path(platformdirs.user_cache_dir("memwell-bench", appauthor=False)) / "same-answers"
    kept = {"MEMWELL_HOME": str(home), "MEMWELL_EMBEDDING_CACHE_MB": "2000"}
    world = replace(world, environment=kept)
    world.begin()
    old, new = (pair.player(checkout, world) for checkout in (pair.old, pair.new))
    for name in asked.only or SETS:
        if not (folder / name).is_dir():
            print(f"sets: {name} skipped, as it is not in {folder}", flush=True)
            continue
        for mode in ["words"] if asked.quick else ["words", "hybrid"]:
            command = f"eval '{folder / name}' --mode {mode} --run ../run.tsv"
            steps = (shown(command), Read("run.tsv"))
            _tell(f"sets: {name}, {mode}: OLD")
            olds = [*old.play(steps)]
            _tell(f"sets: {name}, {mode}: NEW")
            pair.comparison.compare(f"sets, {name}", olds, new.play(steps))


def _postgres(pair: Pair, world: World) -> None:
    """Let OLD write a database, open it with NEW, and let NEW write one of its own."""
    from tests.support.postgres import cluster

    with cluster() as server:
        world = replace(world, environment={**_TEST, "MEMWELL_STORE_URL": server.url("memory")})

        def written_by(checkout: Checkout) -> tuple[Player, list[Answer]]:
            server.execute("CREATE DATABASE memory")
            world.begin()
            player = pair.player(checkout, world)
            return player, [*player.play(WRITING)]

        def read_by(checkout: Checkout) -> list[Answer]:
            return [*pair.player(checkout, world, WRITING).play(READING)]

        _tell("postgres: OLD")
        old, written = written_by(pair.old)
        world.keep(_kept(pair))
        server.execute("CREATE DATABASE kept TEMPLATE memory")
        read = read_by(pair.old)
        changed = [*old.play((*FACTS, *SERVER))]
        _tell("postgres: NEW on what OLD wrote")
        server.execute("DROP DATABASE memory")
        server.execute("CREATE DATABASE memory TEMPLATE kept")
        world.bring_back(_kept(pair))
        pair.comparison.compare("postgres, what OLD wrote", read, read_by(pair.new))
        _tell("postgres: NEW on what it writes itself")
        server.execute("DROP DATABASE memory")
        new, again = written_by(pair.new)
        pair.comparison.compare("postgres", written, again)
        pair.comparison.compare("postgres", read, read_by(pair.new))
        pair.comparison.compare("postgres", changed, new.play((*FACTS, *SERVER)))


def _kept(pair: Pair) -> Path:
    """Return where the world lies as it was after OLD wrote it."""
    return pair.folder / "kept"


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


# -- the command -----------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Compare two checkouts; return the exit status."""
    asked = _parser().parse_args(arguments)
    if asked.sets == "":
        beside = asked.new.resolve().parent / "shared" / "bench"
        asked.sets = os.environ.get("MEMWELL_BENCH_DATA", beside)
    with _pair(asked) as pair:
        try:
            for stage in _stages(pair, asked):
                stage()
        except UnplannedError as unplanned:
            print(f"Stopped: {unplanned}")
            return 1
    comparison = pair.comparison
    print(f"{comparison.compared} answers compared, {comparison.different} differ")
    return 1 if comparison.different else 0


def _stages(pair: Pair, asked: argparse.Namespace) -> Iterator[Callable[[], None]]:
    """Yield what is to be done, stage by stage."""
    world = pair.world(_TEST if asked.quick else {})
    if not asked.no_commands:
        yield lambda: _commands(pair, world, asked.parts)
    if not asked.no_commands and _HOME in asked.parts:
        yield lambda: _home(pair, world)
    if asked.sets:
        yield lambda: _sets(pair, world, asked)
    if asked.postgres:
        yield lambda: _postgres(pair, world)


@contextmanager
def _pair(asked: argparse.Namespace) -> Iterator[Pair]:
    old, new = (
        Checkout(name, folder.resolve(), (python or folder / ".venv/bin/python").absolute())
        for name, folder, python in (
            ("OLD", asked.old, asked.old_python),
            ("NEW", asked.new, asked.new_python),
        )
    )
    with tempfile.TemporaryDirectory(prefix="memwell-same-") as folder:
        yield Pair(old, new, Path(folder).resolve())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench same-answers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("old", type=Path, metavar="OLD", help="the checkout whose answers are right")
    add("new", type=Path, metavar="NEW", help="the checkout that must give the same")
    add("--old-python", type=Path, help="default OLD/.venv/bin/python")
    add("--new-python", type=Path, help="default NEW/.venv/bin/python")
    parts = [*_PARTS, _HOME]
    add("--parts", nargs="+", choices=parts, default=parts, help="of the first two stages")
    add("--no-commands", action="store_true", help="leave out the first two stages")
    beside = "default $MEMWELL_BENCH_DATA, else shared/bench beside NEW"
    add("--sets", nargs="?", const="", metavar="DIR", help=f"also the labelled sets; {beside}")
    add("--only", nargs="+", metavar="SET", help=f"which sets; default {', '.join(SETS)}")
    add("--postgres", action="store_true", help="also on a real PostgreSQL")
    add("--quick", action="store_true", help="the test embedder; sets by words alone")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
