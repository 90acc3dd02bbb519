"""Old and new versions use one database while it is migrated, and a server is recovered to a time."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memwell import Memory
from memwell.errors import IndexDatabaseError, NewerIndexError
from memwell.store.contract.values import FactFilter
from memwell.store.postgres import migrate as migrating
from memwell.store.postgres.migrations import MIGRATIONS, NEEDS, OLDEST_SCHEMA
from memwell.store.postgres.roles import role
from tests.conftest import REPOSITORY
from tests.postgres.test_migrations import name_of
from tests.support.cli import run, run_json
from tests.support.cluster import Cluster, cluster
from tests.support.postgres import new_database, new_role, shared
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.server, pytest.mark.process]
SOURCE = REPOSITORY / "src"
OLDER_COMMIT = "0fa8ea8dd39e51947adf8d3a3b841d103198c517"
"""A commit that works with schemas 8 and 9: the oldest that may serve beside the present one."""
WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from memwell.store.postgres import migrate, migrations
if sys.argv[2] == "simulated":  # the next version: one more step, which others need not know
    steps = (*migrations.MIGRATIONS, ("add a column", "ALTER TABLE facts ADD COLUMN mood text;"))
    migrate.MIGRATIONS = steps
    migrate.NEEDS = {**migrations.NEEDS, len(steps): len(steps) - 1}
from memwell import Memory
url, home, over, log = sys.argv[3:]
settings = {"store.url": url, "store.tenant": "acme", "embedding.chain": ("test",)}
with Memory(Path(home), settings=settings) as memory:
    number = 0
    while not Path(over).exists():
        text = f"The {sys.argv[2]} boat {number} is blue."
        memory.remember(text)
        assert memory.search(text, mode="words").hits
        with open(log, "a") as file:
            file.write(text + "\\n")
        number += 1
"""


@contextmanager
def worker(version: str, url: str, folder: Path, source: Path = SOURCE) -> Iterator[Path]:
    """A process of a version that remembers and searches until the end of the block."""
    log, over = folder / f"{version}.log", folder / f"{version}.over"
    arguments = [str(REPOSITORY), version, url, str(folder / version), str(over), str(log)]
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments],
        env={**os.environ, "PYTHONPATH": str(source)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield log
    finally:
        over.touch()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.slow
def test_two_versions_serve_one_database_while_it_migrates(tmp_path: Path) -> None:
    with cluster() as made:
        role = new_role(on=made)
        with worker("old", made.url(user=role), tmp_path) as old:
            wait_until(lambda: len(lines(old)) > 2)
            # As the owner, the new version takes its step; the old one goes on.
            with worker("simulated", made.url(), tmp_path) as new:
                wait_until(lambda: len(lines(new)) > 2)
                before = len(lines(old))
                wait_until(lambda: len(lines(old)) > before + 2)
        steps = made.execute("SELECT max(number), max(needs) FROM memwell.migrations")
        assert steps == [(len(MIGRATIONS) + 1, len(MIGRATIONS))]
        told = {text for (text,) in made.execute("SELECT text FROM memwell.facts")}
        assert told >= {*lines(old), *lines(new)}
        settings: dict[str, Any] = {"store.url": made.url(user=role), "store.tenant": "acme"}
        with Memory(tmp_path / "later", settings=settings) as memory:  # a process that starts now
            assert memory.facts.find(FactFilter())


# -- a real pair of commits ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of an older commit that knows ranges of schemas."""
    folder = tmp_path_factory.mktemp("older")
    git = ["git", "-C", str(REPOSITORY), "archive", OLDER_COMMIT, "src"]
    archived = subprocess.run(git, capture_output=True, check=False)
    if archived.returncode:
        pytest.skip("a repository with its history is needed")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def run_version(source: Path, url: str, home: Path, *arguments: str) -> str:
    """Run a command of a version as the owner of the database, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "memwell", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(source),
            "MEMWELL_STORE_URL": url,
            "MEMWELL_STORE_TENANT": "acme",
            "MEMWELL_HOME": str(home),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_older_commit_and_this_one_serve_one_database_before_it_migrates(
    tmp_path: Path, older: Path
) -> None:
    with cluster() as made:
        home = tmp_path / "owner"
        run_version(older, made.url(), home, "remember", "The harbour is small.")
        made.execute(run_version(older, made.url(), home, "store", "roles", "--role", "app"))
        url = made.url(user="app")
        with worker("new", url, tmp_path) as new:
            with worker("old", url, tmp_path, older) as old:
                wait_until(lambda: len(lines(new)) > 2)
                before = len(lines(old))
                wait_until(lambda: len(lines(old)) > before + 2)
            told = [*lines(old), *lines(new)]
            assert boats_found_by(older, url, home) >= {*told}  # also what the other one wrote
            # The older one does not know postings as arrays: it must be gone (docs/postgres.md).
            run_version(SOURCE, made.url(), home, "store", "migrate")
            made.execute(run_version(SOURCE, made.url(), home, "store", "roles", "--role", "app"))
            before = len(lines(new))
            wait_until(lambda: len(lines(new)) > before + 2)
        told = [*lines(old), *lines(new)]
        assert made.execute("SELECT count(*) FROM memwell.migrations") == [(len(MIGRATIONS),)]
        stored = [text for (text,) in made.execute("SELECT text FROM memwell.facts")]
        assert sorted(stored) == sorted(["The harbour is small.", *told])
        assert boats_found_by(SOURCE, url, home) == {*told}


def boats_found_by(source: Path, url: str, home: Path) -> set[str]:
    found = run_version(source, url, home, "search", "boat", "-k", "1000", "--json")
    return {hit["text"] for hit in json.loads(found)["hits"]}


def test_a_role_that_is_not_the_owner_uses_the_schema_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster() as made, psycopg.connect(made.url(), autocommit=True) as owner:
        with monkeypatch.context() as before:
            before.setattr(migrating, "MIGRATIONS", MIGRATIONS[:OLDEST_SCHEMA])
            migrating.migrate(owner)
        owner.execute("CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA memwell TO app")
        owner.execute("GRANT ALL ON ALL TABLES IN SCHEMA memwell TO app")
        owner.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA memwell TO app")
        settings: dict[str, Any] = {
            "store.url": made.url(user="app"),
            "store.tenant": "acme",
            "embedding.chain": ("test",),
        }
        with Memory(tmp_path, settings=settings) as memory:
            told = memory.remember("The boat is blue.").fact
            assert memory.search("boat").hits[0].path == told.id
            memory.forget(told.id)
        assert made.execute("SELECT count(*) FROM memwell.migrations") == [(OLDEST_SCHEMA,)]
        monkeypatch.setattr(migrating, "OLDEST_SCHEMA", OLDEST_SCHEMA + 1)
        with (
            Memory(tmp_path, settings=settings) as memory,
            pytest.raises(IndexDatabaseError, match="Run `memwell store migrate`"),
        ):
            memory.search("boat")


def test_a_schema_that_needs_a_newer_version_is_refused() -> None:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        migrating.migrate(connection)
        newest = len(MIGRATIONS)
        add = "INSERT INTO memwell.migrations VALUES (%s, 'a later step', %s)"
        connection.execute(add, (newest + 1, newest))
        assert migrating.read_version(connection) == newest + 1
        connection.execute(add, (newest + 2, None))
        with pytest.raises(NewerIndexError, match="Upgrade memwell"):
            migrating.read_version(connection)
    assert {*NEEDS.values()} <= {*range(OLDEST_SCHEMA, newest + 1)}


def test_store_migrate_lists_takes_and_repeats_the_steps(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    monkeypatch.setenv("MEMWELL_STORE_URL", url)
    names = [name for name, _ in MIGRATIONS]
    assert run_json("store", "migrate", "--dry-run", cwd=workspace)["steps"] == names
    assert run_json("store", "migrate", cwd=workspace)["steps"] == names
    assert run("store", "migrate", cwd=workspace).stdout == "The schema is up to date.\n"
    name = name_of(url)
    other = f"role-{secrets.token_hex(6)}"
    monkeypatch.setenv("MEMWELL_STORE_URL", shared().url(name, other))
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in role(other):
            connection.execute(statement)
        connection.execute("DELETE FROM memwell.migrations WHERE number = 9")
    done = run("store", "migrate", cwd=workspace)
    assert (done.returncode, "Run it as the owner" in done.stderr) == (3, True)


def test_store_migrate_gives_way_to_a_lock_and_goes_on(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    monkeypatch.setattr(migrating, "LOCK_MS", 50)
    monkeypatch.setenv("MEMWELL_STORE_URL", url)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (migrating._MIGRATING,))
        done = run("store", "migrate", "--attempts", "1", cwd=workspace)
        assert (done.returncode, "Try again" in done.stderr) == (3, True)
    assert run("store", "migrate", "--attempts", "1", cwd=workspace).returncode == 0


# -- recovery --------------------------------------------------------------------------------------


@pytest.fixture
def archive() -> Iterator[Path]:
    """A folder that the server may write to, whoever runs it."""
    folder = Path(tempfile.mkdtemp(prefix="memwell-wal-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_server_is_recovered_to_the_time_before_a_mistake(tmp_path: Path, archive: Path) -> None:
    settings: dict[str, Any] = {"store.tenant": "acme", "embedding.chain": ("test",)}
    copy = Path(tempfile.mkdtemp(prefix="memwell-pg-"))
    with cluster(archive_mode="on", archive_command=f"cp %p {archive}/%f") as made:
        with Memory(tmp_path / "home", settings={**settings, "store.url": made.url()}) as memory:
            memory.remember("The boat is blue.")
            base = Cluster(copy, made)  # by pg_basebackup
            memory.remember("The harbour is small.")
            ((moment,),) = made.execute("SELECT clock_timestamp()::text")
            for fact in memory.facts.find(FactFilter()):
                memory.forget(fact.id)
        ((last,),) = made.execute("SELECT pg_walfile_name(pg_switch_wal())")
        wait_until((archive / last).exists)
    try:
        recover(base, archive, moment)
        with Memory(tmp_path / "later", settings={**settings, "store.url": base.url()}) as memory:
            texts = sorted(fact.text for fact in memory.facts.find(FactFilter()))
            assert texts == ["The boat is blue.", "The harbour is small."]
            assert memory.search("harbour", mode="words").hits
    finally:
        base.stop()
        shutil.rmtree(copy, ignore_errors=True)


def recover(base: Cluster, archive: Path, moment: str) -> None:
    """Start a copy of the server that replays the archive up to a moment, and then accepts writes."""
    data = base.folder / "data"
    (data / "standby.signal").unlink()
    (data / "recovery.signal").touch()
    with (data / "postgresql.auto.conf").open("w") as file:
        file.write(f"restore_command = 'cp {archive}/%f %p'\n")
        file.write(f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'\n")
    base.start()
    wait_until(lambda: base.execute("SELECT pg_is_in_recovery()") == [(False,)])
