"""PostgreSQL as a memory's store: opened, shared, restarted, and kept apart by tenant."""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from memwell import Memory
from memwell.config.load import load
from memwell.errors import MemwellError, NewerIndexError
from memwell.model import Viewer
from memwell.store import postgres
from memwell.store.factory import open_postgres
from memwell.store.postgres import facts as server_facts
from memwell.store.postgres import server as connect
from memwell.store.postgres.migrate import migrate
from memwell.store.postgres.migrations import MIGRATIONS
from memwell.store.postgres.schema import PARTITIONS, TABLES
from memwell.store.postgres.server import Server
from memwell.store.postgres.session import Session
from tests.conftest import Write
from tests.support.cli import run
from tests.support.postgres import (
    app_url,
    cluster,
    new_database,
    new_tenant,
    server,
    shared,
)
from tests.support.waiting import wait_until

ANNA = Viewer("anna", "main")


@pytest.fixture
def tenant(monkeypatch: pytest.MonkeyPatch) -> str:
    """A new tenant; every memory that the test opens belongs to it."""
    name = new_tenant()
    monkeypatch.setenv("MEMWELL_STORE_URL", app_url())
    monkeypatch.setenv("MEMWELL_STORE_TENANT", name)
    return name


# -- a memory --------------------------------------------------------------------------------------


def test_index_search_remember_and_forget_on_a_server(
    tenant: str, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    write("cat.md", "# Pets\n\nThe cat is named Miso.\n")
    for number in range(5):
        write(f"other{number}.md", f"Something else, of number {number}.\n")
    with Memory() as memory:
        (report,) = memory.index(workspace)
        assert (report.added, report.chunks_written) == (6, 6)
        fact = memory.remember("The dog is named Rex.", scope="global").fact
        assert memory.search("what is the cat called").hits[0].path == "cat.md"
        assert memory.search("dog").hits[0].path == fact.id
        assert memory.remember("the dog is named Rex", scope="global").outcome == "reinforced"
        memory.forget(fact.id)
        assert memory.search("dog", kind="fact").hits == ()
        status = memory.status(deep=True)
        assert f"tenant {tenant}" in status.index
        assert status.deep == {"integrity": "ok"}
        assert [space.embedded for space in status.spaces] == [6]
        assert all(check.ok for check in memory.doctor())
    assert not [*home.rglob("*.db*")]


def test_the_store_option_names_the_server_for_one_command(
    tenant: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMWELL_STORE_URL")
    named = ("--store", app_url())
    assert run(*named, "remember", "The dog is named Rex.", cwd=workspace).returncode == 0
    assert "Rex" in run(*named, "search", "dog", cwd=workspace).stdout
    assert run("search", "dog", cwd=workspace).returncode == 1  # that was for one command


def test_another_machine_finds_what_the_first_has_indexed(
    tenant: str, workspace: Path, write: Write, tmp_path: Path
) -> None:
    note = write("cat.md", "The cat is named Miso.\n")
    with Memory(tmp_path / "one") as one:
        one.index(workspace)
        one.remember("The dog is named Rex.", scope="global")
    note.rename(tmp_path / "elsewhere.md")
    workspace.rmdir()
    with Memory(tmp_path / "two") as two:
        result = two.search("cat")
        assert [hit.path for hit in result.hits] == ["cat.md"]
        assert "its last indexed state is searched" in result.freshness.note
        assert two.search("dog").hits[0].kind == "fact"


def test_no_tenant_sees_rows_of_another(workspace: Path, write: Write, home: Path) -> None:
    write("cat.md", "The cat is named Miso.\n")
    url = app_url()
    one, two = ({"store.url": url, "store.tenant": new_tenant()} for _ in range(2))
    with Memory(settings=one) as mine, Memory(settings=two) as theirs:
        mine.index(workspace)
        mine.remember("The dog is named Rex.", scope="global")
        assert theirs.search("cat dog").hits == ()
        assert theirs.facts.store.revision() == 0
        theirs.remember("The dog is named Fido.", scope="global")
        assert [hit.text for hit in mine.search("dog", kind="fact").hits] == [
            "The dog is named Rex."
        ]


def test_commands_for_files_name_the_alternative_on_a_server(tenant: str) -> None:
    with Memory() as memory, pytest.raises(MemwellError, match="pg_dump"):
        memory.facts.store.require_file()


def index_three(memory: Memory, workspace: Path, write: Write) -> None:
    for number in range(3):
        write(f"{number}.md", f"Note {number} has a word{number}.\n")
    memory.index(workspace)


def test_an_index_with_an_older_words_version_is_rebuilt(
    tenant: str, workspace: Path, write: Write
) -> None:
    with Memory() as memory:
        index_three(memory, workspace, write)
        shared().execute(f"UPDATE memwell.indexes SET words_version = 0 WHERE tenant = '{tenant}'")
        shared().execute(f"DELETE FROM memwell.posting_lists WHERE tenant = '{tenant}'")
        assert [hit.path for hit in memory.search("word1").hits] == ["1.md"]
        assert memory.status(deep=True).deep == {"integrity": "ok"}


def test_a_deleted_index_is_rebuilt_and_the_facts_stay(
    tenant: str, workspace: Path, write: Write
) -> None:
    with Memory() as memory:
        index_three(memory, workspace, write)
        memory.remember("The dog is named Rex.", scope="global")
        memory._index.delete()
        with memory._index.reading() as reader:
            assert reader.keywords.total == 0
        assert [hit.path for hit in memory.search("word1").hits] == ["1.md"]
        assert memory.search("dog", kind="fact").hits


# -- opening it ------------------------------------------------------------------------------------


def test_every_table_is_partitioned_by_tenant_and_every_index_begins_with_it() -> None:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        migrate(connection)
        indexes = connection.execute(
            "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'memwell'"
        ).fetchall()
        parts = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = ANY(%s::regclass[])",
            ([*TABLES],),
        ).fetchone()
    assert parts == (len(TABLES) * PARTITIONS,)
    assert {table for table, _ in indexes} >= {*TABLES}
    others = [definition for _, definition in indexes if "(tenant" not in definition]
    # The bindings of roles, and the marks, which are deleted by age.
    assert not [one for one in others if not re.search(r"role_bindings|commits_", one)]


CONNECTING = ("connections.py", "migrate.py", "server.py", "session.py")


def test_every_statement_goes_through_a_session_of_a_tenant() -> None:
    for file in Path(postgres.__file__).parent.glob("*.py"):
        text = file.read_text(encoding="utf-8").replace('execute("SET LOCAL', "")
        text = re.sub(
            r'execute\(\s*f"(DROP INDEX|ALTER INDEX|CREATE INDEX|VACUUM)', "", text
        )  # their names say whose
        assert file.name in CONNECTING or ".execute(" not in text, file


def test_every_statement_that_reads_facts_is_built_by_one_function() -> None:
    text = Path(server_facts.__file__).read_text(encoding="utf-8")
    reading, copying = re.findall(r"([^\s\"]+) FROM facts\b", text)
    assert (reading, copying) == ("f.*", "%(detail)s")
    writing = re.findall(r"(\w+)\(\"facts\"", text)
    assert writing == ["insert_sql", "update_sql", "delete_sql"]


def _search_in_a_new_database(url: str) -> None:
    with server(url, "one") as opened, opened.reading("main") as session:
        session.rows("SELECT 1 FROM notes WHERE tenant = %(tenant)s")


def test_processes_that_start_at_once_migrate_once() -> None:
    url = new_database()
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=_search_in_a_new_database, args=(url,)) for _ in range(4)]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
    assert [process.exitcode for process in started] == [0] * 4
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT name FROM memwell.migrations ORDER BY number").fetchall()
    assert names == [(name,) for name, _ in MIGRATIONS]


def test_a_newer_database_is_refused() -> None:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        migrate(connection)
        connection.execute("INSERT INTO memwell.migrations VALUES (99, 'of the future')")
    with (
        server(url, "one") as opened,
        pytest.raises(NewerIndexError, match="Upgrade"),
        opened.reading(),
    ):
        pass


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://nobody@127.0.0.1:1/none", "cannot be reached"),
        ("postgresql://[nobody/none", "not an address"),
        ("mysql://nobody@127.0.0.1/none", "not the address"),
    ],
)
def test_an_unreachable_server_is_reported_immediately(home: Path, url: str, message: str) -> None:
    with (
        pytest.raises(MemwellError, match=message) as raised,
        Memory(settings={"store.url": url}) as memory,
    ):
        memory.search("x")
    assert "store.url" in str(raised.value)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[none"])
def test_a_password_is_never_shown(home: Path, host: str) -> None:
    url = f"postgresql://anna:hunter2@{host}/none"
    with pytest.raises(MemwellError) as raised, Memory(settings={"store.url": url}) as memory:
        memory.search("x")
    assert "hunter2" not in str(raised.value)


def test_a_workspace_cannot_set_the_store(workspace: Path, write: Write) -> None:
    write("memwell.toml", '[store]\nurl = "postgresql://elsewhere/x"\n')
    settings = load(workspace)
    assert not settings.store.url
    assert "store.url" in settings.notices[0]


def test_the_driver_is_loaded_only_for_a_server_and_its_absence_has_a_remedy(
    home: Path,
) -> None:
    code = (
        "import sys, memwell\n"
        "with memwell.Memory(sys.argv[1]) as memory: memory.search('x'); memory.remember('The dog is named Rex.')\n"
        "assert not {m for m in sys.modules if m.startswith('psycopg')}\n"
        "sys.modules['psycopg'] = None\n"
        "try: memwell.Memory(sys.argv[1], settings={'store.url': 'postgresql://x/y'})\n"
        "except memwell.MemwellError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(home)], capture_output=True, text=True, check=True
    )
    assert "pip install 'memwell[postgres]'" in run.stdout


# -- when it is restarted --------------------------------------------------------------------------


def _write(session: Session) -> None:
    session.run(
        "INSERT INTO revisions (tenant, last) VALUES (%(tenant)s, 0)"
        " ON CONFLICT (tenant) DO UPDATE SET last = revisions.last + 1"
    )


def _last(opened: Server) -> list[tuple[int]]:
    return opened.rows("", "SELECT last FROM revisions WHERE tenant = %(tenant)s")


def test_a_lost_commit_answer_is_looked_up_by_its_mark() -> None:
    kept, lost = str(uuid4()), str(uuid4())
    with server(app_url(), new_tenant()) as opened:
        with opened.writing() as session:
            _write(session)
            session.connection.execute(opened._mark_sql(kept))
        for _ in range(2):  # to ask leaves nothing
            assert opened._was_committed(kept)
            assert not opened._was_committed(lost)
        with server(app_url(), new_tenant()) as other:
            assert not other._was_committed(kept)


def test_the_mark_of_a_transaction_that_still_runs_is_waited_for() -> None:
    with server(app_url(), new_tenant()) as opened, ThreadPoolExecutor(2) as threads:
        for is_kept in (True, False):
            mark = str(uuid4())
            with opened._connections.connect() as connection:
                connection.execute(opened._begin_sql("BEGIN", ()))
                connection.execute(opened._mark_sql(mark))
                asked = threads.submit(opened._was_committed, mark)
                wait_until(lambda: shared().execute(_WAITING) == [(1,)])
                assert not asked.done()
                connection.execute("COMMIT" if is_kept else "ROLLBACK")
            assert asked.result() is is_kept


_WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO commits %ON CONFLICT DO NOTHING'
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_commit_whose_answer_is_lost_is_done_once(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the connection right after the commit, or right before."""
    end = "SELECT pg_terminate_backend(pg_backend_pid())"
    with server(app_url(), new_tenant()) as opened:
        attempts: list[str] = []

        def write() -> None:
            with opened.writing() as session:
                _write(session)
                execute = session.connection.execute

                def lose_answer(statement: str) -> object:
                    return execute(f"{statement}; {end}" if is_there else f"{end}; {statement}")

                if not attempts:
                    monkeypatch.setattr(session.connection, "execute", lose_answer)
                attempts.append("an attempt")

        opened.retrying(write)
        assert _last(opened) == [(0,)]
        assert len(attempts) == (1 if is_there else 2)


def test_commit_markers_are_cleaned_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = new_tenant()
    shared().execute(f"INSERT INTO memwell.commits VALUES ('{tenant}', DEFAULT, '2026-01-01')")
    with server(app_url(), tenant) as opened, monkeypatch.context() as often:
        often.setattr(connect, "_CLEANUP_SHARE", 1.0)
        with opened.writing() as session:
            _write(session)
    kept = (
        f"SELECT min(at) > now() - interval '1 hour' FROM memwell.commits WHERE tenant = '{tenant}'"
    )
    assert shared().execute(kept) == [(True,)]


def test_no_acknowledged_write_is_lost_while_the_server_restarts(home: Path) -> None:
    told: list[str] = []
    wrong: list[BaseException] = []
    stop = threading.Event()
    with cluster() as restarted, Memory(settings={"store.url": restarted.url()}) as memory:

        def tell(name: str) -> None:
            try:
                while not stop.is_set():
                    text = f"{name} says that {len(told)} is a number worth keeping."
                    memory.remember(text, scope="global")
                    told.append(text)
                    memory.search("number")
            except BaseException as error:
                wrong.append(error)

        writers = [threading.Thread(target=tell, args=(name,)) for name in ("Anna", "Ben")]
        for writer in writers:
            writer.start()
        for how in ("fast", "immediate"):
            _wait_for_more(told, wrong)
            restarted.stop(how)
            restarted.start()
            _wait_for_more(told, wrong)
        stop.set()
        for writer in writers:
            writer.join()
        assert wrong == []
        from memwell.store.contract.values import FactFilter

        kept = {fact.text for fact in memory.facts.find(FactFilter())}
        assert {*told} <= kept


def _wait_for_more(told: list[str], wrong: list[BaseException]) -> None:
    before = len(told)
    wait_until(lambda: len(told) > before + 2 or bool(wrong))


def test_the_same_fact_remembered_twice_at_once_is_stored_once(tenant: str) -> None:
    with Memory() as one, Memory() as two:
        done: list[str] = []
        at_once = threading.Barrier(2)

        def tell(memory: Memory) -> None:
            memory.facts.find  # noqa: B018
            at_once.wait()
            done.extend(memory.remember(f"Fact {n} is told twice.").outcome for n in range(5))

        threads = [threading.Thread(target=tell, args=(memory,)) for memory in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == ["added"] * 5 + ["reinforced"] * 5


def test_two_machines_that_index_at_once_lose_nothing(tenant: str, tmp_path: Path) -> None:
    folders = []
    for name in ("one", "two"):
        folder = tmp_path / name / "notes"
        folder.mkdir(parents=True)
        for number in range(30):
            (folder / f"{name}{number}.md").write_text(f"A shared word and {name} {number}.\n")
        folders.append(folder)
    memories = [Memory(tmp_path / folder.parent.name) for folder in folders]
    threads = [
        threading.Thread(target=memory.index, args=(folder,))
        for memory, folder in zip(memories, folders, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    index = open_postgres(app_url(), tenant, tmp_path, "main").index
    with index.reading() as reader:
        ((token, _),) = reader.keywords.tokens("shared")
        assert (reader.keywords.total, reader.keywords.document_frequency(token)) == (60, 60)
    assert index.check_integrity() == []
    index.close()
    for memory in memories:
        memory.close()
