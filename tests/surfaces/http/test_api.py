"""`memwell serve`: the routes of /api return what the methods of `Memory` return."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.embed.testing import WordCounts
from memwell.store.contract.values import FactFilter
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from memwell.surfaces.http.limits import RequestLimits
from memwell.surfaces.http.viewer import SEARCH_THREADS
from memwell.surfaces.serialise import to_jsonable
from tests.support.cli import run
from tests.support.http_servers import Server, in_a_thread, served
from tests.support.waiting import wait_until


def write_notes(folder: Path) -> Path:
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Office\n\nThe office is on the second floor.\n")
    (folder / "memory" / "2026-02-10.md").write_text("# 2026-02-10\n\nMiso the cat saw the vet.\n")
    return folder


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of `shared_server`. Tests only read it."""
    return write_notes(tmp_path_factory.mktemp("http") / "notes")


@pytest.fixture(scope="module")
def shared_server(shared_folder: Path) -> Iterator[Server]:
    """A server process. Tests only read from it."""
    words = {"embedding.chain": ()}
    home = shared_folder.parent / "home"
    with Memory(home, workspace=shared_folder, settings=words) as memory:
        memory.index()
    with served(home, shared_folder) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "notes")


@pytest.fixture
def server(folder: Path, home: Path) -> Iterator[Server]:
    """A server of this test alone."""
    words = {**SERVER_SETTINGS, "embedding.chain": ()}
    with Memory(home, workspace=folder, settings=words) as memory:
        memory.index()
        with in_a_thread(create_app(memory)) as running:
            yield running


def test_a_search_answers_what_the_memory_answers(
    shared_server: Server, shared_folder: Path
) -> None:
    request = {"query": "which floor is the office on", "explain": True, "k": 3}
    answer = shared_server.post("/api/search", request)
    with Memory(shared_folder.parent / "home", workspace=shared_folder) as memory:
        expected = to_jsonable(memory.search(**request))  # type: ignore[arg-type]
    assert answer["hits"] == json.loads(json.dumps(expected["hits"]))
    assert answer["hits"][0]["path"] == "MEMORY.md"


def test_a_note_is_written_found_read_and_explained(server: Server) -> None:
    passage = server.post("/api/note", {"text": "The boiler was serviced by Heating Bauer."})
    hit, *_ = server.post("/api/search", {"query": "boiler"})["hits"]  # weak ones may follow
    assert hit["path"] == passage["path"]
    reference = f"{passage['path']}%23L{passage['start_line']}-L{passage['end_line']}"
    assert "Heating Bauer" in server.get(f"/api/get?reference={reference}")["text"]
    why = server.post("/api/why", {"query": "boiler", "path": passage["path"]})
    assert why["verdict"] == "found"


def test_a_fact_lives_its_life(server: Server) -> None:
    added = server.post("/api/remember", {"text": "Standup is at 9:30.", "tags": ["team"]})
    assert (added["outcome"], added["fact"]["source"]) == ("added", "http")
    old = added["fact"]["id"]
    assert server.post("/api/remember", {"text": "standup is at 9:30"})["outcome"] == "reinforced"
    new = server.post("/api/supersede", {"old": old, "text": "Standup is at 14:15."})["fact"]["id"]
    assert "14:15" in server.post("/api/recall", {"message": "When is standup?"})["block"]
    before = server.post("/api/search", {"query": "standup", "include_superseded": True})
    assert {hit["path"] for hit in before["hits"]} == {old, new}
    edited = server.ask("PATCH", f"/api/facts/{new}", {"importance": 0.9, "tags": ["daily"]}).json
    assert (edited["importance"], edited["tags"]) == (0.9, ["daily"])
    assert [fact["id"] for fact in server.get("/api/facts?tag=daily")["facts"]] == [new]
    assert server.post(f"/api/facts/{new}/promote", {"scope": "global"})["scope"] == "global"
    events = server.get(f"/api/facts/{new}/history")["events"]
    assert {"added", "edited", "promoted"} <= {event["what"] for event in events}
    assert server.get(f"/api/facts/{old}")["superseded_by"] == new
    exported = server.ask("GET", "/api/export").body.decode().splitlines()
    assert {old, new} <= {json.loads(line)["id"] for line in exported}
    assert b"# Facts" in server.ask("GET", "/api/export?format=markdown").body
    assert server.post("/api/forget", {"ids": [new]})["count"] == 1
    assert server.ask("GET", f"/api/facts/{new}").status == 404
    assert server.post("/api/facts/prune", {}) == {"pruned": 0}


def test_the_state_of_the_memory_can_be_asked(shared_server: Server, shared_folder: Path) -> None:
    (workspace,) = shared_server.get("/api/status?deep=true")["workspaces"]
    assert workspace["root"] == str(shared_folder)
    checks = shared_server.get("/api/doctor")["checks"]
    assert "SQLite" in [check["name"] for check in checks if check["ok"]], checks
    assert shared_server.get("/api/spaces") == {"spaces": []}
    assert shared_server.ask("POST", "/api/spaces/7/switch").status == 404
    assert shared_server.ask("DELETE", "/api/spaces/7").status == 404
    assert shared_server.get("/api/verify") == {"sound": True, "findings": 0}


def test_index_syncs_notes_that_changed(server: Server, folder: Path) -> None:
    (folder / "memory" / "owls.md").write_text("Owls hunt by night.\n")
    (report,) = server.post("/api/index", {})["reports"]
    assert report["workspace"] == str(folder)
    assert server.post("/api/search", {"query": "owls"})["hits"][0]["path"] == "memory/owls.md"


def test_every_error_has_the_same_form(shared_server: Server) -> None:
    for method, path, body, status in (
        ("GET", "/nonesuch", None, 404),
        ("GET", "/api/search", None, 405),
        ("GET", "/api/get?reference=nonesuch.md", None, 404),
        ("POST", "/api/remember", {"text": " "}, 400),
        ("POST", "/api/search", {"query": "x", "mode": "magic"}, 400),
        ("GET", "/api/facts?as_of=never", None, 400),
    ):
        answer = shared_server.ask(method, path, body)
        assert answer.status == status
        assert set(answer.json["error"]) == {"message", "type", "param", "code"}
        assert answer.json["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/search", {"query": "x", "bogus": 1}),
        ("/api/remember", {"text": "The cat is Miso.", "bogus": 1}),
        ("/api/supersede", {"old": "1", "text": "The cat is Miso.", "bogus": 1}),
        ("/api/note", {"text": "x", "bogus": 1}),
        ("/api/forget", {"ids": ["1"], "bogus": 1}),
    ],
)
def test_an_unknown_field_is_refused_by_its_name(
    shared_server: Server, path: str, body: dict[str, Any]
) -> None:
    answer = shared_server.ask("POST", path, body)
    assert (answer.status, answer.json["error"]["param"]) == (400, "bogus")
    assert answer.error.startswith("bogus is not a field of this request. ")


def test_operation_ids_are_names_that_a_client_can_use(shared_server: Server) -> None:
    paths = shared_server.get("/openapi.json")["paths"]
    ids = [route["operationId"] for routes in paths.values() for route in routes.values()]
    assert len({*ids}) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in ids)
    assert paths["/api/search"]["post"]["operationId"] == "search"


def test_the_description_names_every_verb(shared_server: Server) -> None:
    paths = shared_server.get("/openapi.json")["paths"]
    verbs = "search why recall get note remember supersede forget facts status doctor spaces index"
    for verb in f"{verbs} export verify".split():
        assert f"/api/{verb}" in paths
    assert "/v1/vector_stores/{vector_store_id}/search" in paths


def test_metrics_count_requests(shared_server: Server) -> None:
    shared_server.post("/api/search", {"query": "office"})
    shared_server.ask("GET", "/api/facts/nonesuch")
    shared_server.ask("GET", '/"}%0a')
    lines = shared_server.ask("GET", "/metrics").body.decode().splitlines()
    figures = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"
    }
    assert figures['memwell_requests_total{method="POST",route="/api/search",status="200"}'] >= 1
    unknown = 'memwell_requests_total{method="GET",route="/api/facts/{fact_id}",status="404"}'
    assert figures[unknown] >= 1
    assert figures["memwell_searches_total"] >= 1
    total = figures["memwell_request_seconds_count"]
    assert figures['memwell_request_seconds_bucket{le="+Inf"}'] == total
    assert figures['memwell_request_seconds_bucket{le="10.0"}'] <= total
    assert figures["memwell_notes"] >= 2


# -- starting and stopping -------------------------------------------------------------------------


def test_a_port_that_is_taken_is_an_error(shared_server: Server, tmp_path: Path) -> None:
    port = shared_server.address.rpartition(":")[2]
    done = run("serve", "--port", port, cwd=tmp_path)
    assert done.returncode == 3
    assert "Choose another --port" in done.stderr


def test_tokens_are_made_listed_and_removed_by_commands(tmp_path: Path) -> None:
    def token_command(*arguments: str) -> str:
        return run("serve", "token", *arguments, cwd=tmp_path).stdout

    token = token_command("add", "laptop", "--user", "anna").strip()
    assert len(token) == 43  # 32 random bytes
    assert token not in token_command("list")
    assert json.loads(token_command("list", "--json"))["tokens"][0]["user"] == "anna"
    token_command("remove", "laptop")
    assert token_command("list") == ""


def test_ending_it_while_it_is_written_to_loses_nothing_acknowledged(tmp_path: Path) -> None:
    acknowledged: list[str] = []

    def write(server: Server, writer: int) -> None:
        for number in range(1000):
            text = f"Writer {writer} has told the memory fact number {number}."
            try:
                answer = server.ask("POST", "/api/remember", {"text": text})
            except OSError:
                return
            if answer.status == 200:
                acknowledged.append(text)

    home = tmp_path / "home"
    with served(home, tmp_path) as running, ThreadPoolExecutor(4) as writers:
        tasks = [writers.submit(write, running, writer) for writer in range(4)]
        wait_until(lambda: len(acknowledged) >= 40)
        assert not any(task.done() for task in tasks)
        assert running.process is not None
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
    with Memory(home) as memory:
        kept = {fact.text for fact in memory.facts.find(FactFilter())}
    assert {*acknowledged} <= kept


# -- limits ----------------------------------------------------------------------------------------


def test_searches_that_only_compute_leave_the_threads_to_others(folder: Path, home: Path) -> None:
    settings = {**SERVER_SETTINGS, "embedding.chain": ("test",)}
    with Memory(home, workspace=folder, settings=settings) as memory:
        memory.index()
        app = create_app(memory)
        with in_a_thread(app) as server, ThreadPoolExecutor(6) as clients:
            assert server.post("/api/search", {"query": "cat"})["hits"]
            with memory.shared._slots:
                body = {"query": "office"}
                asked = [clients.submit(server.post, "/api/search", body) for _ in range(6)]
                threads = app.state.search_threads
                wait_until(lambda: threads.statistics().tasks_waiting == 6 - SEARCH_THREADS)
                assert server.ask("GET", "/api/status").status == 200
            assert all(answer.result()["hits"] for answer in asked)


class Waiting(WordCounts):
    """A provider that answers when it is told to."""

    may_go = threading.Event()

    def vector(self, text: str) -> Any:
        assert self.may_go.wait(30)
        return super().vector(text)


@contextmanager
def waiting(folder: Path, limits: RequestLimits) -> Iterator[tuple[Server, Memory]]:
    """A server whose searches wait until they are let go."""
    settings = {**SERVER_SETTINGS, "embedding.chain": ("waiting",)}
    Waiting.may_go.set()
    with Memory(folder, embedders={"waiting": Waiting}, settings=settings) as memory:
        memory.remember("Something is known already.")
        memory.fill()
        Waiting.may_go.clear()
        with in_a_thread(create_app(memory, limits=limits)) as running:
            try:
                yield running, memory
            finally:
                Waiting.may_go.set()


def test_a_request_that_takes_too_long_is_answered_with_an_error(home: Path) -> None:
    with waiting(home, RequestLimits(seconds=0.2, at_once=1)) as (server, _):
        late = server.ask("POST", "/api/search", {"query": "cat"})
        assert late.status == 503
        assert "within 0.2 s" in late.error
        busy = server.ask("GET", "/api/status")
        assert (busy.status, busy.headers["retry-after"]) == (503, "1")
        assert server.ask("GET", "/health").status == 200
        Waiting.may_go.set()
        wait_until(lambda: server.ask("GET", "/api/status").status == 200)


def test_a_server_finishes_requests_that_were_answered_with_a_timeout(home: Path) -> None:
    body = {"text": "The request is finished later."}
    with waiting(home, RequestLimits(seconds=0.2)) as (server, memory):
        assert server.ask("POST", "/api/remember", body).status == 503
    assert body["text"] in {fact.text for fact in memory.facts.find(FactFilter())}
