"""A disk on which no file can be created."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

NO_INODES = """
    mount -t tmpfs -o size=100m,nr_inodes=300 none "$1" || exit 77
    export MEMWELL_HOME="$1/home" PYTHON="$2"
    memwell() { "$PYTHON" -m memwell "$@"; }
    mkdir "$1/home" "$1/notes" && cd "$1/notes" && echo 'The heron eats fish.' > a.md
    { memwell index . && memwell remember 'The cat is named Miso.' && memwell search Miso; } || exit
    count=0
    while touch "$1/$count" 2> /dev/null; do count=$((count + 1)); done
    for command in 'search heron' 'search Miso' 'facts list' verify 'remember other'; do
        echo "== $command"
        memwell $command
        echo "status $?"
    done
    rm "$1"/[0-9]*
    echo '== afterwards'
    memwell remember 'The cow is brown.' && memwell search cow
"""


def test_a_disk_without_free_inodes_can_be_searched(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed")
    done = subprocess.run(
        [*unshare, "sh", "-c", NO_INODES, "sh", str(disk), sys.executable],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip(f"a small disk cannot be mounted: {done.stderr.strip()}")
    assert "Traceback" not in done.stderr
    answers = dict(part.split("\n", 1) for part in done.stdout.split("== ")[1:])
    assert "a.md:1" in answers["search heron"]
    assert "Miso" in answers["search Miso"]
    assert "Miso" in answers["facts list"]
    assert "is sound" in answers["verify"]
    assert "status 0" not in answers["remember other"]
    assert "cow" in answers["afterwards"]
