"""Dates of notes that have none, from git and from the files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from memwell.memory import Memory
from tests.conftest import Write


def commit(root: Path, date: str) -> None:
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    environment = os.environ | names | {"GIT_COMMITTER_EMAIL": "a@b", "GIT_COMMITTER_DATE": date}
    for arguments in (["add", "-A"], ["commit", "-qm", "notes"]):
        subprocess.run(["git", *arguments], cwd=root, check=True, env=environment)


def dates(memory: Memory) -> dict[str, str | None]:
    return {hit.path: hit.date for hit in memory.search("heron", k=10).hits}


def test_the_date_of_a_file_is_an_option(
    memory: Memory, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("plain.md", "A heron.\n")
    write("memory/2024-05-01.md", "A heron of May.\n")
    write("dated.md", "---\ndate: 2023-01-02\n---\n\nA heron with front matter.\n")
    os.utime(workspace / "plain.md", (1_700_000_000, 1_700_000_000))
    memory.index(workspace)
    own = {"dated.md": "2023-01-02", "memory/2024-05-01.md": "2024-05-01"}
    assert dates(memory) == {**own, "plain.md": None}
    monkeypatch.setenv("MEMWELL_SCAN_DATE", "file")
    with Memory() as with_dates:
        with_dates.index(workspace)  # reads the notes again, as the setting changed
        assert dates(with_dates) == {**own, "plain.md": "2023-11-14"}


def test_a_commit_is_the_date_of_what_it_committed(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_SCAN_DATE", "file")
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    write("old.md", "An old heron.\n")
    write("sub/größe – 1.md", "A heron in a folder.\n")
    write("edited.md", "A heron.\n")
    commit(workspace, "2022-03-04T12:00:00+0000")
    write("edited.md", "A heron, edited.\n")
    write("new.md", "A new heron.\n")
    for name in ("edited.md", "new.md"):
        os.utime(workspace / name, (1_700_000_000, 1_700_000_000))
    with Memory() as memory:
        memory.index(workspace)
        assert dates(memory) == {
            "old.md": "2022-03-04",
            "sub/größe – 1.md": "2022-03-04",
            "edited.md": "2023-11-14",
            "new.md": "2023-11-14",
        }
