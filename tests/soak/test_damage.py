"""Every file of a home is damaged at random places: it is reported, and nothing is overwritten."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak.conftest import print_figures, sizes
from tests.support.cli import run

pytestmark = pytest.mark.process

# A process that is killed leaves the logs of its databases.
WRITE = """
import os, sys
from pathlib import Path
from memwell import Memory
from memwell.surfaces.http.tokens import Tokens
workspace = sys.argv[1]
with Memory() as memory:
    memory.index(workspace)
    first = [memory.remember(f"Fact {n} is about heron{n} and rooms.").fact.id for n in range(60)]
    memory.fill()
    memory.search("heron")
    memory.forget(first[0])
    memory.supersede(first[1], "Fact 1 is about another bird.")
    memory.recall("What is heron5 about?")
    Tokens(memory.home).add("laptop")
memory = Memory()
for n in range(60, 80):
    memory.remember(f"Fact {n} is about heron{n} and rooms.")
Path(workspace, "late.md").write_text("A heron came late.\\n")
memory.index(workspace)
memory.search("heron")
os._exit(0)
"""


def truncate(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data[: chance.randrange(len(data))])


def zero(data: bytearray, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice([1, 100, 4096]))
    data[start:end] = bytes(end - start)
    return bytes(data)


def flip(data: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.choice([1, 1, 20])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def fill_with_garbage(data: bytearray, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice([1, 512, 8192]))
    data[start:end] = chance.randbytes(end - start)
    return bytes(data)


def extend(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data) + chance.randbytes(chance.choice([1, 4096]))


DAMAGES: list[Callable[[bytearray, random.Random], bytes]] = [
    *(truncate, zero, flip, flip, fill_with_garbage, extend)
]


@pytest.fixture
def template(tmp_path: Path, home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with all kinds of files, as a killed process left it."""
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    for number in range(30):
        (workspace / f"{number}.md").write_text(
            f"# Note {number}\n\nThe heron{number} eats fish.\n"
        )
    subprocess.run([sys.executable, "-c", WRITE, str(workspace)], check=True)
    home.rename(tmp_path / "template")
    return tmp_path / "template"


@sizes(sample=1, whole=200)
def test_damage_is_reported_or_harmless(
    template: Path, home: Path, workspace: Path, size: int
) -> None:
    names = sorted(
        str(file.relative_to(template))
        for file in template.rglob("*")
        if file.is_file() and file.stat().st_size and file.suffix not in (".lock",)
    )
    assert len(names) >= 7
    shutil.copytree(template, home)
    sound = listed(workspace)
    assert len(sound) == 80
    figures: Counter[str] = Counter(files=len(names), places=0, reported=0, harmless=0, traceback=0)
    for name in names:
        for place in range(size):
            chance = random.Random(f"{name} {place}")
            shutil.rmtree(home)
            shutil.copytree(template, home)
            was = (home / name).read_bytes()
            damaged = chance.choice(DAMAGES)(bytearray(was), chance)
            (home / name).write_bytes(damaged)
            figures["places"] += 1
            try:
                figures[check(home, workspace, sound)] += 1
            except BaseException as error:
                keep = template.with_name("kept")
                keep.write_bytes(damaged)
                raise AssertionError(f"{name}, place {place}: see {keep}") from error
    print_figures("damage", **figures, overwritten=0)


def listed(workspace: Path) -> set[str]:
    """The facts that a person sees, or nothing if the command says why not."""
    done = command("facts", "list", cwd=workspace)
    return {line.split("  ", 1)[-1] for line in done.stdout.splitlines()} if done.stdout else set()


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command; an exception that it does not catch fails the test."""
    done = run(*arguments, cwd=cwd)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1, 2, 3), done
    return done


def texts_in(home: Path, texts: set[str]) -> set[str]:
    """The texts of facts whose bytes are in a file; `facts rescue` reads those of the index."""
    data = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    return {text for text in texts if text.encode() in data}


def check(home: Path, workspace: Path, sound: set[str]) -> str:
    """Use a home with a damaged file; return whether the damage was reported or did no harm."""
    readable = texts_in(home, sound)
    notes = command("search", "heron7 eats fish", "--kind", "note", cwd=workspace)
    assert "7.md" in notes.stdout or notes.stderr.strip(), notes
    facts = command("facts", "list", cwd=workspace)
    verified = command("verify", cwd=workspace)
    checked = command("doctor", cwd=workspace)
    failed = [done for done in (facts, verified, checked) if done.returncode]
    assert all(done.stdout + done.stderr for done in failed)
    reported = failed or notes.stderr.strip() or facts.stderr.strip()
    assert reported or listed(workspace) == sound, "facts changed, and nothing reported it"
    command("remember", "The quagga is a fact of its own.", cwd=workspace)
    command("search", "quagga", cwd=workspace)
    assert texts_in(home, sound) >= readable, "facts were overwritten"
    return "reported" if reported else "harmless"
