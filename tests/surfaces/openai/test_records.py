"""openai.db: transactions, and the JSON files of earlier versions, which become its rows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import apsw
import pytest

from memwell.errors import HomeError, NotFoundError
from memwell.surfaces.http.app import create_app
from memwell.surfaces.openai.files import Files
from memwell.surfaces.openai.records import MIGRATIONS, RecordDatabase
from memwell.surfaces.openai.stores import VectorStores
from tests.support.http_servers import in_a_thread
from tests.support.openai_clients import openai_client
from tests.support.pages import opened

FILE = "file-18e885f5cc13896cb23b72d33cf7"
OTHER = "file-18e885f5cd38276f90f180c25937"
STORE = "vs_18e885f5cdee99a16d736d1987eb"
BATCH = "vsfb_18e885f5d05173e449a53ff3dd52"
TEXT = "The cat is called Miso."

OLD_JSON = {
    f"files/{FILE}.json": (
        f'{{"id":"{FILE}","owner":"","object":"file","bytes":23,"created_at":1794831742,'
        '"expires_at":null,"filename":"cats.md","purpose":"assistants","status":"processed"}'
    ),
    f"files/{OTHER}.json": (
        f'{{"id":"{OTHER}","owner":"anna","object":"file","bytes":1,"created_at":1794831742,'
        '"expires_at":1794835342,"filename":"b.txt","purpose":"user_data","status":"processed"}'
    ),
    f"vector_stores/{STORE}.json": (
        f'{{"id":"{STORE}","owner":"","object":"vector_store","created_at":1794831742,'
        '"name":"notes","description":null,"metadata":{"of":"tests"},"expires_after":null,'
        '"last_active_at":1794831742}'
    ),
    f"vector_stores/{STORE}/files/{FILE}.json": (
        f'{{"id":"{FILE}","owner":"","object":"vector_store.file","created_at":1794831742,'
        f'"vector_store_id":"{STORE}","status":"in_progress","last_error":null,"usage_bytes":0,'
        '"attributes":{"kind":"cat","legs":4.0},"chunking_strategy":{"type":"static","static":'
        '{"max_chunk_size_tokens":400,"chunk_overlap_tokens":80}},"filename":"cats.md"}'
    ),
    f"vector_stores/{STORE}/batches/{BATCH}.json": (
        f'{{"id":"{BATCH}","owner":"","object":"vector_store.files_batch",'
        f'"created_at":1794831742,"vector_store_id":"{STORE}","file_ids":["{FILE}"],'
        '"cancelled":false}'
    ),
}
"""What version 81a2f64 wrote, to the letter."""


@pytest.fixture
def old_home(home: Path) -> Path:
    """A home of that version, with the contents of the files and its lock."""
    others = {f"files/{FILE}/cats.md": TEXT, f"files/{OTHER}/b.txt": "x", "vector_stores/.lock": ""}
    for name, text in {**OLD_JSON, **others}.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return home


def rows(records: RecordDatabase) -> list[object]:
    tables = (records.files, records.stores, records.store_files(STORE), records.batches(STORE))
    return [json.loads(row.model_dump_json()) for table in tables for row in table.select()]


def old_files(home: Path) -> list[str]:
    return sorted(str(file.relative_to(home)) for file in home.rglob("*.json"))


def open_in_process(home: Path, first: str) -> int:
    """Open the records in another process that runs some code first; return its exit code."""
    code = f"{first}\nRecordDatabase(Path(sys.argv[1])).files.select()"
    imports = (
        "import os, sys\nfrom pathlib import Path\n"
        "from memwell.surfaces.openai.records import RecordDatabase, Table\n"
    )
    command = [sys.executable, "-c", imports + code, str(home)]
    return subprocess.run(command, check=False).returncode


def test_json_files_become_rows_and_contents_stay_files(old_home: Path) -> None:
    records = RecordDatabase(old_home)
    assert rows(records) == [json.loads(text) for text in OLD_JSON.values()]
    assert (old_home / "files" / FILE / "cats.md").read_text(encoding="utf-8") == TEXT
    assert old_files(old_home) == []
    assert [*(old_home / "vector_stores").iterdir()] == [old_home / "vector_stores" / STORE]
    assert rows(RecordDatabase(old_home)) == rows(records)


def test_a_server_goes_on_with_what_an_earlier_version_wrote(
    old_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    with (
        opened(old_home) as memory,
        in_a_thread(create_app(memory)) as server,
        openai_client(server) as client,
    ):
        assert [file.id for file in client.files.list()] == [FILE]
        batch = client.vector_stores.file_batches.poll(
            BATCH, vector_store_id=STORE, poll_interval_ms=50
        )
        assert (batch.status, batch.file_counts.completed) == ("completed", 1)
        (hit,) = client.vector_stores.search(STORE, query="Miso").data
        assert (hit.content[0].text, hit.attributes) == (TEXT, {"kind": "cat", "legs": 4})


@pytest.mark.process
def test_a_process_killed_before_the_commit_leaves_the_json_files(old_home: Path) -> None:
    dying = (
        "put = Table.put\n"
        "def dying_put(table, record, **options):\n"
        f"    os._exit(9) if record.id == {BATCH!r} else put(table, record, **options)\n"
        "Table.put = dying_put"
    )
    assert open_in_process(old_home, dying) == 9
    assert old_files(old_home) == sorted(OLD_JSON)
    assert rows(RecordDatabase(old_home)) == [json.loads(text) for text in OLD_JSON.values()]


@pytest.mark.process
def test_a_process_killed_after_the_commit_does_not_import_twice(old_home: Path) -> None:
    dying = (
        "unlink = Path.unlink\n"
        "def dying_unlink(file, **options):\n"
        f"    os._exit(9) if file.stem == {STORE!r} else unlink(file, **options)\n"
        "Path.unlink = dying_unlink"
    )
    assert open_in_process(old_home, dying) == 9
    assert f"vector_stores/{STORE}.json" in old_files(old_home)
    assert f"vector_stores/{STORE}/files/{FILE}.json" not in old_files(old_home)
    records = RecordDatabase(old_home)
    assert rows(records) == [json.loads(text) for text in OLD_JSON.values()]
    assert old_files(old_home) == []


def test_rows_are_newer_than_json_files_that_were_left(old_home: Path, tmp_path: Path) -> None:
    shutil.copytree(old_home, tmp_path / "copy")
    records = RecordDatabase(old_home)
    store = records.stores.get(STORE, "")
    records.stores.put(store.model_copy(update={"name": "renamed"}))
    shutil.copytree(tmp_path / "copy", old_home, dirs_exist_ok=True)
    again = RecordDatabase(old_home)
    assert again.stores.get(STORE, "").name == "renamed"
    assert len(again.store_files(STORE).select()) == 1
    assert old_files(old_home) == []


def test_a_json_file_that_cannot_be_read_stops_the_import_and_is_named(old_home: Path) -> None:
    broken = old_home / "vector_stores" / STORE / "batches" / f"{BATCH}.json"
    broken.write_text("{", encoding="utf-8")
    records = RecordDatabase(old_home)
    with pytest.raises(HomeError, match=BATCH):
        records.files.select()
    assert old_files(old_home) == sorted(OLD_JSON)
    broken.unlink()
    assert len(rows(records)) == len(OLD_JSON) - 1


def test_remains_of_a_deleted_store_are_not_imported(old_home: Path) -> None:
    (old_home / "vector_stores" / f"{STORE}.json").unlink()
    assert len(rows(RecordDatabase(old_home))) == 2  # the uploaded files


def test_several_that_open_a_home_at_once_import_it_once(old_home: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        opened_rows = [*pool.map(lambda _: rows(RecordDatabase(old_home)), range(4))]
    assert opened_rows == [[json.loads(text) for text in OLD_JSON.values()]] * 4


def test_a_file_added_just_before_a_crash_is_indexed_at_the_next_start(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    stores = VectorStores(home, Files(home, RecordDatabase(home)))
    file = stores.uploads.add(BytesIO(TEXT.encode()), "cats.md", "assistants", "", None)
    store = stores.create("", {"name": "", "metadata": {}}, [file.id])  # and nothing indexes it
    with (
        opened(home) as memory,
        in_a_thread(create_app(memory)) as server,
        openai_client(server) as client,
    ):
        indexed = client.vector_stores.files.poll(
            file.id, vector_store_id=store.id, poll_interval_ms=50
        )
        assert indexed.status == "completed"


# -- the database ----------------------------------------------------------------------------------


def test_reading_creates_no_file(home: Path) -> None:
    records = RecordDatabase(home)
    assert records.files.find(FILE) is None
    assert records.stores.select(owner="") == []
    assert not home.exists()


def test_a_store_is_created_with_all_of_its_files_or_not_at_all(home: Path) -> None:
    stores = VectorStores(home, Files(home, RecordDatabase(home)))
    with pytest.raises(NotFoundError):
        stores.create("", {"name": "", "metadata": {}}, [FILE])
    assert stores.records.stores.select() == []


def test_a_deleted_store_takes_its_files_and_batches_with_it(old_home: Path) -> None:
    records = RecordDatabase(old_home)
    stores = VectorStores(old_home, Files(old_home, records))
    store = records.stores.get(STORE, "")
    stores.delete(store)
    assert records.store_files(STORE).select() == []
    assert records.batches(STORE).select() == []
    assert len(records.files.select()) == 2
    with pytest.raises(NotFoundError):
        stores.add_files(store, {FILE: {}})


def test_the_database_of_a_newer_memwell_is_left_alone(home: Path) -> None:
    home.mkdir()
    connection = apsw.Connection(os.fspath(home / "openai.db"))
    connection.pragma("user_version", len(MIGRATIONS) + 1)
    connection.close()
    with pytest.raises(HomeError, match="newer memwell"):
        RecordDatabase(home).files.select()
