"""The client of `memwell serve` returns the objects that `Memory` returns."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memwell import Memory
from memwell.client import Client
from memwell.errors import MemwellError, NotAllowedError, NotFoundError
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from tests.conftest import Write
from tests.support.http_servers import Server, in_a_thread


@pytest.fixture
def server(workspace: Path, write: Write) -> Iterator[Server]:
    write("pets.md", "# Pets\n\nThe cat is named Miso.\n")
    settings = {**SERVER_SETTINGS, "embedding.chain": ()}
    with Memory(workspace=workspace, settings=settings) as memory:
        memory.index(workspace)
        with in_a_thread(create_app(memory, local_token="secret")) as running:
            yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.address, token="secret") as connected:
        yield connected


def test_a_search_returns_what_the_memory_returns(client: Client, workspace: Path) -> None:
    with Memory(workspace=workspace) as memory:
        own = memory.search("what is the cat named", k=1).hits[0]
    (hit,) = client.search("what is the cat named", k=1).hits
    assert hit == replace(own, score=round(own.score, 4), relevance=round(own.relevance, 4))
    assert client.why("cat", "pets.md").verdict == "found"
    assert client.get(f"{hit.path}#L3").text == "The cat is named Miso."
    assert client.status().workspaces[0].notes == 1
    assert client.recall("yes, do it").block == ""


def test_facts_are_written_listed_and_forgotten(client: Client) -> None:
    first = client.remember("The standup is at nine.", tags=["standup"], importance=0.9)
    assert (first.outcome, first.fact.source, first.fact.tags) == ("added", "http", ("standup",))
    second = client.supersede(first.fact.id, "The standup is at ten.")
    assert second.instead_of == client.fact(first.fact.id)
    assert client.facts(tag="standup") == []
    assert [fact.id for fact in client.facts()] == [second.fact.id]
    assert len(client.facts(include_superseded=True)) == 2
    assert client.history(second.fact.id)[-1].what in ("added", "superseded")
    assert second.fact.id in client.export()
    assert client.forget(second.fact.id, predecessors=True).count == 2
    assert client.facts() == []


def test_notes_are_written_and_synced(client: Client, workspace: Path) -> None:
    written = client.note("The rocket engine passed its test.")
    assert (workspace / written.path).is_file()
    (workspace / "new.md").write_text("The dog is named Rex.\n", encoding="utf-8")
    (report,) = client.index()  # the server's own thread may have added it before
    assert report.problems == ()
    assert client.search("dog").hits[0].path == "new.md"


def test_errors_are_those_of_memwell(client: Client, server: Server) -> None:
    with pytest.raises(NotFoundError, match="There is no fact 'none'"):
        client.fact("none")
    with pytest.raises(MemwellError, match="mode"):
        client.search("cat", mode="magic")
    with Client(server.address) as stranger, pytest.raises(NotAllowedError, match="token"):
        stranger.status()
    with Client("http://127.0.0.1:9") as nobody, pytest.raises(MemwellError, match="memwell serve"):
        nobody.status()


@pytest.mark.parametrize("name", ["search", "why", "recall", "remember", "supersede", "forget"])
def test_arguments_have_the_names_and_defaults_of_memory(name: str) -> None:
    own, others = (inspect.signature(getattr(kind, name)) for kind in (Client, Memory))
    for parameter in own.parameters.values():
        twin = others.parameters[parameter.name]
        assert (parameter.default, parameter.kind) == (twin.default, twin.kind), parameter.name


@pytest.mark.process
def test_importing_the_client_loads_nothing_heavy() -> None:
    code = "import sys, memwell.client; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "httpx2", "pydantic", "apsw", "fastapi"} & {*run.stdout.split()}
