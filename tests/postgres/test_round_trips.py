"""A search on PostgreSQL asks the server few times: each round trip costs a network delay."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

import pytest

from memwell import Memory
from memwell.config.fields import Value
from tests.conftest import Write
from tests.support.postgres import app_url, new_tenant

MOST = 12
MOST_BY_WORDS = 10


class Counter:
    """Passes bytes between memwell and the server, and counts how often memwell waits for answers."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._sent_last = False
        self.trips = 0

    def carry(self, client: socket.socket) -> None:
        """Pass the bytes of a connection in both directions until it ends."""
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server)
            back = threading.Thread(target=self._pass_on, args=(server, client, False))
            back.start()
            self._pass_on(client, server, True)
            back.join()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.trips += is_request and not self._sent_last
                self._sent_last = is_request
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def counted(url: str) -> Iterator[tuple[str, Counter]]:
    """The address of a proxy before the server, and its counter."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    counter = Counter(f"{query['host']}/.s.PGSQL.{query.get('port', parts.port or 5432)}")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    threading.Thread(target=counter.carry, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        user = parts.netloc.rpartition("@")[0]
        yield urlunsplit(("postgresql", f"{user}@127.0.0.1:{port}", parts.path, "", "")), counter


@pytest.mark.parametrize(("mode", "most"), [("hybrid", MOST), ("words", MOST_BY_WORDS)])
def test_a_search_takes_few_round_trips(
    workspace: Path, write: Write, mode: str, most: int
) -> None:
    for name, animal in (("Miso", "cat"), ("Rex", "dog"), ("Pip", "budgie")):
        write(f"{animal}.md", f"# The {animal}\n\nThe {animal} is named {name}.\n")
    with counted(app_url()) as (url, counter):
        settings: dict[str, Value] = {
            "store.url": url,
            "store.tenant": new_tenant(),
            "embedding.chain": ("test",),
        }
        with Memory(workspace=workspace, settings=settings) as memory:
            memory.index(workspace)
            memory.remember("The horse is named Bella.")
            memory.search("what is the cat called", mode=mode)
            before = counter.trips
            assert before > MOST
            # "called" is in no note, so the vocabulary is read for a suggestion, too.
            assert memory.search("what is the dog called", mode=mode).hits[0].path == "dog.md"
        assert counter.trips - before <= most
