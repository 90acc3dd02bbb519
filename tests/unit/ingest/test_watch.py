"""The watcher syncs changes by itself, with file notifications and without."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memwell import IndexReport, Memory
from memwell.ingest import watch as watching
from memwell.ingest.scan import Selection, scan
from tests.conftest import Write, paths
from tests.support.waiting import wait_until


@contextmanager
def watched(workspace: Path) -> Iterator[list[IndexReport | str]]:
    """Run a watcher, and wait until its first sync has indexed a note written before it."""
    (workspace / "first.md").write_text("first\n")
    events: list[IndexReport | str] = []
    stop = threading.Event()
    memory = Memory(workspace=workspace)
    thread = threading.Thread(target=memory.watch, args=(events.append, stop))
    thread.start()
    try:
        wait_until(lambda: any(isinstance(event, IndexReport) for event in events))
        yield events
    finally:
        stop.set()
        thread.join(60)
        memory.close()
        assert not thread.is_alive()


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch, workspace: Path, write: Write) -> Iterator[Memory]:
    """A memory that searches without syncing, so that only the watcher can have done it."""
    write("MEMORY.md", "apple\n")
    monkeypatch.setenv("MEMWELL_SYNC_ON_SEARCH", "false")
    with Memory(workspace=workspace) as memory:
        memory.index(workspace)
        yield memory


def test_edits_are_found_by_themselves(looking: Memory, workspace: Path, write: Write) -> None:
    with watched(workspace):
        write("new.md", "banana\n")
        wait_until(lambda: paths(looking, "banana") == ["new.md"])
        write("new.md", "cherry\n")
        wait_until(lambda: paths(looking, "cherry") == ["new.md"])
        (workspace / "new.md").unlink()
        wait_until(lambda: not paths(looking, "cherry"))


def test_folders_that_appear_are_watched_and_ignored_ones_are_not(
    looking: Memory, workspace: Path, write: Write
) -> None:
    write("node_modules/deep/er/readme.md", "never\n")
    with watched(workspace):
        write("brand/new/folder/a.md", "kumquat\n")
        wait_until(lambda: paths(looking, "kumquat") == ["brand/new/folder/a.md"])
        write("brand/new/folder/b.md", "lychee\n")
        wait_until(lambda: paths(looking, "lychee") == ["brand/new/folder/b.md"])
    assert not [folder for folder in scan(Selection(workspace)).folders if "node_modules" in folder]


def test_editors_that_replace_the_file_are_noticed(
    looking: Memory, workspace: Path, write: Write
) -> None:
    with watched(workspace):
        for turn in range(3):
            write(".MEMORY.md.swp", f"damson{turn}\n")
            os.replace(workspace / ".MEMORY.md.swp", workspace / "MEMORY.md")
            wait_until(lambda turn=turn: paths(looking, f"damson{turn}") == ["MEMORY.md"])  # type: ignore[misc]


def test_a_workspace_that_is_deleted_and_comes_back(
    looking: Memory, workspace: Path, write: Write
) -> None:
    with watched(workspace) as events:
        shutil.rmtree(workspace)
        wait_until(lambda: any("waiting for it" in str(event) for event in events))
        write("MEMORY.md", "elderberry\n")
        wait_until(lambda: paths(looking, "elderberry") == ["MEMORY.md"])
        write("later.md", "fig\n")
        wait_until(lambda: paths(looking, "fig") == ["later.md"])


def test_without_notifications_the_watcher_polls_and_says_so(
    looking: Memory, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> Iterator[set[tuple[int, str]]]:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr("watchfiles.watch", exhausted)
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.2)
    with watched(workspace) as events:
        write("new.md", "grape\n")
        wait_until(lambda: paths(looking, "grape") == ["new.md"])
        assert any("checking every 0.2 s instead" in str(event) for event in events)


def test_the_real_limit_of_inotify_is_survived(
    looking: Memory, workspace: Path, write: Write
) -> None:
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    if not limit.exists():
        pytest.skip("this system has no inotify")
    import ctypes

    inotify_init = ctypes.CDLL(None, use_errno=True).inotify_init
    taken: list[int] = []
    while len(taken) < 20_000 and (descriptor := inotify_init()) >= 0:
        taken.append(descriptor)
    try:
        with watched(workspace) as events:
            write("new.md", "hazelnut\n")
            wait_until(lambda: paths(looking, "hazelnut") == ["new.md"])
            assert any("instead" in str(event) for event in events)
    finally:
        for descriptor in taken:
            os.close(descriptor)
