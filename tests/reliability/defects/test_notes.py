"""Notes from anywhere: one that cannot be read or parsed never stops the others."""

from __future__ import annotations

import os
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import Write
from tests.reliability.defects.support import (
    find_crash,
    index_and_search,
    run_process,
    wait_for_another_time,
)

LEVELS = [(name, ", ".join([f"*{inner}"] * 9)) for inner, name in pairwise("abcdefghijk")]
LAUGHS = "\n".join(["a: &a [lol, lol]", *(f"{name}: &{name} [{nine}]" for name, nine in LEVELS)])
MERGES = "\n".join(
    ["a: &a {k: v}", *(f"{name}: &{name} {{<<: [{nine}]}}" for name, nine in LEVELS)]
)
BOMBS = {
    "cyclic alias": "---\na: &a [*a]\n---\n",
    "deep yaml": f"---\na: {'[' * 5_000}{']' * 5_000}\n---\n",
    "very deep yaml": f"---\na: {'[' * 60_000}\n---\n",
    "over the limit": f"---\na: {'[' * 200_000}\n---\n",
    "deep yaml maps": f"---\n{'{a: ' * 10_000}{'}' * 10_000}\n---\n",
    "deep toml": f"+++\na = {'[' * 50_000}\n+++\n",
    "deep toml keys": f"+++\n{'a.' * 30_000}a = 1\n+++\n",
    "billion laughs": f"---\n{LAUGHS}\n---\n",
    "merge keys": f"---\n{MERGES}\n---\n",
    "an integer that Python refuses to print": f"---\na: 0x{'f' * 20_000}\n---\n",
    "an integer in base 60": f"---\na: 1{':59' * 20_000}\n---\n",
}


# -- D2: front matter ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOMBS)
def test_reliability_d02_a_front_matter_bomb_does_not_stop_the_rest(
    workspace: Path, write: Write, name: str
) -> None:
    write("bomb.md", f"{BOMBS[name]}zebra\n")
    write("other.md", "zebra crossing\n")
    assert index_and_search(workspace, "zebra") == ["bomb.md", "other.md"]


def test_reliability_d02_a_file_from_the_far_future_is_indexed_with_the_rest(
    workspace: Path, write: Write
) -> None:
    file = write("a.md", "zebra\n")
    write("b.md", "zebra crossing\n")
    # File systems reach beyond the year 2262, SQLite's integers in nanoseconds do not.
    os.utime(file, ns=(2**63 + 10**18, 2**63 + 10**18))
    assert index_and_search(workspace, "zebra") == ["a.md", "b.md"]


# -- D9: quadratic notes ---------------------------------------------------------------------------

HEAVY = {
    "nested headings": "".join(f"{'#' * (n % 6 + 1)} heading {n}\n" for n in range(50_000)),
    "rules": "---\n" * 100_000,
    "inline tags": " ".join(f"#tag{n}" for n in range(300_000)),
    "spaces in a heading": f"# a{' ' * 200_000}b\n",
    "a long blank line": f"a\n{' ' * 300_000}\n",
    "an open link": f"[[{'a' * 200_000}\n",
    "an almost table": f"a|b\n-|{'| ' * 5_000}x\n",
}


@pytest.mark.parametrize("name", HEAVY)
def test_reliability_d09_a_heavy_note_takes_linear_time(
    workspace: Path, write: Write, name: str
) -> None:
    write("heavy.md", f"{HEAVY[name]}\n\nzebra\n")
    write("other.md", "zebra crossing\n")
    assert "other.md" in index_and_search(workspace, "zebra")


# -- D25: deep folders and odd names ---------------------------------------------------------------


def test_reliability_d25_notes_in_1500_nested_folders_are_found(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "a.md").write_text("zebra\n")
    monkeypatch.chdir(workspace)
    for _ in range(1_500):
        os.mkdir("d")
        os.chdir("d")
    Path("deep.md").write_text("zebra in the deep\n")
    os.chdir(workspace)
    try:
        found = index_and_search(workspace, "zebra")
    finally:
        subprocess.run(["rm", "-rf", "d"], check=True)  # shutil.rmtree is recursive, too
    assert [path[-7:] for path in found] == ["a.md", "deep.md"]


def test_reliability_d25_a_home_whose_name_is_not_utf8_is_refused_with_a_remedy(
    tmp_path: Path, workspace: Path, write: Write
) -> None:
    write("a.md", "zebra\n")
    environment = {**os.environ, "MEMWELL_HOME": os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")}
    for arguments in (["index", "."], ["search", "zebra"], ["doctor"], ["facts", "list"]):
        told = run_process(*arguments, cwd=workspace, env=environment)
        assert find_crash(told) == ""
        assert told.returncode == 3
        assert "is not valid UTF-8. Rename it, or set MEMWELL_HOME" in told.stderr


def test_reliability_d25_a_workspace_whose_name_is_not_utf8_is_refused_with_a_remedy(
    tmp_path: Path,
) -> None:
    folder = os.fsencode(tmp_path) + b"/w\xe9"
    os.mkdir(folder)
    with open(folder + b"/a.md", "w") as file:
        file.write("zebra\n")
    told = run_process("index", ".", cwd=Path(os.fsdecode(folder)))
    assert find_crash(told) == ""
    assert told.returncode == 3
    assert "is not valid UTF-8. Rename it" in told.stderr
    assert find_crash(run_process("search", "zebra", cwd=tmp_path)) == ""


# -- D26: edits that keep size and mtime -----------------------------------------------------------


@pytest.mark.parametrize("command", ["index", "search"])
def test_reliability_d26_an_edit_that_keeps_size_and_mtime_is_noticed(
    workspace: Path, write: Write, tmp_path: Path, command: str
) -> None:
    file = write("a.md", "zebra\n")
    stamp = time.time_ns() - 10**15
    os.utime(file, ns=(stamp, stamp))
    wait_for_another_time(tmp_path)
    run_process("index", ".", cwd=workspace)
    wait_for_another_time(tmp_path)
    write("a.md", "horse\n")
    os.utime(file, ns=(stamp, stamp))
    if command == "index":
        run_process("index", ".", cwd=workspace)
    assert run_process("search", "horse", cwd=workspace).stdout[:6] == "a.md:1"
    assert run_process("search", "zebra", cwd=workspace).stdout[:6] != "a.md:1"
