"""Clients that are slow or send nonsense do not keep others out."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest

from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from memwell.surfaces.http.limits import RequestLimits
from memwell.surfaces.http.tokens import Tokens
from tests.support.cli import run
from tests.support.http_servers import in_a_thread, served

LENGTH, CHUNKED = b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"
SLOW = (
    b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


def test_slow_bodies_are_answered_in_time(home: Path) -> None:
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


def test_a_token_from_before_there_were_rights_has_all_of_them(home: Path, workspace: Path) -> None:
    for options in ((), ("--rights", "read")):
        run("serve", "token", "add", f"laptop{len(options)}", *options, cwd=workspace)
    file = home / "tokens.json"
    rows = json.loads(file.read_text(encoding="utf-8"))
    for row in rows["tokens"]:
        del row["rights"]
    file.write_text(json.dumps(rows), encoding="utf-8")
    assert [token.allows("admin") for token in Tokens(home).list_all()] == [True, True]
    assert "before there were rights" in run("serve", "token", "list", cwd=workspace).stdout


def test_a_request_with_two_lengths_closes_the_connection(home: Path) -> None:
    second = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    body = b"0\r\n\r\n"
    with (
        Memory(home, settings=SERVER_SETTINGS) as memory,
        in_a_thread(create_app(memory)) as server,
    ):
        for first, other in ((LENGTH, CHUNKED), (CHUNKED, LENGTH)):
            received = server.send(
                b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                + first
                + other
                + b"\r\n"
                + body
                + second
            )
            assert received.startswith(b"HTTP/1.1 400 ")
            assert received.count(b"HTTP/1.1") == 1


def test_a_host_with_user_information_is_refused(home: Path) -> None:
    with (
        Memory(home, settings=SERVER_SETTINGS) as memory,
        in_a_thread(create_app(memory)) as server,
    ):
        for host in (
            "evil.com:80@127.0.0.1",
            "anna@127.0.0.1",
            "127.0.0.1/x",
            "127.0.0.1#evil.com",
        ):
            answer = server.ask("GET", "/health", headers={"host": host})
            assert (answer.status, answer.json["error"]["code"]) == (403, "host"), host
        for host in ("127.0.0.1", "127.0.0.1:8765", "localhost", "[::1]:8765"):
            assert server.ask("GET", "/health", headers={"host": host}).status == 200, host


@pytest.mark.process
def test_serve_names_tokens_without_rights(home: Path, workspace: Path) -> None:
    run("serve", "token", "add", "laptop", cwd=workspace)
    file = home / "tokens.json"
    rows = json.loads(file.read_text(encoding="utf-8"))
    del rows["tokens"][0]["rights"]
    file.write_text(json.dumps(rows), encoding="utf-8")
    with served(home, workspace) as server:
        assert server.process
        assert server.process.stderr
        assert "made before there were rights" in (line := server.process.stderr.readline())
        assert "laptop" in line


def test_the_page_opens_logged_in(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(click, "launch", opened.append)
    token = run("serve", "token", "local", cwd=workspace).stdout.strip()
    with (
        Memory(home, settings=SERVER_SETTINGS) as memory,
        in_a_thread(create_app(memory, local_token=token)) as server,
    ):
        run("ui", "--port", str(urlsplit(server.address).port), cwd=workspace)
        (address,) = opened
        assert token not in address  # every user sees the arguments of commands
        file = Path(urlsplit(address).path)
        assert file.stat().st_mode & 0o777 == 0o600
        link = file.read_text().partition("url=")[2].partition('"')[0]
        welcome = server.ask("GET", link.removeprefix(server.address))
        cookie = {"cookie": welcome.headers["set-cookie"].partition(";")[0]}
        assert server.ask("GET", "/facts", headers=cookie).status == 200
        other = run("serve", "token", "add", "ben", cwd=workspace).stdout.strip()
        for wrong in ("x" * 43, "", token[:-1], other):
            refused = server.ask("GET", f"/login?token={wrong}")
            assert "set-cookie" not in refused.headers
            assert b"<form" in refused.body


def test_a_damaged_or_open_token_is_replaced(home: Path, workspace: Path) -> None:
    def local_token() -> Any:
        return run("serve", "token", "local", cwd=workspace).stdout.strip()

    file, tokens = home / "serve.token", [local_token(), local_token()]
    assert tokens[0] == tokens[1]
    for content, mode in (("", 0o600), ("short", 0o600), (tokens[0], 0o644)):
        file.write_text(content)
        file.chmod(mode)
        tokens.append(local_token())
        assert len(tokens[-1]) == 43
        assert file.stat().st_mode & 0o777 == 0o600
    assert len({*tokens}) == 4
