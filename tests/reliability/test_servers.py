"""Clients that are slow or send nonsense do not keep others out."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from memwell.surfaces.http.limits import RequestLimits
from tests.support.http_servers import in_a_thread

SLOW = (
    b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


def test_reliability_d16_slow_bodies_keep_nobody_out(home: Path) -> None:
    limits = RequestLimits(at_once=4, body_seconds=2)
    with Memory(home, settings=SERVER_SETTINGS) as memory:
        memory.remember("The cat is named Miso.")
        with in_a_thread(create_app(memory, limits=limits)) as server:
            address = urlsplit(server.address)
            clients = []
            for number in range(12):
                client = socket.create_connection((address.hostname, address.port), 20)
                client.sendall(SLOW % (b"/login" if number % 2 else b"/api/search"))
                clients.append(client)
            assert server.ask("GET", "/health").status == 200
            assert server.ask("GET", "/api/status").status == 200
            answers = [client.recv(200) for client in clients]
            assert {answer[9:12] for answer in answers} <= {b"400", b"408", b"503"}
            assert sum(answer[9:12] != b"503" for answer in answers) >= 4
            assert server.ask("POST", "/api/search", {"query": "Miso"}).status == 200
            for client in clients:
                client.close()
