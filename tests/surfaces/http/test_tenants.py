"""Many tenants in one server: a token or a signing proxy says whose memory a request uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.config.fields import Value
from memwell.memory.tenants import as_tenant
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from memwell.surfaces.http.embedders import shared_embedders
from memwell.surfaces.http.tenants import TenantMemories, sign
from memwell.surfaces.http.tokens import Tokens
from tests.support.http_servers import Answer, Server, in_a_thread
from tests.support.postgres import app_url, new_tenant, shared
from tests.support.waiting import wait_until

pytestmark = pytest.mark.server
SECRET = "a key of the proxy"


@contextmanager
def tenant_server(home: Path, **settings: Value) -> Iterator[tuple[Server, Tokens, Memory]]:
    known: dict[str, Value] = {
        **SERVER_SETTINGS,
        "store.url": app_url(),
        "store.tenant": new_tenant(),
        "embedding.chain": ("test",),
        **settings,
    }
    embedders = shared_embedders()
    with (
        Memory(home, settings=known, embedders=embedders) as memory,
        in_a_thread(create_app(memory, embedders=embedders)) as server,
    ):
        yield server, Tokens(home), memory


def texts(answer: Any) -> list[str]:
    return [hit["text"] for hit in answer["hits"]]


def test_a_token_opens_the_memory_of_its_tenant(home: Path) -> None:
    with tenant_server(home) as (server, tokens, memory):
        names = [new_tenant() for _ in range(3)]
        clients = {n: replace(server, token=tokens.add(n, "ann", tenant=n)) for n in names}
        clients["own"] = replace(server, token=tokens.add("own", "ann"))
        for name, client in clients.items():
            client.post("/api/remember", {"text": f"The boat of {name} is blue."})
        for name, client in clients.items():
            answer = client.post("/api/search", {"query": "boat", "mode": "words"})
            assert texts(answer) == [f"The boat of {name} is blue."]
            facts = client.get("/api/facts")["facts"]
            assert [fact["text"] for fact in facts] == [f"The boat of {name} is blue."]

        def is_embedded(client: Server) -> bool:
            return all(space["embedded"] == 1 for space in client.get("/api/spaces")["spaces"])

        for name in names:  # in the background, each in its turn
            wait_until(lambda name=name: bool(clients[name].get("/api/spaces")["spaces"]))
            wait_until(lambda name=name: is_embedded(clients[name]))
        pools = shared().execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'memwell'"
        )
        assert pools[0][0] <= 16 + 1  # one pool for all
        assert memory.facts is not None


def test_files_and_vector_stores_belong_to_the_tenant(home: Path) -> None:
    with tenant_server(home) as (server, tokens, _):
        one, two = (
            replace(server, token=tokens.add(name, "ann", tenant=new_tenant()))
            for name in ("one", "two")
        )
        store = one.post("/v1/vector_stores", {"name": "boats"})
        assert [item["id"] for item in one.get("/v1/vector_stores")["data"]] == [store["id"]]
        assert two.get("/v1/vector_stores")["data"] == []
        assert two.ask("GET", f"/v1/vector_stores/{store['id']}").status == 404


def test_an_admin_of_a_tenant_sees_no_figures_of_others(home: Path) -> None:
    with tenant_server(home) as (server, tokens, _):
        one, two = (
            replace(server, token=tokens.add(name, rights="admin", tenant=new_tenant()))
            for name in ("one", "two")
        )
        for _ in range(3):
            one.post("/api/search", {"query": "boat"})
        assert 'route="/api/search"' in one.ask("GET", "/metrics").body.decode()
        assert 'route="/api/search"' not in two.ask("GET", "/metrics").body.decode()


def test_a_tenant_that_sends_too_many_requests_waits_and_others_do_not(home: Path) -> None:
    limits: dict[str, Value] = {"tenants.requests_per_minute": 5}
    with tenant_server(home, **limits) as (server, tokens, _):
        noisy, quiet = (
            replace(server, token=tokens.add(name, tenant=new_tenant())) for name in ("a", "b")
        )
        answers = [noisy.ask("GET", "/api/facts") for _ in range(7)]
        assert [answer.status for answer in answers[:5]] == [200] * 5
        assert answers[-1].status == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert quiet.ask("GET", "/api/facts").status == 200


def test_a_tenant_that_stores_too_much_reads_and_forgets_only(home: Path) -> None:
    limits: dict[str, Value] = {"tenants.stored_mb": 0.0001}
    with tenant_server(home, **limits) as (server, tokens, memory):
        tenant = new_tenant()
        as_tenant(memory, tenant).remember(f"The boat is blue. {'Very blue. ' * 20}")
        client = replace(server, token=tokens.add("a", tenant=tenant))
        refused = client.ask("POST", "/api/remember", {"text": "The cat is named Miso."})
        assert (refused.status, "stores more than" in refused.error) == (403, True)
        assert client.post("/api/search", {"query": "boat"})["hits"]


def ask_by_proxy(
    server: Server,
    tenant: str,
    user: str,
    key: str = SECRET,
    path: str = "/api/facts",
    at: str = "",
) -> Answer:
    at = at or str(time.time())
    headers = {
        "X-Memwell-Tenant": tenant,
        "X-Memwell-User": user,
        "X-Memwell-Time": at,
        "X-Memwell-Signature": sign(key, tenant, user, at, "GET", path),
    }
    return server.ask("GET", path, headers=headers)


def test_a_proxy_that_signs_names_the_tenant(home: Path) -> None:
    with tenant_server(home, **{"tenants.proxy_secret": SECRET}) as (server, tokens, memory):
        tokens.add("any")  # so that a token is needed
        tenant = new_tenant()
        as_tenant(memory, tenant).as_viewer("ann").remember("The boat is blue.", scope="user")
        facts = ask_by_proxy(server, tenant, "ann").json["facts"]
        assert [fact["text"] for fact in facts] == ["The boat is blue."]
        assert ask_by_proxy(server, tenant, "ben").json["facts"] == []
        assert ask_by_proxy(server, tenant, "ann", "another key").status == 401
        assert ask_by_proxy(server, tenant, "ann", at=str(time.time() - 3600)).status == 401
        named = {"X-Memwell-Tenant": tenant, "X-Memwell-User": "ann"}
        assert server.ask("GET", "/api/facts", headers=named).status == 401
    with tenant_server(home) as (server, _, _):  # without a key, no signature is valid
        assert ask_by_proxy(server, tenant, "ann", "").status == 401


def test_a_server_of_files_has_no_tenants(home: Path) -> None:
    settings: dict[str, Value] = {**SERVER_SETTINGS, "embedding.chain": ()}
    with Memory(home, settings=settings) as memory, in_a_thread(create_app(memory)) as server:
        client = replace(server, token=Tokens(home).add("one", tenant="acme"))
        refused = client.ask("GET", "/api/facts")
        assert "Set store.url to a PostgreSQL server" in refused.error


def test_handles_of_tenants_are_small_and_bounded(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tracemalloc

    from memwell.surfaces.http import tenants

    settings: dict[str, Value] = {**SERVER_SETTINGS, "store.url": app_url()}
    with Memory(home, settings=settings) as memory:
        opened = TenantMemories(memory, memory.settings.tenants)
        opened.get("first")
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1_000):
            opened.get(f"tenant {number}")
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert used / 1_000 < 10_000  # bytes
        monkeypatch.setattr(tenants, "MOST_OPEN", 10)
        opened.get("another")
        assert len(opened._opened) == 10
