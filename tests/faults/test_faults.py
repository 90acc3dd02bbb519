"""Damage, full disks and missing rights: nothing is lost. Kills are in tests/soak."""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memwell import Memory
from memwell.errors import DiskFullError, HomeError, NewerIndexError
from memwell.store.sqlite.database import Database
from memwell.store.sqlite.filesystem import unsafe_for_wal
from memwell.store.sqlite.schema import SCHEMA_VERSION
from tests.conftest import EXAMPLES, Write, paths
from tests.support.states import contents, fresh_contents, index_file

# -- a damaged index -----------------------------------------------------------------------------


def truncate(data: bytearray, chance: random.Random) -> bytearray:
    return data[: chance.randrange(1, len(data))]


def zero(data: bytearray, chance: random.Random) -> bytearray:
    start = chance.randrange(0, len(data) - 8192)
    data[start : start + 8192] = bytes(8192)
    return data


def flip(data: bytearray, chance: random.Random) -> bytearray:
    for _ in range(20):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("damage", [truncate, zero, flip])
def test_a_damaged_index_is_noticed_set_aside_and_rebuilt(
    home: Path, damage: Callable[[bytearray, random.Random], bytearray], seed: int
) -> None:
    with Memory() as memory:
        memory.index(EXAMPLES)
    file = index_file(home)
    whole = contents(file)
    file.write_bytes(damage(bytearray(file.read_bytes()), random.Random(seed)))
    with Memory() as memory:
        assert paths(memory, "what is the name of the cat")[0] == "home/pets.md"
        memory.status(deep=True)  # reads every page: what the search did not touch is noticed here
        assert paths(memory, "ERR_NGX_502") == ["runbooks/nginx-502.md"]
        assert any("it is rebuilt from the notes" in notice for notice in memory.notices)
        assert memory.status(deep=True).deep["integrity"] == "ok"
    assert [*file.parent.glob("index.db.corrupt-*")]
    assert contents(file) == whole


@pytest.mark.parametrize("content", [b"", b"not a database at all, just text\n" * 200])
def test_a_file_that_is_not_a_database_is_replaced(
    home: Path, workspace: Path, write: Write, content: bytes
) -> None:
    write("a.md", "apple\n")
    with Memory() as memory:
        memory.index(workspace)
    index_file(home).write_bytes(content)
    with Memory() as memory:
        assert paths(memory, "apple") == ["a.md"]


def test_damage_found_by_one_process_does_not_trip_another(home: Path) -> None:
    with Memory() as reader, Memory() as other:
        reader.index(EXAMPLES)
        assert paths(other, "miso")
        other.close()
        reader.close()
        file = index_file(home)
        file.write_bytes(flip(bytearray(file.read_bytes()), random.Random(1)))
        file.write_bytes(bytes(100) + file.read_bytes()[100:])
        assert paths(reader, "miso")
        assert paths(other, "miso")
        assert not other.notices


# -- FTS5 ----------------------------------------------------------------------------------------


def refuse_fts5(connection: apsw.Connection) -> None:
    def authorise(operation: int, first: str | None, second: str | None, *_: str | None) -> int:
        creating = operation == apsw.SQLITE_CREATE_VTABLE and second == "fts5"
        return apsw.SQLITE_DENY if creating else apsw.SQLITE_OK

    connection.authorizer = authorise


def test_without_fts5_everything_else_works_and_the_index_heals(
    home: Path, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "apple\n")
    with monkeypatch.context() as patch:
        patch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, refuse_fts5])
        with Memory() as memory:
            report = memory.index(workspace)[0]
            assert report.added == 1
            result = memory.search("apple")
            assert not result.hits
            assert [(leg.name, leg.answered) for leg in result.legs] == [("words", False)]
            assert "FTS5" in memory.status().words
            assert memory.get("a.md").text == "apple"
            assert any(check.name == "words" and not check.ok for check in memory.doctor())
    write("b.md", "apple pie\n")
    with Memory() as memory:
        assert {*paths(memory, "apple")} == {"a.md", "b.md"}
        assert memory.status().words == "ready"
    assert contents(index_file(home)) == fresh_contents(workspace, home.parent / "fresh")


def test_a_change_made_without_fts5_is_not_forgotten(
    home: Path, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "apple\n")
    with Memory() as memory:
        memory.index(workspace)
    with monkeypatch.context() as patch:
        patch.setattr("memwell.store.words.normalise.WORDS_VERSION", 0)
        patch.setattr("memwell.store.sqlite.fts.WORDS_VERSION", 0)
        patch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, refuse_fts5])
        write("a.md", "banana\n")
        with Memory() as memory:
            memory.index(workspace)
    with Memory() as memory:
        assert paths(memory, "banana") == ["a.md"]
        assert paths(memory, "apple") == []


# -- a home that cannot be used ------------------------------------------------------------------

CHILD = """
import json, sys
from memwell import Memory, MemwellError
verb, *arguments = sys.argv[1:]
with Memory() as memory:
    try:
        if verb == "index":
            memory.index(*arguments)
        else:
            print(json.dumps([hit.path for hit in memory.search(*arguments).hits]))
    except MemwellError as error:
        print(type(error).__name__, error)
        sys.exit(3)
"""
CAP_DAC_OVERRIDE = 1
PR_CAPBSET_DROP = 24


def as_mere_mortal() -> None:
    """Drop root's capability to ignore file permissions."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_DAC_OVERRIDE, 2):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def child(
    *arguments: str, limits: Callable[[], None] = as_mere_mortal
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limits,
    )


def test_a_read_only_home_refuses_to_index_and_still_answers(
    home: Path, workspace: Path, write: Write
) -> None:
    write("a.md", "apple\n")
    with Memory() as memory:
        memory.index(workspace)
        memory.remember("Pears are green.")  # which the index does not hold yet
    folder = index_file(home).parent
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)
    write("b.md", "apple pie\n")
    try:
        refused = child("index", str(workspace))
        answered = child("search", "apple")
    finally:
        folder.chmod(0o700)
    assert refused.returncode == 3
    assert "HomeError" in refused.stdout
    assert str(folder) in refused.stdout
    assert "MEMWELL_HOME" in refused.stdout
    assert json.loads(answered.stdout) == ["a.md"]


def test_a_home_that_cannot_be_created_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("MEMWELL_HOME", str(tmp_path / "file" / "home"))
    with Memory() as memory, pytest.raises(HomeError, match="file/home"):
        memory.index(workspace)


def test_an_unreadable_file_is_reported_and_its_old_version_kept(
    home: Path, workspace: Path, write: Write
) -> None:
    file = write("a.md", "apple\n")
    write("shut/b.md", "banana\n")
    with Memory() as memory:
        memory.index(workspace)
    write("a.md", "cherry\n")
    file.chmod(0)
    (workspace / "shut").chmod(0)
    code = (
        "from memwell import Memory\nimport sys\nwith Memory() as memory:\n"
        "    report = memory.index(sys.argv[1])[0]\n    print(report.deleted, *report.problems, sep='\\n')\n"
    )
    try:
        told = subprocess.run(
            [sys.executable, "-c", code, str(workspace)],
            capture_output=True,
            text=True,
            preexec_fn=as_mere_mortal,
        ).stdout
    finally:
        file.chmod(0o600)
        (workspace / "shut").chmod(0o700)
    assert told.splitlines() == [
        "0",
        "shut: cannot be read: Permission denied (check its permissions)",
        "a.md: cannot be read: Permission denied (check its permissions)",
    ]


def test_a_full_disk_loses_nothing(home: Path, workspace: Path, write: Write) -> None:
    write("a.md", "apple\n")
    with Memory() as memory:
        memory.index(workspace)
    for number in range(200):
        write(f"{number}.md", f"number {number} " + "filling words here " * 300)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    full = child("index", str(workspace), limits=small_files)
    assert full.returncode == 3
    assert "DiskFullError There is no space left to write" in full.stdout
    assert "Free some disk space" in full.stdout
    assert json.loads(child("search", "apple").stdout) == ["a.md"]
    with Memory() as memory:
        memory.index(workspace)
    assert contents(index_file(home)) == fresh_contents(workspace, home.parent / "fresh")


def test_sqlite_full_is_reported_as_a_full_disk(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "words " * 50_000)

    def few_pages(connection: apsw.Connection) -> None:
        connection.pragma("max_page_count", 60)

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, few_pages])
    with Memory() as memory, pytest.raises(DiskFullError, match="There is no space left to write"):
        memory.index(workspace)


def test_an_index_of_a_newer_version_is_refused_and_left_alone(
    home: Path, workspace: Path, write: Write
) -> None:
    write("a.md", "apple\n")
    with Memory() as memory:
        memory.index(workspace)
    connection = apsw.Connection(str(index_file(home)))
    connection.pragma("user_version", 999)
    connection.close()
    before = index_file(home).read_bytes()
    with (
        Memory() as memory,
        pytest.raises(NewerIndexError, match=f"schema 999, this one knows {SCHEMA_VERSION}"),
    ):
        memory.search("apple")
    assert index_file(home).read_bytes() == before


def test_two_steps_of_a_migration_equal_a_new_file(tmp_path: Path) -> None:
    first = ("make a table", "CREATE TABLE t (a)")
    second = ("add a column", "ALTER TABLE t ADD COLUMN b")
    for name, steps in (("old", (first,)), ("old", (first, second)), ("new", (first, second))):
        database = Database(tmp_path / f"{name}.db", steps)
        with database.writing() as connection:
            assert connection.pragma("user_version") == len(steps)
        database.close()

    def shape(name: str) -> list[tuple[str, ...]]:
        return apsw.Connection(str(tmp_path / f"{name}.db")).pragma("table_info", "t")  # type: ignore[no-any-return]

    assert shape("old") == shape("new")


def test_home_and_its_files_are_private(home: Path, workspace: Path, write: Write) -> None:
    write("a.md", "apple\n")
    with Memory() as memory:
        memory.index(workspace)
        memory.search("apple")
        modes = {
            path.relative_to(home).as_posix(): path.stat().st_mode & 0o777
            for path in home.rglob("*")
        }
    assert home.stat().st_mode & 0o777 == 0o700
    assert {mode for name, mode in modes.items() if "." in name} == {0o600}
    assert {mode for name, mode in modes.items() if "." not in name} == {0o700}


@pytest.mark.parametrize(
    ("line", "folder", "verdict"),
    [
        ("server:/export /mnt/nfs nfs4 rw 0 0", "/mnt/nfs/home", "a network file system (nfs4)"),
        (
            "//nas/share /mnt/my\\040nas cifs rw 0 0",
            "/mnt/my nas/home",
            "a network file system (cifs)",
        ),
        ("/dev/sda1 / ext4 rw 0 0", "/home/me", None),
        ("/dev/sda1 / ext4 rw 0 0", "/home/me/Dropbox/memwell", "a folder synced by Dropbox"),
        ("/dev/sda1 / ext4 rw 0 0", "/home/me/OneDrive - Work/x", "a folder synced by OneDrive"),
    ],
)
def test_folders_where_the_write_ahead_log_is_unsafe_are_recognised(
    tmp_path: Path, line: str, folder: str, verdict: str | None
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\n{line}\n")
    assert unsafe_for_wal(Path(folder), mounts) == verdict


def test_an_unsafe_home_is_reported_in_status_and_works_without_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace: Path, write: Write
) -> None:
    monkeypatch.setenv("MEMWELL_HOME", str(tmp_path / "Dropbox" / "home"))
    write("a.md", "apple\n")
    with Memory() as memory:
        memory.index(workspace)
        assert paths(memory, "apple") == ["a.md"]
        assert any("synced by Dropbox" in line for line in memory.status().warnings)
    assert not [*(tmp_path / "Dropbox").rglob("*-wal")]


# -- many processes ------------------------------------------------------------------------------


def test_two_syncs_at_once_are_safe(home: Path, workspace: Path) -> None:
    for number in range(400):
        (workspace / f"{number}.md").write_text(f"# Note {number}\n\napple number {number}\n")
    processes = [
        subprocess.Popen([sys.executable, "-c", CHILD, "index", str(workspace)]) for _ in range(3)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert contents(index_file(home)) == fresh_contents(workspace, home.parent / "fresh")
