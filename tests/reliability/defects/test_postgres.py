"""PostgreSQL: poolers, tenants, roles, migrations, and what its messages say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psycopg
import pytest

from tests.conftest import Write
from tests.reliability.defects.support import (
    Server,
    add_token,
    find_crash,
    remember,
    run,
    run_json,
    run_process,
    serve,
)
from tests.support.cluster import Cluster, bouncer, cluster

pytestmark = pytest.mark.server
SCRIPT_OPTIONS = ("store", "roles", "--role")


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture
def database(server: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a new database with the tables, which `use` opens as a role and tenant."""
    name = f"d{os.urandom(5).hex()}"
    server.execute(f"CREATE DATABASE {name}")
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    monkeypatch.setenv("MEMWELL_STORE_URL", server.url(name))
    assert run("status", cwd=workspace).returncode == 0
    return name


@contextmanager
def use(url: str, tenant: str = "acme") -> Iterator[None]:
    """Let commands use a server as a tenant."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMWELL_STORE_URL", url)
        patch.setenv("MEMWELL_STORE_TENANT", tenant)
        yield


def add_role(server: Cluster, database: str, workspace: Path, *options: str) -> str:
    """Create a role as `memwell store roles` says, and return its name."""
    name = f"r{os.urandom(5).hex()}"
    script = run("store", "roles", "--role", name, *options, cwd=workspace).stdout
    server.execute(script, database)
    return name


def fill(workspace: Path, write: Write) -> None:
    """Index a note, and let anna and bob remember something."""
    write("cat.md", "The cat is named Miso.\n")
    assert run("index", str(workspace), cwd=workspace).returncode == 0
    remember(workspace, "The tea of anna is green.", "--user", "anna", "--scope", "user")
    remember(workspace, "The zebra of bob is striped.", "--user", "bob", "--scope", "user")
    for user in ("anna", "bob"):
        run("search", "zebra tea", "--user", user, cwd=workspace)


# -- D1: a pooler ----------------------------------------------------------------------------------


def test_postgres_d01_three_tenants_read_and_write_behind_a_pooler(
    server: Cluster, database: str, workspace: Path, write: Write
) -> None:
    role = add_role(server, database, workspace)
    write("cat.md", "The cat is named Miso.\n")
    with bouncer(server, role) as pooler:
        for tenant in ("acme", "beta", "gamma"):
            with use(pooler.url(role, database), tenant):
                for command in (["index", "."], ["remember", f"The boat of {tenant} is blue."]):
                    done = run(*command, cwd=workspace)
                    assert (done.returncode, find_crash(done)) == (0, ""), done.stderr
        for _ in range(2):
            for tenant in ("acme", "beta", "gamma"):
                with use(pooler.url(role, database), tenant):
                    done = run("search", "boat", "--kind", "fact", "--json", cwd=workspace)
                    assert f"The boat of {tenant} is blue." in done.stdout, done.stderr
                    assert "is named Miso" in run("search", "cat", cwd=workspace).stdout


# -- D2: many tenants in one process ---------------------------------------------------------------


def test_postgres_d02_a_server_takes_the_tenant_from_the_token(
    server: Cluster, database: str, workspace: Path
) -> None:
    role = add_role(server, database, workspace)
    with use(server.url(database, role)):
        tokens = {name: add_token(name, "--tenant", name, cwd=workspace) for name in ("one", "two")}
        assert all(tokens.values())
        with serve(workspace) as served:
            clients = {name: served.as_owner_of(token) for name, token in tokens.items()}
            for name, client in clients.items():
                told = {"text": f"The boat of {name} is blue."}
                assert client.ask("POST", "/api/remember", told)[0] == 200
            found = {name: search_texts(client, "boat") for name, client in clients.items()}
    assert found == {name: [f"The boat of {name} is blue."] for name in tokens}


def search_texts(client: Server, query: str) -> list[str]:
    status, answer = client.ask("POST", "/api/search", {"query": query, "mode": "words"})
    assert status == 200, answer
    return [hit["text"] for hit in json.loads(answer)["hits"]]


# -- D3: doctor and reset on a partial view --------------------------------------------------------


def test_postgres_d03_doctor_and_reset_respect_what_a_role_cannot_see(
    server: Cluster, database: str, workspace: Path, write: Write
) -> None:
    service = add_role(server, database, workspace)
    with use(server.url(database, service)):
        fill(workspace, write)
        before = count_rows(server, database, "chunks")
    anna = add_role(server, database, workspace, "--tenant", "acme", "--scope", "user:anna")
    with use(server.url(database, anna)):
        checks = run_json("doctor", cwd=workspace)["checks"]
        wrong = [check for check in checks if "memwell reset" in check["remedy"]]
        assert wrong == []
        run("reset", "--yes", cwd=workspace)
        run("reset", cwd=workspace, stdin="y\n")
    assert count_rows(server, database, "chunks") == before > 2


def count_rows(server: Cluster, database: str, table: str) -> int:
    ((count,),) = server.execute(f"SELECT count(*) FROM memwell.{table}", database)
    return int(count)


# -- D4: roles and the catalogue -------------------------------------------------------------------


def test_postgres_d04_the_catalogue_names_no_tenant_and_does_not_grow(
    server: Cluster, database: str, workspace: Path
) -> None:
    policies = "SELECT count(*) FROM pg_policies WHERE schemaname = 'memwell'"
    add_role(server, database, workspace, "--tenant", "umbrella", "--scope", "user:anna")
    before = server.execute(policies, database)
    for tenant in ("umbrella", "tyrell"):
        add_role(server, database, workspace, "--tenant", tenant)
    named = "SELECT policyname FROM pg_policies WHERE qual ~ 'umbrella|tyrell|user:anna'"
    assert server.execute(named, database) == []
    assert server.execute(policies, database) == before


# -- D5: roles that are bound to a user ------------------------------------------------------------

DESTRUCTIVE = (
    "DELETE FROM memwell.indexes",
    "DELETE FROM memwell.spaces",
    "DELETE FROM memwell.forgotten",
    "UPDATE memwell.notes SET title = 'forged'",
    "UPDATE memwell.revisions SET last = 0",
    "LOCK TABLE memwell.facts IN ACCESS EXCLUSIVE MODE",
)


def test_postgres_d05_a_role_of_a_user_cannot_destroy_forge_or_lock(
    server: Cluster, database: str, workspace: Path, write: Write
) -> None:
    service = add_role(server, database, workspace)
    with use(server.url(database, service)):
        fill(workspace, write)
    anna = add_role(server, database, workspace, "--tenant", "acme", "--scope", "user:anna")
    allowed = []
    with psycopg.connect(server.url(database, anna)) as connection:
        connection.execute(
            "SET memwell.tenant = 'acme'; SET memwell.scopes = '{global:,user:anna}'"
        )
        connection.commit()
        for statement in DESTRUCTIVE:
            try:
                done = connection.execute(statement).rowcount
            except psycopg.errors.InsufficientPrivilege:
                done = 0
            allowed += [statement] if done else []
            connection.rollback()
    assert allowed == []


# -- D6: migrations --------------------------------------------------------------------------------


def test_postgres_d06_versions_run_side_by_side_during_an_upgrade(
    server: Cluster, database: str, workspace: Path, write: Write
) -> None:
    role = add_role(server, database, workspace)
    with use(server.url(database, role)):
        fill(workspace, write)
        # A newer memwell adds a step that this one need not know.
        columns = "SELECT 1 FROM information_schema.columns WHERE column_name = 'needs'"
        steps = count_rows(server, database, "migrations")
        needs = f", {steps}" if server.execute(columns, database) else ""
        values = f"({steps + 1}, 'a later step'{needs})"
        server.execute(f"INSERT INTO memwell.migrations VALUES {values}", database)
        done = run("search", "miso", "--mode", "words", cwd=workspace)
        assert (done.returncode, "Miso" in done.stdout) == (0, True), done.stderr


def test_postgres_d06_the_owner_migrates_by_a_command(
    server: Cluster, database: str, workspace: Path
) -> None:
    done = run("store", "migrate", cwd=workspace)
    assert (done.returncode, done.stdout) == (0, "The schema is up to date.\n"), done.stderr


# -- D7: where a forgotten text remains ------------------------------------------------------------


def test_postgres_d07_forget_says_where_a_text_may_remain(
    server: Cluster, database: str, workspace: Path
) -> None:
    fact = remember(workspace, "The zebra is striped.")
    done = run("forget", fact, cwd=workspace)
    assert done.returncode == 0
    assert "WAL" in done.stdout + done.stderr


def test_postgres_d07_a_tenant_is_deleted_by_a_command(
    server: Cluster, database: str, workspace: Path, write: Write
) -> None:
    for tenant in ("acme", "beta"):
        with use(server.url(database), tenant):
            fill(workspace, write)
    done = run("store", "drop-tenant", "acme", "--yes", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "WAL" in done.stdout + done.stderr
    tenants = "SELECT DISTINCT tenant FROM memwell.{} WHERE tenant != 'default'"
    for table in ("facts", "chunks", "vocabulary", "vectors", "commits"):
        assert server.execute(tenants.format(table), database) == [("beta",)], table


# -- D8: the home ----------------------------------------------------------------------------------


def test_postgres_d08_the_home_is_private_on_a_server(
    server: Cluster, database: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "new" / "home"
    environment = {
        **os.environ,
        "MEMWELL_HOME": str(home),
        "MEMWELL_STORE_URL": server.url(database),
    }
    del environment["MEMWELL_EMBEDDING_CHAIN"]
    (workspace / "cat.md").write_text("The cat is named Miso.\n")
    for command in (["index", "."], ["recall", "what is the cat called?", "--session", "s"]):
        done = run_process(
            *command, cwd=workspace, env=environment, preexec_fn=lambda: os.umask(0o022)
        )
        assert done.returncode == 0, done.stderr
    assert home.stat().st_mode & 0o777 == 0o700


# -- D9: LanceDB -----------------------------------------------------------------------------------


def test_postgres_d09_dead_vectors_leave_the_files_of_lancedb(
    home: Path, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lancedb")
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    for number in range(40):
        words = " ".join(f"w{number}x{n}" for n in range(12))
        write(f"note{number}.md", f"{words}\n")
    run("index", str(workspace), cwd=workspace)
    (index,) = home.rglob("index.db")
    numbers = read_vectors(index)
    assert len(numbers) == 40
    monkeypatch.setenv("MEMWELL_VECTORS_BACKEND", "lancedb")
    run("index", str(workspace), cwd=workspace)
    content = index.read_bytes()
    assert [one for one, _ in numbers if one in content] == []  # not in free pages, either
    for number in range(4):  # a tenth
        (workspace / f"note{number}.md").unlink()
    run("index", str(workspace), cwd=workspace)
    files = [file.read_bytes() for file in (index.parent / "lance").rglob("*") if file.is_file()]
    kept = [one for _, one in numbers if any(one in content for content in files)]
    assert len(kept) == 36


def as_float32(vector: bytes) -> bytes:
    """A vector of an index as LanceDB keeps it: the Hartley transform of its numbers."""
    numbers = np.frombuffer(vector, np.int8).astype(np.float32)
    waves = np.fft.fft(numbers / np.sqrt(np.vecdot(numbers, numbers)), norm="ortho")
    return np.asarray(waves.real - waves.imag, dtype=np.float32).tobytes()


def read_vectors(index: Path) -> list[tuple[bytes, bytes]]:
    """Each vector as the index keeps it, and as LanceDB does; earlier both had the same bytes."""
    import sqlite3

    with sqlite3.connect(index) as connection:
        rows = connection.execute(
            "SELECT v.vector, s.dimensions FROM vectors v JOIN spaces s ON s.id = v.space_id"
        ).fetchall()
    return [
        (vector, as_float32(vector) if len(vector) == dimensions else vector)
        for vector, dimensions in rows
    ]


# -- D10: messages ---------------------------------------------------------------------------------


def test_postgres_d10_a_refused_login_is_not_a_server_that_is_away(
    server: Cluster, database: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = server.folder / "data" / "pg_hba.conf"
    trusting = rules.read_text()
    rules.write_text(f"local all guarded scram-sha-256\n{trusting}")
    server.execute("SELECT pg_reload_conf()")
    monkeypatch.setenv("PGPASSWORD", "wrong")
    try:
        with use(server.url(database, "guarded")):
            done = run("status", cwd=workspace)
    finally:
        rules.write_text(trusting)
    assert done.returncode == 3
    assert "password" in done.stderr
    assert "server is running" not in done.stderr
    assert "server runs" not in done.stderr
    with use(server.url("missing")):
        done = run("status", cwd=workspace)
    assert done.returncode == 3
    assert 'database "missing" does not exist' in done.stderr
    assert "server is running" not in done.stderr
    assert "server runs" not in done.stderr


def test_postgres_d10_the_scripts_can_be_run_again(
    server: Cluster, database: str, workspace: Path
) -> None:
    script = run("store", "roles", "--role", "again", "--tenant", "acme", cwd=workspace).stdout
    for _ in range(2):
        try:
            server.execute(script, database)
        except psycopg.Error as error:
            pytest.fail(str(error))


def test_postgres_d10_another_user_is_refused_by_name(
    server: Cluster, database: str, workspace: Path
) -> None:
    anna = add_role(server, database, workspace, "--tenant", "acme", "--scope", "user:anna")
    with use(server.url(database, anna)):
        told = run("remember", "The zebra.", "--user", "bob", "--scope", "user", cwd=workspace)
    assert told.returncode == 3
    assert "user:bob" in told.stderr
    assert "as the owner" not in told.stderr


def test_postgres_d10_an_unknown_option_is_refused(workspace: Path, write: Write) -> None:
    write("cat.md", "The cat is named Miso.\n")
    run("index", ".", cwd=workspace)
    done = run("search", "miso", "-n", "3", cwd=workspace)
    assert (done.returncode, "-n" in done.stderr) == (2, True)
    assert "Miso" in run("search", "cat -dog", cwd=workspace).stdout


def test_postgres_d10_a_password_in_the_process_list_is_warned_of(
    server: Cluster, workspace: Path
) -> None:
    url = server.url().replace("memwell@", "memwell:secret@")
    done = run("--store", url, "status", cwd=workspace)
    assert "PGPASSWORD" in done.stderr
    assert "secret" not in done.stdout + done.stderr


# -- D11: old marks --------------------------------------------------------------------------------


def test_postgres_d11_old_marks_of_a_silent_tenant_are_removed(
    server: Cluster, database: str, workspace: Path
) -> None:
    role = add_role(server, database, workspace)
    server.execute(
        "INSERT INTO memwell.commits (tenant, at) SELECT 'silent', now() - interval '2 hours'"
        " FROM generate_series(1, 20); INSERT INTO memwell.commits (tenant) VALUES ('silent')",
        database,
    )
    with use(server.url(database, role), "lively"):
        for number in range(3):
            remember(workspace, f"The zebra {number} is striped.")
    left = server.execute("SELECT 1 FROM memwell.commits WHERE tenant = 'silent'", database)
    assert len(left) == 1
