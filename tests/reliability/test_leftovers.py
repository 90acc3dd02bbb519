"""Files that killed processes leave in the home."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.cli import run


def test_reliability_d04_unfinished_files_of_killed_commands_are_removed(
    home: Path, workspace: Path
) -> None:
    assert run("remember", "The cat is named Miso.", cwd=workspace).returncode == 0
    assert run("index", ".", cwd=workspace).returncode == 0
    agent = home / "agents" / "main"
    (home / "models").mkdir()
    old = [
        home / ".tokens.json.a1.part",
        agent / ".hyde.json.b2.part",
        home / "models" / ".m.c3.part",
    ]
    young = agent / ".workspaces.json.d4.part"  # another process may be writing it
    for file in (*old, young):
        file.write_text("{}")
    for file in old:
        os.utime(file, (0, 0))
    assert run("facts", "list", cwd=workspace).returncode == 0
    assert [file for file in (*old, young) if file.exists()] == [young]
