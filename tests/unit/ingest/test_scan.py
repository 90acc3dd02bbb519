"""Which files of a workspace are notes: ignore files, links, limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memwell.ingest.scan import Selection, find_workspace, scan
from tests.conftest import Write


def found(workspace: Path, **options: object) -> list[str]:
    return sorted(scan(Selection(workspace, **options)).files)  # type: ignore[arg-type]


def test_takes_every_note_beneath_a_folder_and_nothing_else(workspace: Path, write: Write) -> None:
    for name in ("a.md", "b.markdown", "c/d.mdx", "c/e.txt", "c/f/g.rst", "H.MD"):
        write(name, "x")
    for name in ("p.py", "q.png", ".git/x.md", "node_modules/y.md", ".venv/z.md", "env/lib/w.md"):
        write(name, "x")
    write("env/pyvenv.cfg", "home = /usr")
    assert found(workspace) == ["H.MD", "a.md", "b.markdown", "c/d.mdx", "c/e.txt", "c/f/g.rst"]


def test_without_paths_only_conventional_and_configured_files_are_notes(
    workspace: Path, write: Write
) -> None:
    for name in (
        "MEMORY.md",
        "AGENTS.md",
        "memory/2026-01-01.md",
        "memory/deep/er.md",
        "other.md",
        "docs/api.md",
        "skills/a/SKILL.md",
        "skills/b/notes.txt",
    ):
        write(name, "x")
    conventional = ["AGENTS.md", "MEMORY.md", "memory/2026-01-01.md", "memory/deep/er.md"]
    assert found(workspace, conventional=True, include=()) == conventional
    extra = found(workspace, conventional=True, include=("docs/api.md", "skills/**/*.md"))
    assert extra == sorted([*conventional, "docs/api.md", "skills/a/SKILL.md"])


def test_ignore_files_are_honoured(workspace: Path, write: Write) -> None:
    write(".gitignore", "secret/\n*.tmp.md\n!keep.tmp.md\n/top.md\n")
    write("sub/.memwellignore", "draft*\n")
    for name in (
        "secret/a.md",
        "x.tmp.md",
        "keep.tmp.md",
        "top.md",
        "sub/top.md",
        "sub/draft1.md",
        "ok.md",
    ):
        write(name, "x")
    assert found(workspace) == ["keep.tmp.md", "ok.md", "sub/top.md"]


def test_a_name_overrides_gitignore_but_not_memwellignore(workspace: Path, write: Write) -> None:
    write(".gitignore", "memory/\ndocs/secret.md\n")
    write(".memwellignore", "memory/private*\nUSER.md\n")
    for name in ("USER.md", "memory/a.md", "memory/private.md", "docs/open.md", "docs/secret.md"):
        write(name, "x")
    taken = found(workspace, conventional=True, include=("docs/*.md",))
    assert taken == ["docs/open.md", "memory/a.md"]
    assert found(workspace) == ["docs/open.md"]


def test_a_glob_out_of_the_workspace_is_refused(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.md").write_text("x")
    result = scan(Selection(workspace, conventional=True, include=("../other/*.md",)))
    assert not result.files
    assert "is outside the workspace" in str(result.problems[0])


def test_the_ignore_file_of_the_repository_above_the_workspace_applies(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("private.md\n")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "private.md").write_text("x")
    (notes / "public.md").write_text("x")
    assert found(notes) == ["public.md"]


def test_a_pattern_that_is_not_valid_is_reported(workspace: Path, write: Write) -> None:
    write(".memwellignore", "!\nb.md\n")
    write("a.md", "x")
    write("b.md", "x")
    result = scan(Selection(workspace))
    assert sorted(result.files) == ["a.md"]
    assert "pattern '!' is not valid" in str(result.problems[0])


def test_links_out_of_the_workspace_are_not_followed_and_loops_end(
    workspace: Path, tmp_path: Path, write: Write
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private.md").write_text("x")
    write("real/a.md", "x")
    os.symlink(outside, workspace / "out")
    os.symlink(outside / "private.md", workspace / "private.md")
    os.symlink(workspace, workspace / "real" / "loop")
    os.symlink("a.md", workspace / "real" / "alias.md")
    os.symlink("nowhere.md", workspace / "broken.md")
    assert found(workspace) == ["real/a.md"]


def test_a_link_to_a_file_that_is_not_taken_itself_is(workspace: Path, write: Write) -> None:
    write("docs/long-term.md", "x")
    os.symlink("docs/long-term.md", workspace / "MEMORY.md")
    assert found(workspace, conventional=True, include=()) == ["MEMORY.md"]


def test_special_files_with_the_name_of_a_note_are_skipped(workspace: Path, write: Write) -> None:
    write("folder.md/inside.md", "x")
    os.mkfifo(workspace / "pipe.md")
    assert found(workspace) == ["folder.md/inside.md"]


def test_a_name_that_is_not_utf8_is_reported(workspace: Path) -> None:
    with open(os.fsencode(workspace) + b"/caf\xe9.md", "w") as file:
        file.write("x")
    result = scan(Selection(workspace))
    assert not result.files
    assert "not valid UTF-8" in str(result.problems[0])


def test_a_file_over_the_limit_is_reported_with_size_and_remedy(workspace: Path) -> None:
    with open(workspace / "huge.md", "wb") as file:
        file.truncate(200_000_000)
    (problem,) = scan(Selection(workspace)).problems
    assert str(problem) == (
        "huge.md: skipped, 200 MB is over the limit of 10 MB (raise scan.max_file_mb to index it)"
    )


@pytest.mark.parametrize("mark", ["MEMORY.md", "AGENTS.md", "memwell.toml"])
def test_a_workspace_is_found_from_anywhere_inside_it(
    workspace: Path, write: Write, mark: str
) -> None:
    write(mark, "")
    inner = workspace / "a" / "b"
    inner.mkdir(parents=True)
    assert find_workspace(inner) == workspace
    assert find_workspace(workspace.parent) is None
