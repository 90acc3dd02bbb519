"""A program written for OpenAI's vector stores works here by another base_url alone."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import openai
import pytest
from openai import OpenAI

from memwell.surfaces.http.app import create_app
from memwell.surfaces.openai.filters import AttributeFilter, CompoundFilter
from memwell.surfaces.openai.records import RecordDatabase
from tests.conftest import REPOSITORY
from tests.support.http_servers import Server, in_a_thread, served
from tests.support.made_files import MAKERS, marker
from tests.support.openai_clients import NOTES, create_filled_store, openai_client
from tests.support.pages import opened


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of this test alone."""
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    with opened(home) as memory, in_a_thread(create_app(memory)) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with openai_client(server) as client:
        yield client


def test_the_program_in_the_documentation_prints_what_it_shows(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", server.token or "none")
    page = (REPOSITORY / "docs" / "http.md").read_text(encoding="utf-8")
    ((program, shown),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.S)
    exec(program.replace("http://127.0.0.1:8765", server.address), {})
    assert capsys.readouterr().out == shown


def test_a_file_is_uploaded_listed_read_and_deleted(client: OpenAI) -> None:
    file = client.files.create(file=("cats.md", NOTES["cats.md"]), purpose="user_data")
    assert (file.object, file.filename, file.bytes) == ("file", "cats.md", len(NOTES["cats.md"]))
    assert client.files.retrieve(file.id) == file
    assert client.files.content(file.id).read() == NOTES["cats.md"]
    assert [listed.id for listed in client.files.list(purpose="user_data")] == [file.id]
    assert client.files.list(purpose="assistants").data == []
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)


def test_a_store_answers_from_its_files_best_first(client: OpenAI) -> None:
    store, files = create_filled_store(client)
    found = client.vector_stores.search(store, query="What does the cat Miso eat?")
    assert found.object == "vector_store.search_results.page"
    best = found.data[0]
    assert (best.file_id, best.filename) == (files["cats.md"], "cats.md")
    assert "eats fish" in best.content[0].text
    scores = [one.score for one in found.data]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_several_queries_are_searched_together(client: OpenAI) -> None:
    store, _ = create_filled_store(client)
    found = client.vector_stores.search(store, query=["Miso", "tomatoes"], rewrite_query=True)
    assert {one.filename for one in found.data[:2]} == {"cats.md", "garden.md"}


def test_a_threshold_drops_what_is_less_relevant(client: OpenAI) -> None:
    store, _ = create_filled_store(client)
    every = client.vector_stores.search(store, query="dog Rex").data
    strict = client.vector_stores.search(
        store, query="dog Rex", ranking_options={"score_threshold": every[0].score}
    ).data
    assert [one.filename for one in strict] == ["dogs.txt"]
    assert len(every) > 1


def test_attributes_filter_before_ranking(client: OpenAI) -> None:
    """However many better passages there are, those that fit are returned."""
    store = client.vector_stores.create()
    notes = {f"{number}.md": f"Morning {number}".encode() for number in range(8)}
    files = [
        client.files.create(file=(name, content), purpose="assistants").id
        for name, content in notes.items()
    ]
    client.vector_stores.file_batches.create_and_poll(
        store.id,
        files=[
            {"file_id": file, "attributes": {"number": number, "even": number % 2 == 0}}
            for number, file in enumerate(files)
        ],
        poll_interval_ms=50,
    )
    for number in range(8):
        found = client.vector_stores.search(
            store.id,
            query="morning",
            max_num_results=1,
            filters={"type": "eq", "key": "number", "value": number},
        )
        assert [one.file_id for one in found.data] == [files[number]]
    found = client.vector_stores.search(
        store.id,
        query="morning",
        filters={
            "type": "and",
            "filters": [
                {"type": "gte", "key": "number", "value": 4},
                {"type": "eq", "key": "even", "value": True},
            ],
        },
    )
    assert {(one.attributes or {})["number"] for one in found.data} == {4, 6}


def test_integers_in_attributes_stay_integers(client: OpenAI, server: Server) -> None:
    store, files = create_filled_store(client)
    sent: dict[str, str | float | bool] = {
        "year": 2025,
        "share": 0.5,
        "whole": 2.0,
        "done": True,
        "name": "x",
    }
    client.vector_stores.files.update(files["cats.md"], vector_store_id=store, attributes=sent)
    read = server.get(f"/v1/vector_stores/{store}/files/{files['cats.md']}")["attributes"]
    assert {name: type(value) for name, value in read.items()} == {
        "year": int,
        "share": float,
        "whole": float,
        "done": bool,
        "name": str,
    }
    equal = {"type": "eq", "key": "year", "value": 2025.0}
    found = client.vector_stores.search(store, query="cat", filters=equal)  # type: ignore[arg-type]
    assert [item.filename for item in found.data] == ["cats.md"]


def test_texts_are_embedded_by_the_models_that_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["test"]
    assert client.models.retrieve("test").object == "model"
    long = "\n".join(f"- The item number {n} of a list." for n in range(9))
    made = client.embeddings.create(model="test", input=["the cat", "the dog", long])
    vectors = [embedding.embedding for embedding in made.data]
    assert [embedding.index for embedding in made.data] == [0, 1, 2]
    assert [len(vector) for vector in vectors] == [64, 64, 64]
    assert [sum(x * x for x in vector) for vector in vectors] == pytest.approx([1, 1, 1])
    cosine = sum(x * y for x, y in zip(vectors[0], vectors[1], strict=True))
    assert cosine == pytest.approx(1 / 2)  # one word of two is the same
    assert made.usage.total_tokens >= 3
    plain = client.embeddings.create(model="test", input="the cat", encoding_format="float")
    assert plain.data[0].embedding == pytest.approx(vectors[0], abs=1e-6)


def test_an_embedding_that_cannot_be_made_is_told(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="The models are test"):
        client.embeddings.create(model="text-embedding-3-small", input="x")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")
    with pytest.raises(openai.BadRequestError, match="Leave it out"):
        client.embeddings.create(model="test", input=" ")
    with pytest.raises(openai.BadRequestError, match="has 64"):
        client.embeddings.create(model="test", input="x", dimensions=3)
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="test", input=[1, 2, 3])


def test_attributes_can_be_changed(client: OpenAI) -> None:
    store, files = create_filled_store(client)
    changed = client.vector_stores.files.update(
        files["dogs.txt"], vector_store_id=store, attributes={"kind": "dog"}
    )
    assert changed.attributes == {"kind": "dog"}
    found = client.vector_stores.search(
        store, query="morning", filters={"type": "eq", "key": "kind", "value": "dog"}
    )
    assert [one.filename for one in found.data] == ["dogs.txt"]


@pytest.mark.parametrize(
    ("comparison", "value", "fits"),
    [
        ("eq", "b", {"b"}),
        ("ne", "b", {"a", "c", None}),
        ("gt", "b", {"c"}),
        ("gte", "b", {"b", "c"}),
        ("lt", "b", {"a"}),
        ("lte", "b", {"a", "b"}),
        ("in", ["a", "c"], {"a", "c"}),
        ("nin", ["a", "c"], {"b", None}),
        ("eq", 1, set()),
        ("gt", 1, set()),
    ],
)
def test_comparisons_mean_what_they_say(
    comparison: str, value: str | list[str], fits: set[str | None]
) -> None:
    filter = AttributeFilter.model_validate({"type": comparison, "key": "x", "value": value})
    attributes = [{"x": "a"}, {"x": "b"}, {"x": "c"}, {}]
    assert {some.get("x") for some in attributes if filter.matches(some)} == fits


def test_true_is_not_one_and_filters_nest() -> None:
    is_one = {"type": "eq", "key": "x", "value": 1}
    assert not AttributeFilter.model_validate(is_one).matches({"x": True})
    both = {"type": "and", "filters": [is_one, {"type": "or", "filters": [is_one]}]}
    assert CompoundFilter.model_validate(both).matches({"x": 1.0})


def test_lists_are_paged_in_either_order(client: OpenAI) -> None:
    stores = [client.vector_stores.create(name=f"{number}").id for number in range(5)]
    first = client.vector_stores.list(limit=2, order="desc")
    assert [store.id for store in first.data] == [stores[4], stores[3]]
    assert first.has_more
    assert [store.id for store in client.vector_stores.list(limit=2)] == stores[::-1]
    after = client.vector_stores.list(limit=100, order="asc", after=stores[2])
    assert [store.id for store in after.data] == stores[3:]
    assert not after.has_more
    before = client.vector_stores.list(limit=2, order="asc", before=stores[4])
    assert [store.id for store in before.data] == stores[2:4]


def test_a_list_goes_on_though_what_it_showed_is_deleted(client: OpenAI) -> None:
    store, files = create_filled_store(client)
    for file in client.vector_stores.files.list(store, limit=1):
        client.vector_stores.files.delete(file.id, vector_store_id=store)
    assert client.vector_stores.files.list(store).data == []
    assert client.vector_stores.search(store, query="Miso").data == []
    assert client.files.retrieve(files["cats.md"]).filename == "cats.md"


def test_a_store_says_what_it_holds_and_can_be_changed(client: OpenAI) -> None:
    store, _ = create_filled_store(client)
    changed = client.vector_stores.update(
        store,
        name="renamed",
        metadata={"of": "tests"},
        expires_after={"anchor": "last_active_at", "days": 7},
    )
    assert (changed.name, changed.metadata, changed.status) == (
        "renamed",
        {"of": "tests"},
        "completed",
    )
    assert changed.expires_at == (changed.last_active_at or 0) + 7 * 24 * 60 * 60
    assert (changed.file_counts.completed, changed.file_counts.total) == (3, 3)
    assert changed.usage_bytes == sum(map(len, NOTES.values()))
    assert client.vector_stores.update(store, expires_after=None).expires_at is None
    assert client.vector_stores.retrieve(store).name == "renamed"


def test_a_file_that_is_not_text_fails_and_says_why(client: OpenAI) -> None:
    store = client.vector_stores.create()
    file = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("picture.png", b"\x89PNG\x00\xff\xfe"), poll_interval_ms=50
    )
    assert file.status == "failed"
    assert file.last_error is not None
    assert file.last_error.code == "unsupported_file"
    failed = client.vector_stores.files.list(store.id, filter="failed").data
    assert [one.id for one in failed] == [file.id]


@pytest.mark.parametrize("kind", ["pdf", "docx", "epub", "notebook", "html"])
def test_documents_are_converted(client: OpenAI, tmp_path: Path, kind: str) -> None:
    file = MAKERS[kind][0](tmp_path, "a")
    store = client.vector_stores.create()
    done = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=file, poll_interval_ms=50
    )
    assert (done.status, done.last_error) == ("completed", None)
    hit, *_ = client.vector_stores.search(store.id, query=marker("a", 3)).data
    assert hit.filename == file.name
    assert marker("a", 3) in hit.content[0].text


def test_a_document_that_cannot_be_read_says_why(client: OpenAI) -> None:
    store = client.vector_stores.create()
    file = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("a.pdf", b"%PDF-1.4 broken"), poll_interval_ms=50
    )
    assert file.last_error is not None
    assert file.last_error.message == "The file cannot be read: it is not a valid PDF file"


def test_the_text_of_a_file_in_a_store_can_be_read(client: OpenAI) -> None:
    store, files = create_filled_store(client)
    content = client.vector_stores.files.content(files["garden.md"], vector_store_id=store)
    assert content.data[0].text == NOTES["garden.md"].decode()


def test_a_deleted_file_is_in_no_store(client: OpenAI) -> None:
    store, files = create_filled_store(client)
    client.files.delete(files["cats.md"])
    assert files["cats.md"] not in [one.id for one in client.vector_stores.files.list(store)]
    found = client.vector_stores.search(store, query="Miso fish")
    assert "cats.md" not in [one.filename for one in found.data]


def test_a_deleted_store_is_gone_and_its_files_stay(client: OpenAI) -> None:
    store, files = create_filled_store(client)
    assert client.vector_stores.delete(store).object == "vector_store.deleted"
    for ask in (client.vector_stores.retrieve, client.vector_stores.files.list):
        with pytest.raises(openai.NotFoundError) as refused:
            ask(store)
        assert refused.value.type == "invalid_request_error"
    assert client.files.retrieve(files["cats.md"]).filename == "cats.md"


def test_a_cancelled_batch_is_given_up(client: OpenAI) -> None:
    store, files = create_filled_store(client)
    batch = client.vector_stores.file_batches.create(store, file_ids=[*files.values()])
    given_up = client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store)
    assert given_up.status == "cancelled"
    listed = client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store)
    assert {one.status for one in listed} <= {"cancelled", "completed"}


def test_what_is_wrong_is_told_with_its_place(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.vector_stores.create(metadata={"x": "y" * 1000})
    assert refused.value.param == "metadata.x"
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.create(file_ids=["file-unknown"])
    with pytest.raises(openai.BadRequestError):
        client.files.create(file=("a.md", b"a"), purpose="nonsense")  # type: ignore[arg-type]


def test_names_of_files_lead_nowhere(client: OpenAI, server: Server) -> None:
    for name in ("../../../outside.md", "..\\..\\outside.md", "/etc/outside.md", "a\r\nb.md", ".."):
        file = client.files.create(file=(name, b"x"), purpose="assistants")
        assert not {*file.filename} & {*"/\\\r\n"}
        assert client.files.content(file.id).read() == b"x"


@pytest.mark.process
def test_everything_is_there_after_a_restart_and_after_a_kill(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with served(home, tmp_path) as first, openai_client(first) as client:
        store, files = create_filled_store(client)
    with served(home, tmp_path) as second, openai_client(second) as client:
        assert client.vector_stores.search(store, query="Miso").data[0].filename == "cats.md"
        assert len(client.vector_stores.files.list(store).data) == 3
        more = client.files.create(file=("more.md", b"Owls hunt by night."), purpose="assistants")
        batch = client.vector_stores.file_batches.create(store, file_ids=[more.id])
        assert second.process is not None
        os.kill(second.process.pid, signal.SIGKILL)
        second.process.wait()
    with served(home, tmp_path) as third, openai_client(third) as client:
        done = client.vector_stores.file_batches.poll(
            batch.id, vector_store_id=store, poll_interval_ms=50
        )
        assert done.file_counts.completed == 1
        assert client.vector_stores.search(store, query="owls").data[0].filename == "more.md"
        assert client.files.content(files["cats.md"]).read() == NOTES["cats.md"]


def test_files_are_private_and_readable_without_memwell(
    server: Server, client: OpenAI, home: Path
) -> None:
    store, files = create_filled_store(client)
    content = home / "files" / files["cats.md"] / "cats.md"
    assert content.read_bytes() == NOTES["cats.md"]
    for file in (content, home / "openai.db"):
        assert file.stat().st_mode & 0o777 == 0o600
    assert (home / "vector_stores").stat().st_mode & 0o777 == 0o700
    with closing(sqlite3.connect(home / "openai.db")) as database:
        query = "SELECT id, record ->> 'name' FROM vector_stores"
        assert database.execute(query).fetchall() == [(store, "notes")]


def test_a_store_that_was_not_used_for_long_enough_expires(client: OpenAI, home: Path) -> None:
    day = {"anchor": "last_active_at", "days": 1}
    store = client.vector_stores.create(expires_after=day).id  # type: ignore[arg-type]
    stores = RecordDatabase(home).stores
    record = stores.get(store, "")
    stores.put(record.model_copy(update={"last_active_at": record.last_active_at - 86_400}))
    assert client.vector_stores.retrieve(store).status == "expired"
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.search(store, query="cat")
