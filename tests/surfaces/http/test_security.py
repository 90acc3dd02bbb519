"""Requests that are not allowed are refused, and the response reveals nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import openai
import pytest

from memwell import Memory
from memwell.surfaces.http.app import create_app
from memwell.surfaces.http.tokens import Tokens
from tests.support.cli import run
from tests.support.http_servers import Server, in_a_thread, served
from tests.support.openai_clients import openai_client
from tests.support.pages import opened

SECRET = "Anna keeps the spare key under the blue pot."
OPTIONS = {"POST": ("/api/search", {"query": "spare key"}), "GET": ("/api/facts", None)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home and a workspace, and a note outside that a link leads to."""
    folder = tmp_path_factory.mktemp("security")
    (folder / "workspace" / "memory").mkdir(parents=True)
    (folder / "workspace" / "MEMORY.md").write_text(
        "# Notes\n\nThe office is on the second floor.\n"
    )
    (folder / "outside.md").write_text("Nobody is to read this.\n")
    os.symlink(folder / "outside.md", folder / "workspace" / "memory" / "link.md")
    words = {"embedding.chain": ()}
    with Memory(
        folder / "home", workspace=folder / "workspace", user="anna", settings=words
    ) as memory:
        memory.remember(SECRET, scope="user")
    return folder


@pytest.fixture(scope="module")
def anna(place: Path) -> Iterator[Server]:
    """A server that needs tokens, asked by Anna. No test changes what it has."""
    token = Tokens(place / "home").add("anna's laptop", user="anna")
    with served(place / "home", place / "workspace") as server:
        yield replace(server, token=token)


@pytest.fixture(scope="module")
def ben(anna: Server, place: Path) -> Server:
    """The same server, asked by Ben; his token is made while it runs."""
    return replace(anna, token=Tokens(place / "home").add("ben", user="ben"))


@pytest.fixture(scope="module")
def anyone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without tokens. No test changes what it has."""
    folder = tmp_path_factory.mktemp("anyone")
    with served(folder / "home", folder) as server:
        yield server


@pytest.fixture
def server(home: Path) -> Iterator[Server]:
    """A server of this test alone; it needs tokens as soon as the test adds one."""
    with opened(home) as memory, in_a_thread(create_app(memory)) as running:
        yield running


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", OPTIONS)
@pytest.mark.parametrize("token", ["", "wrong", "x" * 10_000])
def test_without_the_right_token_nothing_is_answered(anna: Server, method: str, token: str) -> None:
    path, body = OPTIONS[method]
    answer = replace(anna, token=token).ask(method, path, body)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert b"key under" not in answer.body
    assert replace(anna, token=token).ask("GET", "/metrics").status == 401
    assert replace(anna, token=token).ask("GET", "/openapi.json").status == 401


def test_a_token_in_another_form_is_refused(anna: Server) -> None:
    for value in (anna.token, f"Basic {anna.token}", f"Bearer{anna.token}", "Bearer", ""):
        refused = replace(anna, token="").ask("GET", "/api/facts", headers={"authorization": value})
        assert refused.status == 401


def test_a_token_decides_whose_facts_are_seen(anna: Server, ben: Server) -> None:
    search = {"query": "spare key", "min_score": 0}
    assert [hit["text"] for hit in anna.post("/api/search", search)["hits"]] == [SECRET]
    assert ben.post("/api/search", search)["hits"] == []
    (fact,) = anna.get("/api/facts")["facts"]
    assert ben.get("/api/facts")["facts"] == []
    assert SECRET not in ben.ask("GET", "/api/export").body.decode()
    for method, path, body in (
        ("GET", f"/api/facts/{fact['id']}", None),
        ("GET", f"/api/facts/{fact['id']}/history", None),
        ("PATCH", f"/api/facts/{fact['id']}", {"text": "It is mine now."}),
        ("POST", f"/api/facts/{fact['id']}/promote", {"scope": "global"}),
        ("POST", "/api/forget", {"ids": [fact["id"]]}),
        ("POST", "/api/supersede", {"old": fact["id"], "text": "The key is gone from there."}),
    ):
        refused = ben.ask(method, path, body)
        unknown = ben.ask(
            method,
            path.replace(fact["id"], "nonesuch"),
            body and json.loads(json.dumps(body).replace(fact["id"], "nonesuch")),
        )
        assert refused.status == 404
        assert refused.error.replace(fact["id"], "nonesuch") == unknown.error
    assert anna.get("/api/facts")["facts"] == [fact]


def test_files_and_stores_are_seen_by_their_user_alone(server: Server, home: Path) -> None:
    anna, ben = (
        replace(server, token=Tokens(home).add(user, user=user)) for user in ("anna", "ben")
    )
    with openai_client(anna) as annas, openai_client(ben) as bens:
        file = annas.files.create(file=("a.md", b"The blue pot."), purpose="assistants")
        store = annas.vector_stores.create(file_ids=[file.id])
        own = bens.vector_stores.create()
        assert bens.files.list().data == []
        assert [store.id for store in bens.vector_stores.list()] == [own.id]
        for ask in (
            lambda: bens.files.retrieve(file.id),
            lambda: bens.files.content(file.id),
            lambda: bens.files.delete(file.id),
            lambda: bens.vector_stores.search(store.id, query="pot"),
            lambda: bens.vector_stores.update(store.id, name="mine"),
            lambda: bens.vector_stores.delete(store.id),
            lambda: bens.vector_stores.files.list(store.id),
            lambda: bens.vector_stores.files.create(own.id, file_id=file.id),
            lambda: bens.vector_stores.create(file_ids=[file.id]),
        ):
            with pytest.raises(openai.NotFoundError):
                ask()
        assert annas.vector_stores.retrieve(store.id).name == ""


def test_a_token_that_was_removed_is_refused(server: Server, home: Path) -> None:
    tokens = Tokens(home)
    tokens.add("another")
    lent = replace(server, token=tokens.add("lent", user="anna"))
    assert lent.ask("GET", "/api/facts").status == 200
    tokens.remove("lent")
    assert lent.ask("GET", "/api/facts").status == 401


def test_tokens_are_kept_as_hashes_for_the_owner_alone(anna: Server, place: Path) -> None:
    file = place / "home" / "tokens.json"
    assert anna.token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_list_of_tokens_that_cannot_be_read_lets_nobody_in(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with served(home, tmp_path) as server:
        (home / "tokens.json").write_text("{")
        refused = server.ask("GET", "/api/facts")
        assert refused.status == 503
        assert str(tmp_path) not in refused.error


def test_a_browser_is_asked_for_its_token_once(anna: Server) -> None:
    stranger = replace(anna, token="")
    sent_on = stranger.ask("GET", "/", headers={"accept": "text/html"})
    assert (sent_on.status, sent_on.headers["location"]) == (303, "/login")
    assert b"<form" in stranger.ask("GET", "/login").body
    form = {"content-type": "application/x-www-form-urlencoded"}
    entered = stranger.ask("POST", "/login", raw=f"token={anna.token}".encode(), headers=form)
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    known = {"cookie": cookie.partition(";")[0]}
    assert stranger.ask("GET", "/api/facts", headers=known).status == 200
    injected = stranger.ask("POST", "/login", raw=b"token=a%0d%0aset-cookie:x=y", headers=form)
    assert injected.status == 400
    assert "set-cookie" not in injected.headers


def test_beyond_loopback_it_does_not_listen_without_a_token(tmp_path: Path) -> None:
    done = run("serve", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)
    assert done.returncode == 3
    assert "memwell serve token add" in done.stderr


def test_beyond_loopback_nobody_is_let_in_when_the_last_token_is_gone(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "home")
    token = tokens.add("only")
    with served(tmp_path / "home", tmp_path, "--host", "0.0.0.0") as server:
        address = server.address.replace("0.0.0.0", "127.0.0.1")
        owner = Server(address, token=token)
        assert owner.ask("GET", "/api/facts").status == 200
        tokens.remove("only")
        assert owner.ask("GET", "/api/facts").status == 401
        assert Server(address).ask("GET", "/api/facts").status == 401


def test_health_needs_no_token_and_says_nothing(anna: Server) -> None:
    assert replace(anna, token="").get("/health") == {"status": "ok"}


# -- host and origin -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil", "[::1"]
)
def test_a_foreign_name_is_refused_before_anything_else(anna: Server, host: str) -> None:
    for path in ("/health", "/api/facts", "/", "/login"):
        refused = anna.ask("GET", path, headers={"host": host})
        assert refused.status == 403
        assert b"key under" not in refused.body


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost:1",
        "file://",
        "http://127.0.0.1.evil.example",
    ],
)
def test_a_foreign_page_is_refused_before_anything_else(anyone: Server, origin: str) -> None:
    for method, path in (("GET", "/health"), ("POST", "/api/remember"), ("OPTIONS", "/api/search")):
        refused = anyone.ask(method, path, {"text": "Foreign words."}, headers={"origin": origin})
        assert refused.status == 403
        assert "access-control-allow-origin" not in refused.headers
    assert anyone.get("/api/facts")["facts"] == []


def test_its_own_page_is_answered(anyone: Server) -> None:
    own = {"origin": anyone.address}
    assert anyone.ask("POST", "/api/search", {"query": "x"}, headers=own).status == 200
    port = anyone.address.rpartition(":")[2]
    by_name = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
    assert anyone.ask("POST", "/api/search", {"query": "x"}, headers=by_name).status == 200


def test_every_answer_carries_the_headers_that_keep_browsers_safe(anyone: Server) -> None:
    refused = {"host": "evil.example"}
    answers = [
        anyone.ask("GET", "/health"),
        anyone.ask("GET", "/nonesuch"),
        anyone.ask("POST", "/api/search", raw=b"{"),
        anyone.ask("GET", "/health", headers=refused),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


# -- paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reference",
    [
        "../outside.md",
        "..%2foutside.md",
        "%2e%2e/outside.md",
        "memory/../../outside.md#L1",
        "....//outside.md",
        "..\\outside.md",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "outside.md%00.md",
        "../home/tokens.json",
        "file:///etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_workspace(anna: Server, place: Path, reference: str) -> None:
    outside = str(place / "outside.md")
    for path in (reference, outside):
        refused = anna.ask("GET", f"/api/get?reference={path}")
        assert refused.status == 404
        assert b"Nobody is to read" not in refused.body
        assert b"root:" not in refused.body


def test_a_link_out_of_the_workspace_is_not_followed(anna: Server, place: Path) -> None:
    assert (place / "workspace" / "memory" / "link.md").is_symlink()
    assert anna.ask("GET", "/api/get?reference=memory/link.md").status == 404


@pytest.mark.parametrize(
    "wanted", ["..", "../tokens", "%2e%2e%2ftokens", "vs_x", "file-" + "0" * 28]
)
def test_no_id_leads_to_another_file(anna: Server, wanted: str) -> None:
    for path in (
        f"/v1/files/{wanted}",
        f"/v1/vector_stores/{wanted}",
        f"/v1/files/{wanted}/content",
    ):
        for method in ("GET", "DELETE"):
            refused = anna.ask(method, path)
            assert refused.status in (404, 405), path
            assert b"digest" not in refused.body


# -- bodies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe{}",
        b'{"query": "\xc3\x28"}',
        b'{"query": 1}',
        b'{"query": ["a"]}',
        b'{"query": null}',
        b'{"query": "x", "k": "many"}',
        b'{"query": "x", "k": 1e400}',
        b'{"query": "x", "k": 0}',
        b'{"query": "x", "k": 1001}',
        b'{"query": "x", "min_score": NaN}',
        b"[" * 100_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    ],
)
def test_what_is_not_understood_is_refused(anyone: Server, body: bytes) -> None:
    for path in ("/api/search", "/v1/vector_stores/vs_x/search"):
        refused = anyone.ask("POST", path, raw=body)
        assert refused.status in (400, 404)
        assert set(refused.json["error"]) == {"message", "type", "param", "code"}
        assert "Traceback" not in refused.error


def test_half_a_character_does_no_harm(server: Server) -> None:
    for path, body in (
        ("/api/search", b'{"query": "\\ud800 cat"}'),
        ("/api/remember", b'{"text": "The cat \\udfff is called Miso.", "tags": ["\\ud800"]}'),
        ("/v1/vector_stores", b'{"name": "\\ud800", "metadata": {"\\ud800": "x"}}'),
    ):
        assert server.ask("POST", path, raw=body).status in (200, 400)
    assert server.ask("GET", "/api/facts").status == 200


def test_a_body_that_is_too_large_is_refused(anyone: Server) -> None:
    refused = anyone.ask("POST", "/api/search", raw=b"x" * 20_000_001)
    assert refused.status == 413
    host = anyone.address.removeprefix("http://").encode()
    head = b"POST /api/search HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n"
    announced = anyone.send(head + b"Content-Length: 99999999999\r\n\r\n")
    assert announced.startswith(b"HTTP/1.1 413")
    piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    in_pieces = anyone.send(chunked + piece * 21 + b"0\r\n\r\n")
    assert in_pieces.startswith(b"HTTP/1.1 413")


def test_headers_cannot_be_injected(anyone: Server) -> None:
    for path in ("/%0d%0aset-cookie:%20a=b", "/api/get?reference=%0d%0aset-cookie:%20a=b"):
        answer = anyone.ask("GET", path)
        assert answer.status == 404
        assert "set-cookie" not in answer.headers
    host = anyone.address.removeprefix("http://").encode()
    for smuggled in (
        b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\nHost: evil.example\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\nX: a\x00b\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
    ):
        assert anyone.send(smuggled).startswith(b"HTTP/1.1 4")
