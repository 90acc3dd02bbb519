"""Syncing the index with files: edits, moves, deletions, several workspaces and agents."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memwell import Memory
from memwell.config.trust import trust
from memwell.errors import NotFoundError
from tests.conftest import Write, paths
from tests.support.states import contents, fresh_contents, index_file


def test_indexing_twice_equals_indexing_once(
    memory: Memory, home: Path, workspace: Path, write: Write
) -> None:
    write("a.md", "# A\n\ntext #tag [[b]]\n")
    write("b.md", "# B\n\nother\n")
    first = memory.index(workspace)[0]
    once = contents(index_file(home))
    second = memory.index(workspace)[0]
    assert (first.added, first.chunks_written) == (2, 2)
    assert (second.touched, second.unchanged, second.chunks_written) == (0, 2, 0)
    assert contents(index_file(home)) == once


def test_an_edit_rewrites_only_the_chunks_that_changed(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("a.md", "# A\n\none\n\n# B\n\ntwo\n\n# C\n\nthree\n")
    memory.index(workspace)
    write("a.md", "# A\n\none\n\n# New\n\nzero\n\n# B\n\ntwo\n\n# C\n\nthree and a half\n")
    report = memory.index(workspace)[0]
    assert (report.changed, report.chunks_written) == (1, 2)
    assert [hit.start_line for hit in memory.search("two").hits] == [9]
    assert memory.search('"three and a half"').hits


def test_a_touched_file_is_read_and_found_unchanged(
    memory: Memory, workspace: Path, write: Write
) -> None:
    file = write("a.md", "same\n")
    memory.index(workspace)
    os.utime(file, (1, 1))
    report = memory.index(workspace)[0]
    assert (report.touched, report.unchanged) == (0, 1)


def test_a_change_within_the_same_size_and_mtime_is_noticed(
    memory: Memory, workspace: Path, write: Write
) -> None:
    file = write("a.md", "cats\n")
    stamp = int(time.time()) * 1_000_000_000  # as on a file system with whole seconds
    os.utime(file, ns=(stamp, stamp))
    memory.index(workspace)
    write("a.md", "dogs\n")
    os.utime(file, ns=(stamp, stamp))
    memory.index(workspace)
    assert paths(memory, "dogs") == ["a.md"]


def test_a_moved_note_is_not_written_again(
    memory: Memory, home: Path, workspace: Path, write: Write
) -> None:
    write("old/name.md", "# Title\n\nunusual words\n\n# Second\n\nmore\n")
    memory.index(workspace)
    (workspace / "new").mkdir()
    (workspace / "old/name.md").rename(workspace / "new/place.md")
    report = memory.index(workspace)[0]
    assert (report.moved, report.added, report.deleted, report.chunks_written) == (1, 0, 0, 0)
    assert paths(memory, "unusual") == ["new/place.md"]
    assert paths(memory, "place") == ["new/place.md"]
    assert paths(memory, "old") == []
    assert contents(index_file(home)) == fresh_contents(workspace, home.parent / "fresh")


def test_a_moved_workspace_is_recognised(
    memory: Memory, home: Path, workspace: Path, write: Write
) -> None:
    for number in range(5):
        write(f"{number}.md", f"note number {number}\n")
    memory.index(workspace)
    moved = workspace.with_name("elsewhere")
    workspace.rename(moved)
    report = memory.index(moved)[0]
    assert (report.added, report.unchanged, report.deleted) == (0, 5, 0)
    assert [row.root for row in memory.status().workspaces] == [str(moved)]
    copied = workspace.with_name("copied")
    shutil.copytree(moved, copied)
    shutil.rmtree(moved)
    report = memory.index(copied)[0]
    assert (report.added, report.unchanged) == (0, 5)


def test_deleted_notes_vanish_from_the_next_search(
    memory: Memory, workspace: Path, write: Write
) -> None:
    for number in range(300):
        write(f"{number}.md", f"apple {number}\n")
    memory.index(workspace)
    for number in range(299):
        (workspace / f"{number}.md").unlink()
    assert paths(memory, "apple", k=100) == ["299.md"]


def test_a_search_syncs_small_changes_and_reports_large_ones(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("a.md", "apple\n")
    memory.index(workspace)
    write("b.md", "banana\n")
    result = memory.search("banana")
    assert [hit.path for hit in result.hits] == ["b.md"]
    assert (result.freshness.checked, result.freshness.pending) == (True, 0)
    for number in range(60):
        write(f"many/{number}.md", f"cherry {number}\n")
    (workspace / "a.md").unlink()
    result = memory.search("cherry apple")
    assert not result.hits
    assert result.freshness.pending == 60


def test_a_search_does_not_look_for_changes_if_configured_so(
    memory: Memory, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "apple\n")
    memory.index(workspace)
    write("b.md", "banana\n")
    monkeypatch.setenv("MEMWELL_SYNC_ON_SEARCH", "false")
    result = memory.search("banana")
    assert not result.hits
    assert not result.freshness.checked
    assert result.freshness.synced_at


def test_other_settings_for_chunks_read_the_notes_again(
    memory: Memory, home: Path, workspace: Path, write: Write
) -> None:
    write("a.md", "# A\n\n" + "A sentence of some words. " * 60)
    assert memory.index(workspace)[0].chunks_written == 1
    write("memwell.toml", "[chunk]\nsize = 100\noverlap = 20\n")
    report = memory.index(workspace)[0]
    assert report.changed == 1
    assert report.chunks_written > 3


def test_a_deleted_index_comes_back_by_itself(
    memory: Memory, home: Path, workspace: Path, write: Write
) -> None:
    write("a.md", "apple\n")
    memory.index(workspace)
    for file in index_file(home).parent.glob("index.db*"):
        file.unlink()
    assert paths(memory, "apple") == ["a.md"]
    with Memory() as another:
        assert paths(another, "apple") == ["a.md"]


def test_a_search_in_a_workspace_that_is_not_indexed_yet(workspace: Path, write: Write) -> None:
    write("MEMORY.md", "The door code is 4711.\n")
    (workspace / "inner").mkdir()
    with Memory(workspace=workspace / "inner") as memory:
        assert paths(memory, "door code") == ["MEMORY.md"]


def test_a_search_is_about_the_workspace_at_hand_else_about_all(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.md").write_text(f"apple of {name}\n")
    with Memory() as memory:
        memory.index(tmp_path / "one", tmp_path / "two")
        assert len(memory.search("apple").hits) == 2
    with Memory(workspace=tmp_path / "two") as memory:
        assert [hit.workspace for hit in memory.search("apple").hits] == [str(tmp_path / "two")]


def test_a_named_workspace_that_does_not_exist_is_refused(workspace: Path, write: Write) -> None:
    write("a.md", "apple\n")
    with Memory(workspace=workspace) as memory, pytest.raises(NotFoundError, match="memwell index"):
        memory.search("apple")
    with Memory(fallback_workspace=workspace) as memory:
        assert not memory.search("apple").hits


def test_a_folder_indexed_whole_includes_workspaces_inside_it(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("a.md", "an apple\n")
    write("inner/AGENTS.md", "apple\n")
    memory.index(workspace)
    with Memory(workspace=workspace / "inner") as inner:
        assert len(paths(inner, "apple")) == 2
        assert len(inner.status().workspaces) == 1


def test_a_configured_path_outside_the_workspace_is_named(
    workspace: Path, write: Write, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    write("MEMORY.md", "apple\n")
    write("memwell.toml", '[scan]\nextra = ["../elsewhere"]\n')
    with Memory(workspace=workspace) as memory:
        (report,) = memory.index()
    assert "is outside the workspace" in str(report.problems[0])


def test_a_trusted_workspace_can_name_its_agent(workspace: Path, write: Write, home: Path) -> None:
    file = write("memwell.toml", 'agent = "wren"\n')
    assert Memory(workspace=workspace).agent == "main"
    trust(home, file)
    assert Memory(workspace=workspace).agent == "wren"
    assert Memory(workspace=workspace, agent="other").agent == "other"
    assert Memory().agent == "main"


def test_agents_do_not_see_each_other(workspace: Path, write: Write) -> None:
    write("a.md", "apple\n")
    with Memory(agent="one") as one:
        one.index(workspace)
    with Memory(agent="two") as two:
        assert not two.search("apple").hits


def test_single_files_and_folders_join_the_workspace_around_them(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("MEMORY.md", "apple\n")
    write("docs/a.md", "banana\n")
    write("docs/b.md", "cherry\n")
    write("more/c.md", "damson\n")
    memory.index(workspace / "docs/a.md")
    assert {*paths(memory, "apple banana cherry damson")} == {"MEMORY.md", "docs/a.md"}
    memory.index(workspace / "more")
    assert {*paths(memory, "apple banana cherry damson")} == {"MEMORY.md", "docs/a.md", "more/c.md"}
    memory.index(workspace)
    assert len(paths(memory, "apple banana cherry damson")) == 4
    assert len(memory.status().workspaces) == 1


def test_a_folder_around_known_workspaces_replaces_them(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("inner/a.md", "apple\n")
    memory.index(workspace / "inner")
    memory.index(workspace)
    assert [row.root for row in memory.status().workspaces] == [str(workspace)]
    assert paths(memory, "apple") == ["inner/a.md"]


def test_a_workspace_that_is_away_keeps_its_notes(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("a.md", "apple\n")
    memory.index(workspace)
    away = workspace.with_name("unplugged")
    workspace.rename(away)
    result = memory.search("apple")
    assert not result.hits
    assert "is missing" in result.freshness.note
    with pytest.raises(NotFoundError, match="does not exist"):
        memory.index(workspace)
    away.rename(workspace)
    assert paths(memory, "apple") == ["a.md"]


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["write", "delete", "move", "sync"]),
        st.integers(0, 5),
        st.lists(
            st.sampled_from(["# Head\n", "words here\n", "\n", "#tag\n", "会议 camelCase\n"]),
            max_size=8,
        ),
    ),
    max_size=12,
)


@settings(max_examples=30, suppress_health_check=[*HealthCheck])
@given(EDITS)
def test_after_any_edits_the_index_equals_a_fresh_one(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, int, list[str]]]
) -> None:
    place = tmp_path_factory.mktemp("edits")
    workspace = place / "workspace"
    workspace.mkdir()
    with Memory(place / "home") as memory:
        memory.index(workspace)
        for verb, number, lines in edits:
            file = workspace / f"{number}.md"
            if verb == "write":
                file.write_text("".join(lines))
            elif verb == "delete":
                file.unlink(missing_ok=True)
            elif verb == "move" and file.exists():
                file.rename(workspace / f"{(number + 1) % 6}.md")
            elif verb == "sync":
                memory.index(workspace)
        memory.index(workspace)
    assert contents(index_file(place / "home")) == fresh_contents(workspace, place / "fresh")


def test_threads_share_a_memory(memory: Memory, workspace: Path, write: Write) -> None:
    for number in range(40):
        write(f"{number}.md", f"apple number {number}\n")
    memory.index(workspace)
    errors: list[Exception] = []

    def work(name: int) -> None:
        try:
            for turn in range(15):
                if name % 4 == 0:
                    write(f"new/{name}-{turn}.md", f"apple {name} {turn}\n")
                    memory.index(workspace)
                assert memory.search("apple", k=3).hits
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert memory.status().workspaces[0].notes == 40 + 2 * 15
