"""Facts are not lost unnoticed, and forgotten texts leave no bytes."""

from __future__ import annotations

import random
from pathlib import Path

from memwell import Memory
from tests.conftest import Write


def _files_with(folder: Path, texts: list[str]) -> list[tuple[str, str]]:
    """Return each file below a folder that contains one of the texts, with that text."""
    contents = {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }
    return [
        (name, text)
        for name, content in contents.items()
        for text in texts
        if text.encode() in content
    ]


# -- D4: forget ------------------------------------------------------------------------------------


def test_reliability_d04_forgotten_facts_leave_no_byte_in_the_home(home: Path) -> None:
    chosen = random.Random(4)
    marks = [f"Zq{number:03}{chosen.getrandbits(40):010x}" for number in range(300)]
    with Memory(settings={"embedding.chain": ("test",)}) as memory:
        ids = {
            mark: memory.remember(
                f"{mark} keeps the {chosen.choice(['red', 'blue', 'green'])} lamp "
                + f"on {mark}y " * chosen.randrange(1, 30)
            ).fact.id
            for mark in marks
        }
        memory.search("lamp")
        memory.fill()
        gone = chosen.sample(marks, 120)
        for mark in gone:
            report = memory.forget(ids[mark])
            assert not report.pending
        texts = [piece for mark in gone for piece in (mark, mark.lower())]
        assert _files_with(home, texts) == []
        kept = set(marks) - {*gone}
        assert len(memory.facts.find(_all_facts())) == len(kept)
    assert _files_with(home, texts) == []


# -- D17: deleted notes ----------------------------------------------------------------------------


def test_reliability_d17_deleted_notes_leave_no_byte_in_the_index(
    home: Path, workspace: Path, write: Write
) -> None:
    chosen = random.Random(17)
    marks = [f"Zq{number:03}{chosen.getrandbits(40):010x}" for number in range(200)]
    for number, mark in enumerate(marks):
        write(f"memory/{number}.md", f"# Note\n\nabout lamps\n\n## Part\n\n{mark} is {mark}z " * 8)
    with Memory(workspace=workspace) as memory:
        memory.index()
    order = chosen.sample(range(200), 90)
    for start in range(0, 90, 10):
        for number in order[start : start + 10]:
            (workspace / f"memory/{number}.md").unlink()
        with Memory(workspace=workspace) as memory:
            memory.index()
    for number in range(200, 220):
        write(f"memory/{number}.md", f"# Note {number}\n\nNothing special\n")
    with Memory(workspace=workspace) as memory:
        memory.index()
    gone = [piece for number in order for piece in (marks[number], marks[number].lower())]
    assert _files_with(home, gone) == []


def _all_facts() -> object:
    from memwell.store.contract.values import FactFilter

    return FactFilter()
