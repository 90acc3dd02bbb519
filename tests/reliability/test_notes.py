"""Notes from anywhere: one that cannot be read or parsed never stops the others."""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.ingest.watch import watch
from tests.conftest import Write
from tests.support.cli import run_process

pytestmark = pytest.mark.process

LEVELS = [(name, ", ".join([f"*{inner}"] * 9)) for inner, name in pairwise("abcdefghi")]
LAUGHS = "\n".join(["a: &a [lol, lol]", *(f"{name}: &{name} [{nine}]" for name, nine in LEVELS)])
MERGES = "\n".join(
    ["a: &a {k: v}", *(f"{name}: &{name} {{<<: [{nine}]}}" for name, nine in LEVELS)]
)
BOMBS = {
    "cyclic alias": "---\na: &a [*a]\n---\n",
    "deep yaml": f"---\na: {'[' * 5_000}\n---\n",
    "very deep yaml": f"---\na: {'[' * 60_000}\n---\n",
    "over the limit": f"---\na: {'[' * 200_000}\n---\n",
    "deep yaml maps": f"---\n{'{a: ' * 10_000}\n---\n",
    "deep yaml lists": f"---\n{'- ' * 20_000}\n---\n",
    "deep toml": f"+++\na = {'[' * 50_000}\n+++\n",
    "deep toml keys": f"+++\n{'a.' * 30_000}a = 1\n+++\n",
    "billion laughs": f"---\n{LAUGHS}\n---\n",
    "merge keys": f"---\n{MERGES}\n---\n",
    "an integer that Python refuses to print": f"---\na: 0x{'f' * 20_000}\n---\n",
    "an integer in base 60": f"---\na: 1{':59' * 20_000}\n---\n",
}


def as_mere_mortal() -> None:
    """Drop root's capability to ignore file permissions."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2):
            libc.prctl(24, capability, 0, 0, 0)


def index_and_search(workspace: Path, word: str) -> list[str]:
    """Index a workspace in processes of their own; return the notes with a word.

    The limit of a test ends one that takes minutes, as the hostile notes once did.
    """
    indexed = run_process("index", ".", cwd=workspace, timeout=150)
    assert "Traceback" not in indexed.stderr
    assert indexed.returncode == 0, indexed.stderr
    found = run_process("search", word, cwd=workspace, timeout=150)
    assert "Traceback" not in found.stderr
    return sorted(line.split(":")[0] for line in found.stdout.splitlines() if ".md:" in line)


# -- D2: front matter ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOMBS)
def test_reliability_d02_a_front_matter_bomb_does_not_stop_the_rest(
    workspace: Path, write: Write, name: str
) -> None:
    write("bomb.md", f"{BOMBS[name]}zebra\n")
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
def test_reliability_d02_a_refused_front_matter_is_named(
    workspace: Path, write: Write, front: str, reason: str
) -> None:
    write("a.md", f"{front}zebra\n")
    indexed = run_process("index", ".", cwd=workspace)
    assert indexed.returncode == 0
    assert "a.md: front matter" in indexed.stdout + indexed.stderr
    assert reason in indexed.stdout + indexed.stderr


def test_reliability_d02_limits_leave_ordinary_front_matter_alone(
    workspace: Path, write: Write
) -> None:
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


def test_reliability_d02_a_file_from_the_far_future_is_indexed_with_the_rest(
    workspace: Path, write: Write
) -> None:
    file = write("a.md", "zebra\n")
    write("b.md", "zebra crossing\n")
    # File systems reach beyond the year 2262, SQLite's integers in nanoseconds do not.
    os.utime(file, ns=(2**63 + 10**18, 2**63 + 10**18))
    assert index_and_search(workspace, "zebra") == ["a.md", "b.md"]


def test_reliability_d02_a_note_whose_parsing_fails_is_indexed_as_text(
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


def test_reliability_d02_a_note_that_the_store_refuses_does_not_stop_the_batch(
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
def test_reliability_d02_odd_notes_are_indexed_in_every_store(
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


def test_reliability_d02_a_watch_outlives_a_sync_that_fails(workspace: Path) -> None:
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


# -- D9: quadratic notes ---------------------------------------------------------------------------

HEAVY = {
    "nested headings": "".join(f"{'#' * (n % 6 + 1)} heading {n}\n" for n in range(50_000)),
    "rules": "---\n" * 100_000,
    "inline tags": " ".join(f"#tag{n}" for n in range(300_000)),
    "spaces in a heading": f"# a{' ' * 200_000}b\n",
    "a long blank line": f"a\n{' ' * 300_000}\n",
    "an open link": f"[[{'a' * 200_000}\n",
    "an almost table": f"a|b\n-|{'| ' * 5_000}x\n",
    "a long heading over many passages": f"# {'h' * 300_000}\n\n{'word ' * 200_000}\n",
}


@pytest.mark.parametrize("name", HEAVY)
def test_reliability_d09_a_heavy_note_takes_linear_time(
    workspace: Path, write: Write, name: str
) -> None:
    write("heavy.md", f"{HEAVY[name]}\n\nzebra\n")
    write("other.md", "zebra crossing\n")
    assert "other.md" in index_and_search(workspace, "zebra")


def test_reliability_d09_a_note_over_the_budget_is_indexed_as_text_and_named(
    workspace: Path, write: Write
) -> None:
    write("sections.md", "".join(f"# {n}\n\nx\n\n" for n in range(60_000)) + "zebra\n")
    write("tags.md", " ".join(f"#tag{n}" for n in range(3_000)))
    (workspace / "z.md").write_text("zebra\n")
    indexed = run_process("index", ".", cwd=workspace)
    told = indexed.stdout + indexed.stderr
    assert "sections.md: has sections for more than 50000 passages; indexed as plain text" in told
    assert "tags.md: has 3000 tags; only the first" in told
    with Memory() as memory:
        assert {hit.path for hit in memory.search("zebra").hits} == {"sections.md", "z.md"}


# -- D23: unreadable files in doctor ---------------------------------------------------------------


@pytest.mark.parametrize(
    "shut", ["home", "home/agents", "above", "above/notes", "above/notes/a.md"]
)
def test_reliability_d23_doctor_reports_what_it_cannot_read(tmp_path: Path, shut: str) -> None:
    notes = tmp_path / "above" / "notes"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("zebra\n")
    assert run_process("index", str(notes), cwd=tmp_path).returncode == 0
    mode = (tmp_path / shut).stat().st_mode
    (tmp_path / shut).chmod(0)
    try:
        checked = run_process("doctor", cwd=tmp_path, preexec_fn=as_mere_mortal)
    finally:
        (tmp_path / shut).chmod(mode)
    assert "Traceback" not in checked.stderr
    assert checked.returncode == 1
    assert "FAIL" in checked.stdout
    assert str(tmp_path / shut) in checked.stdout or "a.md cannot be read" in checked.stdout


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
        assert told.returncode == 3
        assert "Traceback" not in told.stderr
        assert "is not valid UTF-8. Rename it, or set MEMWELL_HOME" in told.stderr


def test_reliability_d25_a_hook_with_such_a_home_still_ends_with_0(
    tmp_path: Path, workspace: Path
) -> None:
    environment = {**os.environ, "MEMWELL_HOME": os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")}
    for name in ("capture", "recall"):
        told = run_process("hook", name, cwd=workspace, stdin="{}", env=environment)
        assert (told.returncode, told.stdout) == (0, "")


def test_reliability_d25_a_workspace_whose_name_is_not_utf8_is_refused_with_a_remedy(
    tmp_path: Path,
) -> None:
    folder = os.fsencode(tmp_path) + b"/w\xe9"
    os.mkdir(folder)
    with open(folder + b"/a.md", "w") as file:
        file.write("zebra\n")
    told = run_process("index", ".", cwd=Path(os.fsdecode(folder)))
    assert told.returncode == 3
    assert "Traceback" not in told.stderr
    assert "is not valid UTF-8. Rename it" in told.stderr
    assert run_process("search", "zebra", cwd=tmp_path).stderr.count("Traceback") == 0


def test_reliability_d25_an_ignore_file_that_cannot_be_read_hides_its_folder(
    workspace: Path, write: Write
) -> None:
    write("a.md", "zebra\n")
    write("sub/private.md", "zebra at home\n")
    write("sub/.memwellignore", "private.md\n").chmod(0)
    indexed = run_process("index", ".", cwd=workspace, preexec_fn=as_mere_mortal)
    assert "sub: cannot be read: Permission denied" in indexed.stdout + indexed.stderr
    assert "private" not in run_process("search", "zebra", "--all", cwd=workspace).stdout


# -- D26: edits that keep size and mtime -----------------------------------------------------------


@pytest.mark.parametrize("command", ["index", "search"])
def test_reliability_d26_an_edit_that_keeps_size_and_mtime_is_noticed(
    workspace: Path, write: Write, command: str
) -> None:
    file = write("a.md", "zebra\n")
    stamp = time.time_ns() - 10**15
    os.utime(file, ns=(stamp, stamp))
    time.sleep(0.1)
    run_process("index", ".", cwd=workspace)
    time.sleep(0.1)
    write("a.md", "horse\n")
    os.utime(file, ns=(stamp, stamp))
    if command == "index":
        run_process("index", ".", cwd=workspace)
    assert run_process("search", "horse", cwd=workspace).stdout.startswith("a.md:1")
    assert not run_process("search", "zebra", cwd=workspace).stdout.startswith("a.md:1")


def test_reliability_d26_a_change_of_mode_does_not_keep_searches_from_small_edits(
    workspace: Path, write: Write
) -> None:
    for number in range(8):
        write(f"big{number}.md", f"word{number} " * 60_000)
    run_process("index", ".", cwd=workspace)
    time.sleep(0.1)
    for file in workspace.iterdir():
        file.chmod(0o600)
    write("new.md", "zebra\n")
    assert run_process("search", "zebra", cwd=workspace).stdout.startswith("new.md:1")


# -- D29: the remedy of a system error -------------------------------------------------------------

WITHOUT_DESCRIPTORS = """
import os, resource, sys
from memwell import Memory
from memwell.ingest.watch import watch

with Memory() as memory:
    memory.index(sys.argv[1])
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, most))
    try:
        print(*memory.index(sys.argv[1])[0].problems)
    except Exception as error:
        print(error)
"""


def test_reliability_d29_the_limit_of_open_files_is_named_as_such(
    workspace: Path, write: Write
) -> None:
    write("a.md", "zebra\n")
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(workspace)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Too many open files" in told.stdout, told.stderr
    assert "ermissions" not in told.stdout
    assert "ulimit -n" in told.stdout
