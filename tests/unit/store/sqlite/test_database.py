"""One SQLite file, opened more than once in a process."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import sleep

import pytest

from memwell.store.sqlite import database
from memwell.store.sqlite.database import Database

# SQLite locks 510 bytes there while a connection is open; a writer of another process waits for it.
TRY_TO_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
"""


def is_locked(file: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", TRY_TO_LOCK, str(file)], capture_output=True)
    return done.returncode != 0 and b"BlockingIOError" in done.stderr


@pytest.mark.process
def test_a_second_connection_leaves_the_lock_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "index.db"
    first, second = Database(file), Database(file)
    with first.writing() as connection:
        connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    assert is_locked(file)
    with second.reading() as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'a'").get == "b"
    assert is_locked(file)
    second.close()
    assert is_locked(file)
    first.close()
    assert not is_locked(file)


def test_few_threads_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_READER_SECONDS", 60)
    file = Database(tmp_path / "index.db")
    lock, reading, most = threading.Lock(), 0, 0

    def read() -> None:
        nonlocal reading, most
        with file.reading(), file.reading():  # a nested one does not wait
            with lock:
                reading += 1
                most = max(most, reading)
            sleep(0)
            with lock:
                reading -= 1

    with ThreadPoolExecutor(4 * database._READERS) as threads, closing(file):
        for done in [threads.submit(read) for _ in range(400)]:
            done.result()
    assert 0 < most <= database._READERS


def test_a_reader_whose_turn_does_not_come_reads_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_READER_SECONDS", 0.01)
    file = Database(tmp_path / "index.db")
    all_read = threading.Barrier(database._READERS + 1, timeout=60)

    def read() -> None:
        with file.reading():
            all_read.wait()

    with ThreadPoolExecutor(all_read.parties) as threads, closing(file):
        for done in [threads.submit(read) for _ in range(all_read.parties)]:
            done.result()
