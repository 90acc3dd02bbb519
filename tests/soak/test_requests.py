"""Structured random HTTP requests, most of them to objects that exist: no answer is a 5xx."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from tests.soak.conftest import print_figures, sizes
from tests.support.http_servers import Server, in_a_thread
from tests.support.requests import Requests

NOTES = {"MEMORY.md": "# Notes\n\nThe cat is called Miso.\n", "memory/a.md": "Zebras and herons.\n"}

PAGES = {
    "/": [],
    "/hits": ["query", "k"],
    "/why": ["query", "path"],
    "/note": ["path", "reference"],
    "/timeline": ["after"],
    "/map": [],
    "/map/points": [],
    "/spaces": [],
    "/facts": ["category", "tag"],
    "/facts/{fact_id}": ["fact_id"],
    "/facts/{fact_id}/forget": ["fact_id"],
}
"""Pages for people, which /openapi.json does not describe, with their parameters."""


@pytest.fixture
def server(home: Path, workspace: Path) -> Iterator[Server]:
    for name, text in NOTES.items():
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(text)
    settings = {**SERVER_SETTINGS, "embedding.chain": ("test",)}
    with Memory(home, workspace=workspace, settings=settings) as memory:
        memory.index()
        with in_a_thread(create_app(memory)) as running:
            yield running


@sizes(sample=150, whole=20_000)
def test_no_request_is_answered_with_a_server_error(server: Server, size: int) -> None:
    description = server.get("/openapi.json")
    for path, names in PAGES.items():
        parameters = [
            {"name": name, "in": "path" if name in path else "query", "schema": {"type": "string"}}
            for name in names
        ]
        description["paths"][path] = {"get": {"parameters": parameters}}
    requests = Requests(description, random.Random(size))
    requests.objects["note"] = [*NOTES]
    requests.objects["space"] = [1]
    figures: Counter[int] = Counter()
    with closing(HTTPConnection(urlsplit(server.address).netloc, timeout=120)) as connection:
        for number in range(size):
            request = requests.make()
            headers = {"content-type": request.content_type} if request.body is not None else {}
            connection.request(request.method, request.url, request.body, headers)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status < 500, (number, request, body[:500])
            requests.learn(request, answer.status, body)
            figures[answer.status] += 1
    reached = sum(count for status, count in figures.items() if status < 400)
    assert reached >= size / 2, figures
    print_figures(
        "requests",
        requests=size,
        reached_objects=reached,
        **{f"status_{status}": count for status, count in sorted(figures.items())},
        server_errors=0,
    )
