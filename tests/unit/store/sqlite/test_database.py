"""One SQLite file, opened more than once in a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
