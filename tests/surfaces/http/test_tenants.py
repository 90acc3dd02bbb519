"""Many tenants in one server: a token or a signing proxy says whose memory a request uses."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from memwell import Memory
from memwell.config.fields import Value
from memwell.memory.tenants import as_tenant, stored_bytes
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

        def is_embedded(name: str) -> bool:
            spaces = clients[name].get("/api/spaces")["spaces"]
            return [space["embedded"] for space in spaces] == [1]

        for name in names:  # in the background, each in its turn
            wait_until(partial(is_embedded, name))
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


def test_vector_stores_share_the_connections_of_the_server(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memwell.surfaces.openai import indexing

    monkeypatch.setattr(indexing, "_MOST_OPEN", 2)
    own = new_tenant()
    settings: dict[str, Value] = {**SERVER_SETTINGS, "store.url": app_url(), "store.tenant": own}
    with Memory(home, settings=settings) as memory:
        app = create_app(memory)
        with in_a_thread(app) as server:
            tokens, stores = Tokens(home), {}
            for name in (new_tenant(), new_tenant(), new_tenant(), ""):
                client = replace(server, token=tokens.add(f"of {name}", "ann", tenant=name))
                store = client.post("/v1/vector_stores", {"name": "boats"})["id"]
                found = client.post(f"/v1/vector_stores/{store}/search", {"query": "boat"})
                assert found["data"] == []
                stores[store] = name or own
            for store, tenant in stores.items():  # the first ones were closed meanwhile
                used: Any = app.state.indexer.memory(store)._index
                assert used.server.tenant == tenant
                assert used.server._connections is memory._index.server._connections  # type: ignore[attr-defined]
        pools: Any = memory._index
        assert pools.server._connections._pool is not None  # no handle has closed them


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


def test_the_metrics_name_the_busiest_tenants_to_an_administrator_of_the_server(
    home: Path,
) -> None:
    limits: dict[str, Value] = {"tenants.named_in_metrics": 1, "tenants.requests_per_minute": 2}
    with tenant_server(home, **limits) as (server, tokens, _):
        busy, quiet, admin = (
            new_tenant(),
            new_tenant(),
            replace(server, token=tokens.add("admin", rights="admin")),
        )
        clients = [
            replace(server, token=tokens.add(f"{at}", tenant=name))
            for at, name in enumerate((busy, busy, busy, quiet))
        ]
        assert [client.ask("GET", "/api/facts").status for client in clients] == [
            200,
            200,
            429,
            200,
        ]
        lines = admin.ask("GET", "/metrics").body.decode().splitlines()
        assert f'memwell_tenant_requests{{tenant="{busy}"}} 3' in lines
        assert f'memwell_tenant_refused_requests{{tenant="{busy}"}} 1' in lines
        assert 'memwell_tenant_requests{tenant="other"} 1' in lines
        assert quiet not in "\n".join(lines)
        of_a_tenant = replace(server, token=tokens.add("b", rights="admin", tenant=new_tenant()))
        assert "memwell_tenant_" not in of_a_tenant.ask("GET", "/metrics").body.decode()
    with tenant_server(home) as (server, _, _):
        admin = replace(server, token=admin.token)
        assert "memwell_tenant_" not in admin.ask("GET", "/metrics").body.decode()


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


def test_a_tenant_takes_only_some_of_the_requests_at_once(home: Path) -> None:
    limits: dict[str, Value] = {"tenants.requests_at_once": 1}
    with tenant_server(home, **limits) as (server, tokens, _):
        noisy, quiet = (
            replace(server, token=tokens.add(name, tenant=new_tenant())) for name in ("a", "b")
        )
        address = urlsplit(server.address)
        with socket.create_connection((address.hostname, address.port), 30) as slow:
            head = f"POST /api/search HTTP/1.1\r\nHost: {address.netloc}\r\n"
            head += f"Authorization: Bearer {noisy.token}\r\nContent-Length: 99\r\n\r\n"
            slow.sendall(head.encode())  # its body is still to come

            def is_refused() -> bool:
                return noisy.ask("GET", "/api/facts").status == 429

            wait_until(is_refused)
            assert quiet.ask("GET", "/api/facts").status == 200
        wait_until(lambda: noisy.ask("GET", "/api/facts").status == 200)


def test_a_statement_that_takes_too_long_is_an_error_with_a_remedy(home: Path) -> None:
    with tenant_server(home, **{"tenants.statement_seconds": 0.2}) as (server, tokens, _):
        client = replace(server, token=tokens.add("a", tenant=new_tenant()))
        client.get("/api/facts")
        with psycopg.connect(shared().url()) as holder:
            holder.execute("LOCK TABLE memwell.facts IN ACCESS EXCLUSIVE MODE")
            late = client.ask("GET", "/api/facts")
        assert (late.status, late.json["error"]["code"]) == (504, "statement_timeout")
        assert "longer for a statement than tenants.statement_seconds" in late.error
        client.get("/api/facts")


def test_a_tenant_with_many_texts_does_not_keep_others_waiting(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memwell.surfaces.http import tenants

    monkeypatch.setattr(tenants, "TURN_SECONDS", 0.0)  # a turn is over as soon as it begins
    settings: dict[str, Value] = {
        **SERVER_SETTINGS,
        "store.url": app_url(),
        "embedding.chain": ("test",),
    }
    with Memory(home, settings=settings) as memory:
        opened = TenantMemories(memory, memory.settings.tenants)
        many = new_tenant()
        opened.get(many).remember("The boat is blue.")
        opened.get(many).search("boat")
        opened._embed_for_a_turn(many)
        assert [*opened._new_texts] == [many]  # it waits for its next turn
        monkeypatch.setattr(tenants, "TURN_SECONDS", 60.0)
        opened._new_texts.clear()
        opened._embed_for_a_turn(many)
        assert [*opened._new_texts] == []
        assert opened.get(many).spaces()[0].embedded == 1


def test_a_tenant_that_stores_too_much_reads_and_forgets_only(home: Path) -> None:
    limits: dict[str, Value] = {"tenants.stored_mb": 0.0001}
    with tenant_server(home, **limits) as (server, tokens, memory):
        tenant = new_tenant()
        as_tenant(memory, tenant).remember(f"The boat is blue. {'Very blue. ' * 20}")
        client = replace(server, token=tokens.add("a", tenant=tenant))
        refused = client.ask("POST", "/api/remember", {"text": "The cat is named Miso."})
        assert (refused.status, "stores more than" in refused.error) == (403, True)
        assert client.post("/api/search", {"query": "boat"})["hits"]
        (fact,) = client.get("/api/facts")["facts"]
        assert client.post("/api/forget", {"ids": [fact["id"]]})["count"] == 1


def test_every_agent_of_a_tenant_counts_as_stored(home: Path) -> None:
    tenant = new_tenant()
    settings: dict[str, Value] = {"store.url": app_url(), "store.tenant": tenant}
    sizes = []
    for agent in ("main", "other"):
        with Memory(home, settings=settings, agent=agent) as memory:
            memory.remember("The boat is blue.", scope="agent")
            memory.search("boat")
            sizes.append(memory._index.bytes)
    with Memory(home, settings={**settings, "store.tenant": "own"}) as memory:
        assert min(sizes) > 0
        assert stored_bytes(as_tenant(memory, tenant)) == sum(sizes)


def test_vector_stores_and_uploaded_files_count_as_stored(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memwell.surfaces.http import tenants

    monkeypatch.setattr(tenants, "_BYTES_SECONDS", 0.0)
    with tenant_server(home, **{"tenants.stored_mb": 0.001}) as (server, tokens, _):
        client = replace(server, token=tokens.add("a", tenant=new_tenant()))
        other = replace(server, token=tokens.add("b", tenant=new_tenant()))

        def upload(by: Server, size: int) -> Answer:
            head = (
                '--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--x\r\n'
            )
            head += 'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
            raw = f"{head}{'boat ' * (size // 5)}\r\n--x--\r\n".encode()
            kind = {"content-type": "multipart/form-data; boundary=x"}
            return by.ask("POST", "/v1/files", raw=raw, headers=kind)

        kept = upload(client, 2_000)
        assert kept.status == 200
        refused = upload(client, 10)
        assert (refused.status, "stores more than" in refused.error) == (403, True)
        assert client.ask("POST", "/v1/vector_stores", {"name": "boats"}).status == 403
        assert client.ask("GET", "/v1/files").status == 200
        assert upload(other, 10).status == 200
        assert client.ask("DELETE", f"/v1/files/{kept.json['id']}").status == 200


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


def test_an_audit_log_says_who_asked_for_what_without_contents(home: Path) -> None:
    with tenant_server(home, **{"tenants.audit": True}) as (server, tokens, _):
        tenant = new_tenant()
        client = replace(server, token=tokens.add("a", "ann", tenant=tenant))
        client.post("/api/remember", {"text": "The boat is blue."})
        client.post("/api/search", {"query": "boat"})
        client.ask("GET", "/api/facts/01kh0000000000000000000000")
        server.ask("GET", "/api/facts")  # without a token, so without a viewer
    file = home / "audit.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["tenant"], line["user"]) for line in lines] == [(tenant, "ann")] * 3
    asked = [(line["method"], line["route"], line["status"]) for line in lines]
    assert asked[:2] == [("POST", "/api/remember", 200), ("POST", "/api/search", 200)]
    assert asked[2] == ("GET", "/api/facts/{fact_id}", 404)
    assert "boat" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_server_of_files_has_no_tenants(home: Path) -> None:
    settings: dict[str, Value] = {**SERVER_SETTINGS, "embedding.chain": ()}
    with Memory(home, settings=settings) as memory, in_a_thread(create_app(memory)) as server:
        client = replace(server, token=Tokens(home).add("one", tenant="acme"))
        refused = client.ask("GET", "/api/facts")
        assert "Set store.url to a PostgreSQL server" in refused.error


def test_a_tenant_has_settings_of_its_own(home: Path) -> None:
    settings: dict[str, Value] = {**SERVER_SETTINGS, "store.url": app_url()}
    with Memory(home, settings=settings) as memory:
        before = memory.settings.store.tenant
        assert as_tenant(memory, "acme").settings.store.tenant == "acme"
        assert memory.settings.store.tenant == before != "acme"


def test_handles_of_tenants_are_small_and_bounded(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tracemalloc

    from memwell.surfaces.http import tenants

    settings: dict[str, Value] = {**SERVER_SETTINGS, "store.url": app_url()}
    with Memory(home, settings=settings) as memory:
        opened = TenantMemories(memory, memory.settings.tenants)
        opened.get("first")
        tracemalloc.start(40)
        for number in range(100):
            opened.get(f"tenant {number}")
        everything = tracemalloc.take_snapshot()
        tracemalloc.stop()
        # Other threads of the process allocate, too.
        kept = everything.filter_traces([tracemalloc.Filter(True, __file__, all_frames=True)])
        used = sum(trace.size for trace in kept.traces)
        assert 100 < used / 100 < 10_000  # bytes
        monkeypatch.setattr(tenants, "MOST_OPEN", 10)
        opened.get("another")
        assert len(opened._opened) == 10
