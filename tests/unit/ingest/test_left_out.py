"""What `index` says about files that it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import Memory
from memwell.ingest.left_out import describe_left_out
from memwell.ingest.readers import formats
from memwell.ingest.scan import Selection
from tests.conftest import Write
from tests.support.cli import run


def test_notes_that_the_convention_leaves_out_are_named_with_the_command(
    workspace: Path, write: Write
) -> None:
    write("MEMORY.md", "x")
    for number in range(7):
        write(f"people/{number}.md", "x")
    (said,) = describe_left_out(Selection(workspace, conventional=True, include=()))
    assert said == (
        "7 notes are not indexed: people/0.md, people/1.md, people/2.md, people/3.md, people/4.md"
        f" and 2 more. `memwell index {workspace}` indexes all notes beneath this folder"
    )
    assert describe_left_out(Selection(workspace)) == ()


def test_files_that_need_the_extra_are_counted(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_is_importable", lambda package: False)
    for number in range(5):
        write(f"{number}.pdf", "x")
    write("drafts/a.pdf", "x")
    write(".gitignore", "drafts/\n")
    (said,) = describe_left_out(Selection(workspace))
    assert said == "5 PDF files need memwell[documents]: pip install 'memwell[documents]'"
    with Memory() as memory:
        (report,) = memory.index(workspace)
        assert (report.added, report.problems, report.left_out) == (0, (), (said,))


def test_pages_are_named_with_the_setting_and_source_code_is_not(
    workspace: Path, write: Write
) -> None:
    write("a.md", "x")
    write("a.html", "x")
    write("b.htm", "x")
    write("a.py", "x")
    (said,) = describe_left_out(Selection(workspace))
    assert said == '2 HTML files are not indexed: add "html" to scan.formats'
    named = Selection(workspace, include=(".", "a.html"))
    (said,) = describe_left_out(named)
    assert said == '1 HTML file is not indexed: add "html" to scan.formats'


@pytest.mark.process
def test_the_command_ends_with_what_is_left_out(workspace: Path, write: Write) -> None:
    write("MEMORY.md", "x")
    write("people/ann.md", "x")
    done = run("index", cwd=workspace)
    assert "1 note is not indexed: people/ann.md. `memwell index" in done.stderr
    assert "people" not in run("index", ".", cwd=workspace).stderr


@pytest.mark.process
def test_a_file_that_is_named_is_taken_whatever_the_formats_are(
    workspace: Path, write: Write
) -> None:
    write("a.md", "x")
    write("page.html", "<h1>Tides</h1><p>spring tide")
    write("other.html", "<p>neap tide")
    run("index", ".", cwd=workspace)
    run("index", "page.html", cwd=workspace)
    with Memory(workspace=workspace) as memory:
        assert [hit.path for hit in memory.search("tide").hits] == ["page.html"]
