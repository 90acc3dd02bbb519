"""Notes from anywhere: one that cannot be read or parsed never stops the others."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.ingest.watch import watch
from tests.conftest import Write
from tests.reliability.defects.support import (
    drop_rights_of_root,
    index_and_search,
    wait_for_another_time,
)
from tests.support.cli import run_process

pytestmark = pytest.mark.process


# -- front matter ----------------------------------------------------------------------------------


UNCLOSED = {
    "lists": f"---\n{'- ' * 20_000}\n---\n",
    "brackets": f"---\na: {'[' * 5_000}\n---\n",
    "maps": f"---\n{'{a: ' * 10_000}\n---\n",
}


@pytest.mark.parametrize("name", UNCLOSED)
def test_an_unclosed_front_matter_does_not_stop_the_rest(
    workspace: Path, write: Write, name: str
) -> None:
    write("bomb.md", f"{UNCLOSED[name]}zebra\n")
    write("other.md", "zebra crossing\n")
    assert index_and_search(workspace, "zebra") == ["bomb.md", "other.md"]


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        ("---\na: &a [*a]\n---\n", "anchors or aliases"),
        ("---\na: {<<: {b: c}}\n---\n", "merge key"),
        (f"---\na: {'[' * 21}{']' * 21}\n---\n", "more than 20 levels"),
        (f"---\na: [{'1, ' * 10_001}]\n---\n", "more than 10000 values"),
        (f"+++\na = {'[' * 21}{']' * 21}\n+++\n", "more than 20 levels"),
        (f"---\na: {'x' * 64_000}\n---\n", "over the limit of 64000"),
    ],
)
def test_a_refused_front_matter_is_named(
    workspace: Path, write: Write, front: str, reason: str
) -> None:
    write("a.md", f"{front}zebra\n")
    indexed = run_process("index", ".", cwd=workspace)
    assert indexed.returncode == 0
    assert "a.md: front matter" in indexed.stdout + indexed.stderr
    assert reason in indexed.stdout + indexed.stderr


def test_limits_leave_ordinary_front_matter_alone(workspace: Path, write: Write) -> None:
    nested = f"{'[' * 19}1{']' * 19}"
    write("a.md", f'---\ntitle: A [[b]] << c\na: {nested}\nq: "<<"\n---\nzebra\n')
    toml = "\n".join(
        [
            'title = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[ a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v"',
            "x = '''\n[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n'''",
            "n = [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5,"
            " 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]",
        ]
    )
    write("b.md", f"+++\n{toml}\n+++\nzebra\n")
    indexed = run_process("index", ".", cwd=workspace)
    assert indexed.stdout == f"{workspace}: 2 added; 2 chunks written\n"
    assert indexed.stderr == ""


def test_a_note_whose_parsing_fails_is_indexed_as_text(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memwell.ingest.front_matter import split_front_matter

    def fail(text: str) -> tuple[dict[str, object], int, str]:
        if "bad" in text:
            raise RecursionError("maximum recursion depth exceeded")
        return split_front_matter(text)

    monkeypatch.setattr("memwell.ingest.parse_note.split_front_matter", fail)
    write("a.md", "bad zebra\n")
    write("b.md", "good zebra\n")
    with Memory() as memory:
        (report,) = memory.index(workspace)
        assert [str(problem) for problem in report.problems] == [
            "a.md: cannot be parsed (RecursionError: maximum recursion depth exceeded);"
            " indexed as plain text"
        ]
        assert {hit.path for hit in memory.search("zebra").hits} == {"a.md", "b.md"}


def test_a_note_that_the_store_refuses_does_not_stop_the_batch(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memwell.store.sqlite.notes import SqliteNotes

    real = SqliteNotes.put

    def put(notes: SqliteNotes, workspace_id: int, file: Any, note: Any, **options: Any) -> Any:
        if "b.md" in file.path and note.tags:
            raise ValueError("the store refuses its tags")
        if "c.md" in file.path:
            raise ValueError("the store refuses this note")
        return real(notes, workspace_id, file, note, **options)

    write("old/moved.md", "zebra in motion\n")
    with Memory() as memory:
        memory.index(workspace)
        for name in ("a.md", "b.md", "c.md", "d.md"):
            write(name, f"zebra #{name[0]}tag\n")
        (workspace / "old/moved.md").rename(workspace / "moved.md")
        monkeypatch.setattr(SqliteNotes, "put", put)
        (report,) = memory.index(workspace)
        assert (report.added, report.moved, report.deleted) == (3, 1, 0)
        assert [str(problem) for problem in report.problems] == [
            "b.md: cannot be indexed (ValueError: the store refuses its tags) as it is;"
            " indexed as plain text",
            "c.md: cannot be indexed (ValueError: the store refuses this note)",
        ]
        found = {hit.path for hit in memory.search("zebra").hits}
        assert found == {"a.md", "b.md", "d.md", "moved.md"}


ODD = {
    "nul.md": '---\ntitle: "a\\0b"\ntags: ["c\\0d"]\n---\nzebra one\n',
    "tag.md": f"---\ntags: [{'t' * 9_000}]\n---\nzebra two\n",
    "link.md": f"zebra [[{'x' * 90_000}]]\n",
    "random.md": f"zebra [[{secrets.token_hex(30_000)}]] #{secrets.token_hex(3_000)}\n",
    "title.md": f"---\ntitle: {secrets.token_hex(20_000)}\n---\nzebra three\n",
    "alias.md": f"---\naliases: [{secrets.token_hex(4_000)}]\n---\nzebra four\n",
    "word.md": f"zebra {secrets.token_hex(200_000)}\n",
    f"{'/'.join(secrets.token_hex(40) for _ in range(36))}/long.md": "zebra five\n",
}


@pytest.mark.parametrize("store", ["files", "postgres"])
def test_odd_notes_are_indexed_in_every_store(
    workspace: Path, write: Write, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store == "postgres":
        from tests.support.postgres import app_url, new_tenant

        monkeypatch.setenv("MEMWELL_STORE_URL", app_url())
        monkeypatch.setenv("MEMWELL_STORE_TENANT", new_tenant())
    for path, text in ODD.items():
        write(path, text)
    write("other.md", "zebra crossing\n")
    with Memory() as memory:
        (report,) = memory.index(workspace)
        found = {hit.path for hit in memory.search("zebra", k=20).hits}
    problems = {problem.path: problem.what for problem in report.problems}
    assert found | {*problems} == {*ODD, "other.md"}
    if store == "postgres":  # whose indexes do not take a path of 2,900 random characters
        assert [
            "cannot be indexed (ProgramLimitExceeded" in what for what in problems.values()
        ] == [True]
    else:
        assert not problems


def test_a_watch_outlives_a_sync_that_fails(workspace: Path) -> None:
    calls: list[Path] = []
    said: list[str] = []
    stop = threading.Event()

    def sync(root: Path) -> None:
        calls.append(root)
        if len(calls) == 1:
            raise RecursionError("maximum recursion depth exceeded")
        stop.set()

    watch([workspace], sync, lambda root: [root], said.append, stop)
    assert len(calls) > 1
    assert said == [
        f"{workspace} cannot be synced (RecursionError: maximum recursion depth exceeded);"
        " trying again"
    ]


# -- heavy notes -----------------------------------------------------------------------------------


def test_a_long_heading_over_many_passages_takes_linear_time(workspace: Path, write: Write) -> None:
    write("heavy.md", f"# {'h' * 300_000}\n\n{'word ' * 200_000}\n\nzebra\n")
    write("other.md", "zebra crossing\n")
    assert "other.md" in index_and_search(workspace, "zebra")


def test_a_note_over_the_budget_is_indexed_as_text_and_named(workspace: Path, write: Write) -> None:
    write("sections.md", "".join(f"# {n}\n\nx\n\n" for n in range(60_000)) + "zebra\n")
    write("tags.md", " ".join(f"#tag{n}" for n in range(3_000)))
    (workspace / "z.md").write_text("zebra\n")
    indexed = run_process("index", ".", cwd=workspace)
    told = indexed.stdout + indexed.stderr
    assert "sections.md: has sections for more than 50000 passages; indexed as plain text" in told
    assert "tags.md: has 3000 tags; only the first" in told
    with Memory() as memory:
        assert {hit.path for hit in memory.search("zebra").hits} == {"sections.md", "z.md"}


# -- odd names -------------------------------------------------------------------------------------


def test_a_hook_ends_with_0_though_its_home_is_not_named_in_utf8(
    tmp_path: Path, workspace: Path
) -> None:
    environment = {**os.environ, "MEMWELL_HOME": os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")}
    for name in ("capture", "recall"):
        told = run_process("hook", name, cwd=workspace, stdin="{}", env=environment)
        assert (told.returncode, told.stdout) == (0, "")


def test_an_ignore_file_that_cannot_be_read_hides_its_folder(workspace: Path, write: Write) -> None:
    write("a.md", "zebra\n")
    write("sub/private.md", "zebra at home\n")
    write("sub/.memwellignore", "private.md\n").chmod(0)
    indexed = run_process("index", ".", cwd=workspace, preexec_fn=drop_rights_of_root)
    assert "sub: cannot be read: Permission denied" in indexed.stdout + indexed.stderr
    assert "private" not in run_process("search", "zebra", "--all", cwd=workspace).stdout


# -- edits -----------------------------------------------------------------------------------------


def test_a_change_of_mode_does_not_keep_searches_from_small_edits(
    workspace: Path, write: Write, tmp_path: Path
) -> None:
    for number in range(8):
        write(f"big{number}.md", f"word{number} " * 60_000)
    run_process("index", ".", cwd=workspace)
    wait_for_another_time(tmp_path)
    for file in workspace.iterdir():
        file.chmod(0o600)
    write("new.md", "zebra\n")
    assert run_process("search", "zebra", cwd=workspace).stdout.startswith("new.md:1")
