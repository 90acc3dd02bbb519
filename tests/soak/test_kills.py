"""kill -9 in every operation that writes: nothing acknowledged is lost, nothing stays behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from memwell import Memory
from memwell.embed.testing import WordCounts
from memwell.store.contract.values import FactFilter
from memwell.store.sqlite.schema import FACT_MIGRATIONS, MIGRATIONS
from tests.soak.conftest import print_figures, sizes_of
from tests.support.kills import Job, Killer, Operations
from tests.support.states import contents, index_file

pytestmark = pytest.mark.process
NOTES, FACTS, FORGOTTEN = 40, 12, 5
"""Notes of the workspace; facts that a process remembers, or forgets, unless it is killed."""
CHECKED = 10
"""After so many kills all is compared; after every kill the facts and one search."""
WORDS = ["apple", "pear", "会议", "camelCase", "x1", "heron", "#tag", "[[12]]"]


@dataclass
class Attack:
    """An operation on a home of its own, killed again and again, and what must hold after it."""

    folder: Path
    killer: Killer
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    """The acknowledged facts that were not forgotten, by id."""
    model: str = "words"
    tenant: str = "default"
    operations: int = 0
    turn: int = 0

    def __post_init__(self) -> None:
        self.workspace.mkdir(parents=True)
        self.write_notes()

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def open(self) -> Memory:
        settings = {"embedding.chain": ("test",), **self.settings}
        return Memory(
            self.home, settings=settings, embedders={"test": lambda *_: WordCounts(self.model)}
        )

    def write_notes(self) -> None:
        chance = self.killer.chance
        for number in range(NOTES):
            file = self.workspace / f"{number}.md"
            if not self.turn or chance.random() < 0.4:
                words = " ".join(chance.choices(WORDS, k=40))
                file.write_text(f"# Note {number} of {self.turn}\n\napple {words}\n")
            elif chance.random() < 0.1:
                file.unlink(missing_ok=True)
        self.turn += 1

    def new_texts(self, count: int = FACTS) -> list[str]:
        self.turn += 1
        return [f"Zq{self.turn}x{number}k stands in the lamp room" for number in range(count)]

    def remember(self, count: int) -> None:
        with self.open() as memory:
            for text in self.new_texts(count):
                self.facts[memory.remember(text, scope="global").fact.id] = text

    def kill(self, operation: str, *arguments: str, let_end: bool = False) -> list[str]:
        """Start an operation and kill it; return what it acknowledged until then."""
        log = self.folder / "acknowledged"
        log.write_bytes(b"")
        job = Job(
            operation,
            str(self.home),
            str(log),
            arguments,
            settings=self.settings,
            model=self.model,
            tenant=self.tenant,
        )
        (self.killer.let_end if let_end else self.killer.kill)(job)
        whole = log.read_text().rpartition("\n")[0]
        lines = whole.split("\n") if whole else []
        self.operations += len(lines)
        return lines

    def stored(self, memory: Memory) -> dict[str, str]:
        return {fact.id: fact.text for fact in memory.facts.find(FactFilter())}

    def check(self) -> dict[str, str]:
        """Open the home as the next command does; return the facts that it has."""
        with self.open() as memory:
            facts = self.stored(memory)
            result = memory.search("apple lamp")
            assert result.legs[0].answered, result
            assert result.hits or not facts
        assert not [*self.home.rglob(".restore.*.part*"), *self.home.rglob(".memory.db*.part*")]
        if leftovers := [*self.home.rglob(".*.part*")]:  # small files without texts
            for file in leftovers:
                os.utime(file, (0, 0))  # a young one may belong to another process
            with self.open() as memory:
                self.stored(memory)
            assert [*self.home.rglob(".*.part*")] == []
        return facts

    def check_whole(self) -> None:
        """Finish what was begun, and compare with an index that was never killed."""
        with self.open() as memory:
            memory.index(self.workspace)
            assert not memory.notices
            assert memory.verify() == []
            assert memory.status(deep=True).deep["integrity"] == "ok"
            assert memory.fill().left == 0
            (space,) = [space for space in memory.spaces() if space.state == "live"]
            assert space.embedded == space.chunks
            assert all(leg.answered for leg in memory.search("apple lamp").legs)
        assert contents(index_file(self.home)) == self.fresh_contents()

    def fresh_contents(self) -> dict[str, Any]:
        """The contents of a new index of the same notes and facts."""
        fresh = self.folder / "fresh"
        fresh.mkdir()
        if (self.home / "memory.db").exists():
            shutil.copy(self.home / "memory.db", fresh)  # it is closed, and so has no log
        with Memory(fresh, settings={"embedding.chain": ()}) as memory:
            memory.index(self.workspace)
            memory.search("apple")
        found = contents(index_file(fresh))
        shutil.rmtree(fresh)
        return found

    def find_traces(self, words: list[str]) -> list[str]:
        """The files of the home that contain one of the words."""
        files = [file for file in self.home.rglob("*") if file.is_file()]
        return [
            file.name for file in files if any(word.encode() in file.read_bytes() for word in words)
        ]

    @property
    def figures(self) -> dict[str, int]:
        killer = self.killer
        return {
            "kills": killer.kills,
            "at_a_write": killer.at_a_write,
            "acknowledged": self.operations,
            "lost": 0,
        }


def run(attack: Attack, turn: Callable[[Attack], None], kills: int) -> None:
    """Attack until so many processes were killed; compare all now and then, and at the end."""
    checked = 0
    while attack.killer.kills < kills:
        turn(attack)
        if attack.killer.kills >= checked + CHECKED:
            checked = attack.killer.kills
            attack.check_whole()
    attack.check_whole()


# -- the operations --------------------------------------------------------------------------------


def attack_sync(attack: Attack) -> None:
    attack.write_notes()
    if attack.killer.chance.random() < 0.3:
        shutil.rmtree(attack.home, ignore_errors=True)  # so that the first sync is killed, too
    attack.kill("sync", str(attack.workspace))
    attack.check()


def attack_embed(attack: Attack) -> None:
    """Another model: every passage is embedded again."""
    attack.model = "other" if attack.model == "words" else "words"
    attack.kill("embed", str(attack.workspace))
    attack.check()


def attack_remember(attack: Attack) -> None:
    lines = attack.kill("remember", *attack.new_texts())
    attack.facts |= dict(line.split(" ", 1) for line in lines)
    stored = attack.check()
    assert attack.facts.items() <= stored.items()
    assert len(stored) <= len(attack.facts) + 1  # one was stored, but not acknowledged
    attack.facts = stored


def attack_forget(attack: Attack) -> None:
    if len(attack.facts) < FACTS:
        attack.remember(3 * FACTS)
    chosen = attack.killer.chance.sample(sorted(attack.facts), FORGOTTEN)
    acknowledged = attack.kill("forget", *chosen)
    stored = attack.check()
    assert not {*acknowledged} & {*stored}
    gone = {*attack.facts} - {*stored}
    assert gone <= {*chosen[: len(acknowledged) + 1]}
    assert attack.find_traces([attack.facts[fact].split()[0] for fact in gone]) == []
    attack.facts = stored


def attack_backup(attack: Attack) -> None:
    attack.remember(1)
    file = attack.folder / "backup.db"
    known = [ids_in(file)] if file.exists() else []
    attack.kill("backup", *[str(file)] * 3)
    assert attack.check() == attack.facts
    assert [*attack.folder.glob(".backup.db*")] == []
    if known or file.exists():
        assert ids_in(file) in [*known, {*attack.facts}]
        with attack.open() as memory:
            assert memory.verify(file) == []


def attack_restore(attack: Attack) -> None:
    backups = [attack.folder / "a.db", attack.folder / "b.db"]
    for file in backups:
        if not file.exists():
            attack.remember(FACTS)
            with attack.open() as memory:
                memory.backup(file)
    attack.kill("restore", *map(str, backups), str(backups[0]))
    stored = attack.check()
    assert {*stored} in [ids_in(file) for file in backups]
    assert stored.items() <= attack.facts.items()
    for file in attack.home.glob("memory.db.before-*"):
        with attack.open() as memory:
            assert memory.verify(file) == []
        file.unlink()


def attack_copy(attack: Attack) -> None:
    if not attack.facts:
        attack.remember(FACTS)
        with attack.open() as memory:
            memory.index(attack.workspace)
    target = attack.folder / "copy"
    attack.kill("copy", str(target))
    assert attack.check() == attack.facts
    if attack.killer.chance.random() < 0.3:
        assert attack.kill("copy", str(target), let_end=True)
        assert contents(index_file(target)) == contents(index_file(attack.home))
    if (target / "memory.db").exists():
        with Memory(target) as memory:
            assert attack.stored(memory).items() <= attack.facts.items()
            assert memory.verify() == []
    if attack.killer.chance.random() < 0.3:
        shutil.rmtree(target, ignore_errors=True)


def attack_migration(attack: Attack) -> None:
    shutil.rmtree(attack.home, ignore_errors=True)
    attack.facts = write_old_home(attack.home)
    attack.kill("migrate")
    assert attack.check() == attack.facts
    with attack.open() as memory:
        assert memory.verify() == []


ATTACKS: dict[str, Callable[[Attack], None]] = {
    "sync": attack_sync,
    "remember": attack_remember,
    "forget": attack_forget,
    "embed": attack_embed,
    "backup": attack_backup,
    "restore": attack_restore,
    "copy": attack_copy,
    "migrate": attack_migration,
}


def ids_in(backup: Path) -> set[str]:
    """The ids of the facts in a file, read without memwell."""
    connection = apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)
    ids = {str(row[0]) for row in connection.execute("SELECT id FROM fact_rows")}
    connection.close()
    return ids


def write_old_home(home: Path) -> dict[str, str]:
    """Write a home as an older memwell did, with facts and an index; return the facts."""
    files = [(home / "memory.db", FACT_MIGRATIONS[:2]), (index_file(home), MIGRATIONS[:3])]
    for file, steps in files:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        old = apsw.Connection(str(file))
        old.pragma("journal_mode", "WAL")
        for _, statements in steps:
            old.execute(statements)
        old.pragma("user_version", len(steps))
        old.close()
    facts = {f"{number:020}": f"Zq{number:03} lamp stands in the room" for number in range(60)}
    old = apsw.Connection(str(home / "memory.db"))
    at = "2026-01-01T00:00:00.000+00:00"
    for number, (fact, text) in enumerate(facts.items(), 1):
        old.execute(
            "INSERT INTO fact_rows VALUES (?1, ?2, ?3, 'fact', 'cli', '', 0.5, 1, 'permanent', ?4,"
            " ?5, NULL, NULL, NULL, NULL, 'agent', 'main', ?6)",
            (fact, text, text.casefold(), at, at, number),
        )
    old.execute("UPDATE revisions SET last = ?", (len(facts),))
    old.close()
    return facts


@pytest.fixture(scope="module")
def operations() -> Iterator[Operations]:
    with Operations() as running:
        yield running


@sizes_of(ATTACKS, ATTACKS, sample=2, whole=1_000)
def test_kill_9_loses_nothing(
    tmp_path: Path, operations: Operations, operation: str, size: int
) -> None:
    attack = Attack(tmp_path, Killer(operations, size))
    run(attack, ATTACKS[operation], size)
    print_figures(f"kills {operation}", **attack.figures)
