"""The limits of a tenant's requests hold for all workers of a server together."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from memwell.config.sections import TenantsSettings
from memwell.surfaces.http import tenant_requests
from memwell.surfaces.http.tenant_requests import TenantRequests
from memwell.surfaces.http.tokens import Tokens
from memwell.surfaces.worker_group import WorkerGroup
from tests.support.http_servers import Server, served
from tests.support.postgres import app_url, new_tenant
from tests.support.waiting import wait_until

needs_workers = pytest.mark.skipif(os.name != "posix", reason="workers inherit descriptors")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def group() -> Iterator[WorkerGroup]:
    with closing(WorkerGroup.create()) as made:
        yield made


def test_tokens_come_back_evenly_over_a_minute() -> None:
    clock = Clock()
    requests = TenantRequests(TenantsSettings(requests_per_minute=6), clock=clock)
    assert [requests.seconds_to_wait("acme") for _ in range(6)] == [0.0] * 6
    assert requests.seconds_to_wait("acme") == 60 / 6
    assert requests.seconds_to_wait("beta") == 0.0
    clock.now += 60 / 6
    assert [requests.seconds_to_wait("acme") for _ in range(2)] == [0.0, 60 / 6]


def test_without_limits_nothing_is_counted() -> None:
    requests = TenantRequests(TenantsSettings())
    assert {requests.seconds_to_wait("acme") for _ in range(100)} == {0.0}
    assert all(requests.try_to_begin("acme") for _ in range(100))
    requests.end("acme")
    assert not requests._table["tenant"].any()


@needs_workers
def test_workers_count_together(group: WorkerGroup) -> None:
    limits = TenantsSettings(requests_per_minute=6, requests_at_once=3)
    one, two = (TenantRequests(limits, group.at(place), Clock()) for place in (0, 1))
    answers = [worker.seconds_to_wait("acme") for _ in range(3) for worker in (one, two)]
    assert answers == [0.0] * 6
    assert one.seconds_to_wait("acme") == two.seconds_to_wait("acme") == 60 / 6
    assert [worker.try_to_begin("acme") for worker in (one, two, one, two)] == [True] * 3 + [False]
    one.end("acme")
    assert [worker.try_to_begin("acme") for worker in (two, one)] == [True, False]


@needs_workers
def test_the_requests_of_a_worker_that_was_killed_are_over(group: WorkerGroup) -> None:
    limits = TenantsSettings(requests_at_once=2)
    one, two = (TenantRequests(limits, group.at(place)) for place in (0, 1))
    assert [one.try_to_begin("acme"), two.try_to_begin("acme")] == [True, True]
    replacement = TenantRequests(limits, group.at(0))
    assert [replacement.try_to_begin("acme"), two.try_to_begin("acme")] == [True, False]


def test_the_oldest_entry_without_a_running_request_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant_requests, "_SETS", 1)
    monkeypatch.setattr(tenant_requests, "_WAYS", 3)
    monkeypatch.setattr(tenant_requests, "_TABLE_BYTES", 3 * tenant_requests._ENTRY.itemsize)
    clock = Clock()
    limits = TenantsSettings(requests_per_minute=1, requests_at_once=1)
    requests = TenantRequests(limits, clock=clock)
    requests.try_to_begin("runs")
    for tenant in ("old", "young", "new"):
        clock.now += 1
        assert requests.seconds_to_wait(tenant) == 0.0
    assert requests.seconds_to_wait("young") > 0
    assert not requests.try_to_begin("runs")
    assert requests.seconds_to_wait("old") == 0.0  # it was forgotten
    requests.end("forgotten")
    requests.end("runs")
    assert requests.try_to_begin("runs")


# -- real workers ----------------------------------------------------------------------------------


@pytest.fixture
def acme(home: Path, workspace: Path) -> Iterator[tuple[Server, Server]]:
    """A server with two workers, and the client of a tenant."""
    tenant = new_tenant()
    with served(
        home,
        workspace,
        workers=2,
        MEMWELL_STORE_URL=app_url(),
        MEMWELL_TENANTS_REQUESTS_PER_MINUTE="40",
        MEMWELL_TENANTS_REQUESTS_AT_ONCE="2",
    ) as server:
        yield server, replace(server, token=Tokens(home).add("acme", tenant=tenant))


@pytest.mark.server
@pytest.mark.process
@pytest.mark.slow
@needs_workers
def test_the_requests_a_minute_are_of_the_server(acme: tuple[Server, Server]) -> None:
    _, client = acme
    started = time.monotonic()
    allowed = [client.ask("GET", "/api/facts").status for _ in range(100)].count(200)
    since = (time.monotonic() - started) * 40 / 60  # tokens that came back meanwhile
    assert 40 <= allowed <= min(99, 40 + since + 1)


@pytest.mark.server
@pytest.mark.process
@pytest.mark.slow
@needs_workers
def test_the_requests_at_once_are_of_the_server(acme: tuple[Server, Server]) -> None:
    server, client = acme
    address = urlsplit(server.address)
    head = f"POST /api/search HTTP/1.1\r\nHost: {address.netloc}\r\n"
    head += f"Authorization: Bearer {client.token}\r\nContent-Length: 99\r\n\r\n"

    def hold() -> socket.socket:
        connection = socket.create_connection((address.hostname, address.port), 30)
        connection.sendall(head.encode())  # its body is still to come
        return connection

    def is_refused() -> bool:
        return client.ask("GET", "/api/facts").status == 429

    with hold(), hold():
        wait_until(is_refused)
        assert server.process
        parent = server.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for pid in map(int, children):
            os.kill(pid, signal.SIGKILL)

        def is_answered() -> bool:
            try:
                return client.ask("GET", "/api/facts").status == 200
            except OSError:
                return False

        wait_until(is_answered)
