"""A call resolves its scope once: the configuration, the workspace, the time."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path

import pytest

from memwell import Memory, config
from memwell.ingest.scan import find_workspace
from tests.conftest import Write


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often the configuration is loaded and a workspace is looked for."""
    counted: Counter[str] = Counter()
    load = config.load

    def counting_load(workspace: Path | None, home: Path) -> config.Settings:
        counted["load"] += 1
        return load(workspace, home=home)

    def counting_find(folder: Path) -> Path | None:
        counted["find"] += 1
        return find_workspace(folder)

    monkeypatch.setattr(config, "load", counting_load)
    monkeypatch.setattr("memwell.memory.workspaces.find_workspace", counting_find)
    return counted


@pytest.mark.parametrize("mode", ["hybrid", "words"])
def test_a_search_loads_the_configuration_once_and_finds_the_workspace_once(
    workspace: Path, write: Write, calls: Counter[str], mode: str
) -> None:
    write("MEMORY.md", "The cat is named Miso.\n")
    with Memory(workspace=workspace) as memory:
        memory.index()
        memory.remember("The dog is named Rex.")
        calls.clear()
        assert memory.search("cat", mode=mode).hits
        assert calls == {"load": 1, "find": 1}


def test_a_search_in_a_workspace_that_takes_all_looks_for_no_other(
    workspace: Path, write: Write, calls: Counter[str]
) -> None:
    write("cat.md", "The cat is named Miso.\n")
    with Memory(workspace=workspace) as memory:
        memory.index(workspace)
        calls.clear()
        assert memory.search("cat").hits
        assert calls == {"load": 1}


def test_a_search_of_all_workspaces_reads_each_configuration_once(
    workspace: Path, write: Write, calls: Counter[str]
) -> None:
    write("cat.md", "The cat is named Miso.\n")
    with Memory() as memory:
        memory.index(workspace)
        calls.clear()
        assert memory.search("cat").hits
        assert calls == {"load": 2}  # the user's, and that of the one workspace


def test_the_clock_can_be_set(workspace: Path, write: Write) -> None:
    """A fact of the past has expired by the time of a later clock; nobody sleeps for it."""
    write("cat.md", "The cat is named Miso.\n")
    now = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]
    with Memory(workspace=workspace, clock=lambda: now[0]) as memory:
        memory.index(workspace)
        memory.remember("The dog is at the vet.", decay_class="session")
        assert [hit.kind for hit in memory.search("dog").hits] == ["fact"]
        now[0] += dt.timedelta(days=400)
        assert memory.search("dog").hits == ()
