"""The state of a large workspace, by which the next process knows that nothing changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memwell import Memory
from memwell.ingest import folder_state, sync
from memwell.ingest.scan import Scan, Selection, scan
from memwell.memory import refresh

SETTINGS = {"embedding.chain": ()}


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(refresh, "FEWEST_NOTES", 3)
    # Files that were just written are read again by every comparison, and give no state.
    monkeypatch.setattr(sync, "_FINE_CLOCK_NS", 0)
    folder = tmp_path / "notes"
    (folder / "inner").mkdir(parents=True)
    for name in ("one", "two", "inner/three", "inner/four"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nlighthouse {name.replace('/', '')}\n")
    return folder


def index(tmp_path: Path, notes: Path) -> None:
    with Memory(tmp_path / "home", settings=SETTINGS) as memory:
        memory.index(notes)


def search(tmp_path: Path, notes: Path, word: str) -> list[str]:
    """Search as a process does that ends after it."""
    with Memory(tmp_path / "home", workspace=notes, settings=SETTINGS) as memory:
        return sorted(hit.path for hit in memory.search(word, mode="words").hits)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    seen: list[Path] = []

    def counted(selection: Selection) -> Scan:
        seen.append(selection.root)
        return scan(selection)

    monkeypatch.setattr("memwell.ingest.sync.scan", counted)
    return seen


def overwrite(notes: Path) -> None:
    path = notes / "inner" / "three.md"
    before = path.stat()
    path.write_text("# inner/three\n\nlagoon1234 innerthree\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(notes: Path) -> None:
    part = notes / "inner" / "part"
    part.write_text("# three\n\nlagoon1234\n")
    part.replace(notes / "inner" / "three.md")


def create(notes: Path) -> None:
    (notes / "inner" / "new").mkdir()
    (notes / "inner" / "new" / "five.md").write_text("# five\n\nlagoon1234\n")


def restore_ignored(notes: Path) -> None:
    (notes / "inner" / ".memwellignore").write_text("four.md\n")
    (notes / "inner" / "three.md").write_text("# three\n\nlagoon1234\n")


@pytest.mark.parametrize("change", [overwrite, replace, create, restore_ignored])
def test_a_change_is_seen_by_the_next_process(
    tmp_path: Path, notes: Path, plans: list[Path], change: Callable[[Path], None]
) -> None:
    index(tmp_path, notes)
    search(tmp_path, notes, "lighthouse")
    del plans[:]
    assert len(search(tmp_path, notes, "lighthouse")) == 4
    assert plans == []  # by the state alone
    change(notes)
    assert search(tmp_path, notes, "lagoon1234")
    assert plans


def test_a_state_belongs_to_one_state_of_the_index(tmp_path: Path, notes: Path) -> None:
    index(tmp_path, notes)
    for _ in range(3):
        search(tmp_path, notes, "lighthouse")
    with Memory(tmp_path / "home", settings=SETTINGS) as memory:
        memory.reset()
    assert len(search(tmp_path, notes, "lighthouse")) == 4


def test_a_damaged_file_is_no_state(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    for content in ("", "{}", "[1]", '{"index": 1, "folders": 2, "digest": 3}'):
        file.write_text(content)
        state = folder_state.FolderState.load(file)
        assert state is None or not state.is_current(tmp_path, "x")
