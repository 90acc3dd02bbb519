"""When a search need not look at the files of a workspace."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from memwell import Memory
from memwell.ingest.scan import Scan, Selection, scan
from memwell.memory.changes import CHECK_AGAIN_SECONDS, Changes
from memwell.platform.events import FileEvents, delivers_events

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has its events")
SETTINGS = {"embedding.chain": ()}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "inner").mkdir(parents=True)
    (folder / "one.md").write_text("# One\n\nlighthouse\n")
    (folder / "inner" / "two.md").write_text("# Two\n\nharbour\n")
    return folder


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every walk over a workspace."""
    seen: list[Path] = []

    def counted(selection: Selection) -> Scan:
        seen.append(selection.root)
        return scan(selection)

    monkeypatch.setattr("memwell.ingest.sync.scan", counted)
    return seen


def find(memory: Memory, word: str) -> list[str]:
    return [hit.path for hit in memory.search(word, mode="words").hits if word in hit.text]


def test_files_are_looked_at_only_after_a_change(
    tmp_path: Path, notes: Path, scans: list[Path]
) -> None:
    with Memory(tmp_path / "home", workspace=notes, settings=SETTINGS) as memory:
        memory.index(notes)
        find(memory, "harbour")
        find(memory, "harbour")
        del scans[:]
        for _ in range(5):
            assert find(memory, "harbour") == ["inner/two.md"]
        assert scans == []
        (notes / "inner" / "two.md").write_text("# Two\n\nlagoon\n")
        assert find(memory, "lagoon") == ["inner/two.md"]
        assert scans
        del scans[:]
        assert find(memory, "harbour") == []
        assert scans == []


def test_a_link_by_which_a_note_can_change_unseen(
    tmp_path: Path, notes: Path, scans: list[Path]
) -> None:
    elsewhere = tmp_path / "elsewhere.md"
    os.link(notes / "one.md", elsewhere)
    with Memory(tmp_path / "home", workspace=notes, settings=SETTINGS) as memory:
        memory.index(notes)
        for _ in range(4):
            assert find(memory, "lighthouse") == ["one.md"]
        elsewhere.write_text("# One\n\nbeacon\n")
        assert find(memory, "beacon") == ["one.md"]


def test_a_note_that_did_not_exist_when_its_workspace_was_compared(
    tmp_path: Path, notes: Path
) -> None:
    (notes / "MEMORY.md").write_text("# Memory\n\nanchor\n")
    with Memory(tmp_path / "home", workspace=notes, settings=SETTINGS) as memory:
        memory.index()
        for _ in range(4):
            assert find(memory, "anchor") == ["MEMORY.md"]
        (notes / "memory" / "logs").mkdir(parents=True)
        (notes / "memory" / "logs" / "today.md").write_text("# Today\n\nparcel\n")
        assert find(memory, "parcel") == ["memory/logs/today.md"]
        (notes / "memory" / "logs" / "today.md").write_text("# Today\n\nletter\n")
        assert find(memory, "letter") == ["memory/logs/today.md"]


def test_another_process_that_forgets_the_workspace(tmp_path: Path, notes: Path) -> None:
    with (
        Memory(tmp_path / "home", workspace=notes, settings=SETTINGS) as memory,
        Memory(tmp_path / "home", settings=SETTINGS) as other,
    ):
        memory.index(notes)
        for _ in range(4):
            assert find(memory, "harbour")
        other.reset()
        assert find(memory, "harbour") == ["inner/two.md"]


def test_files_are_looked_at_again_after_a_while(notes: Path) -> None:
    now = [0.0]
    changes = Changes(clock=lambda: now[0])
    root = str(notes)
    assert changes.begin(root) == -1  # the first search of a process
    counted = changes.begin(root)
    assert changes.watch(root, ["", "inner"])
    changes.end(root, counted, "rules")
    assert changes.is_in_step(root, "rules")
    assert not changes.is_in_step(root, "other rules")
    now[0] += CHECK_AGAIN_SECONDS
    assert not changes.is_in_step(root, "rules")
    changes.close()
    assert not changes.is_in_step(root, "rules")


def test_a_forked_process_does_not_take_the_events_of_its_parent(notes: Path) -> None:
    events = FileEvents()
    events.watch([str(notes)])
    (notes / "one.md").write_text("changed")
    child = os.fork()
    if child == 0:
        try:
            events.drain()
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert events.drain()
    assert not events.drain()
    events.close()


@pytest.mark.parametrize(
    ("kind", "delivers"),
    [("ext4", True), ("overlay", True), ("nfs4", False), ("fuse.sshfs", False), ("9p", False)],
)
def test_file_systems_without_events(tmp_path: Path, kind: str, delivers: bool) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/x / {kind} rw 0 0\n")
    assert delivers_events(tmp_path, mounts) is delivers


def test_a_system_that_allows_no_more_watches(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FileEvents, folders: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileEvents, "watch", refuse)
    with Memory(tmp_path / "home", workspace=notes, settings=SETTINGS) as memory:
        memory.index(notes)
        for word in ("harbour", "lagoon", "bay"):
            (notes / "inner" / "two.md").write_text(f"# Two\n\n{word}\n")
            assert find(memory, word) == ["inner/two.md"]
