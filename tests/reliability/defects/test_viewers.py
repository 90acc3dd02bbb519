"""What one viewer can find out about another, and what a client can do to others."""

from __future__ import annotations

import json
import select
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import Write
from tests.reliability.defects.observer import NOTES, SECRETS, find_differences, observe
from tests.reliability.defects.support import Server, add_token, remember, run, run_json, serve

# -- D5: scores ------------------------------------------------------------------------------------


def test_reliability_d05_scores_tell_nothing_about_others(
    tmp_path: Path, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    monkeypatch.setenv("MEMWELL_NOW", "2026-03-01T10:00")
    for name, text in NOTES.items():
        write(name, text)
    alone = observe(tmp_path / "alone", workspace, [])
    beside = observe(tmp_path / "beside", workspace, SECRETS)
    assert find_differences(alone, beside) == {}
    assert any(what.startswith("trace of hit 1") for what in alone)


# -- D6, D7: counts and sessions -------------------------------------------------------------------


def test_reliability_d06_a_command_counts_for_its_viewer(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    write("notes.md", "The heron eats fish.\n")
    run_json("index", str(workspace), cwd=workspace)

    def get_counts() -> tuple[Any, ...]:
        status = run_json("status", cwd=workspace)
        for row in status["workspaces"]:
            del row["synced_at"]
        return run_json("spaces", cwd=workspace), status

    before = get_counts()
    for secret in SECRETS[:3]:
        run_json("remember", secret, "--user", "anna", cwd=workspace)
    run_json("search", "kryptonite", "--user", "anna", cwd=workspace)
    (space,) = run_json("spaces", cwd=workspace)["spaces"]
    assert space["chunks"] == 1
    assert get_counts() == before
    (space,) = run_json("spaces", "--user", "anna", cwd=workspace)["spaces"]
    assert space["chunks"] == 4


def test_reliability_d07_a_session_belongs_to_its_user(workspace: Path, write: Write) -> None:
    write("notes.md", "The heron eats fish.\n")
    run_json("index", str(workspace), cwd=workspace)
    anna, ben = (("--user", name, "--session", "default") for name in ("anna", "ben"))
    fact = run_json("remember", "Anna hides the kryptonite.", *anna, cwd=workspace)["fact"]
    for viewer in (ben, ("--session", "default"), ("--session", "default@anna")):
        assert run_json("facts", "list", *viewer, cwd=workspace)["facts"] == []
        assert run_json("search", "kryptonite", *viewer, cwd=workspace)["hits"] == []
    assert (fact["scope"], fact["target"]) == ("session", "default@anna")
    assert run_json("search", "kryptonite", *anna, cwd=workspace)["hits"]
    for viewer in (anna, ben):  # nobody is left without a note because another has recalled it
        block = run_json("recall", "what does the heron eat?", *viewer, cwd=workspace)["block"]
        assert "The heron eats fish." in block


# -- D16: slow clients -----------------------------------------------------------------------------

SLOW = (
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nt"
)


def test_reliability_d16_slow_bodies_keep_nobody_out(workspace: Path) -> None:
    token = add_token("laptop", cwd=workspace)
    with serve(workspace) as server, ExitStack() as opened:
        address = urlsplit(server.address)
        clients = []
        for _ in range(140):
            client = socket.create_connection((address.hostname, address.port), 60)
            clients.append(opened.enter_context(client))
            client.sendall(SLOW)
        # The server waits for 128 bodies, and answers the clients that are too many.
        answered, _, _ = select.select(clients, [], [], 60)
        assert answered
        assert server.ask("GET", "/health")[0] == 200
        assert server.as_owner_of(token).ask("GET", "/api/status")[0] == 200


# -- D31, D32: rights ------------------------------------------------------------------------------

GLOBAL = {"text": "The house has a garden.", "scope": "global"}


def ask_as_admin(server: Server, fact: str) -> dict[str, int]:
    """Return the status of each request that only a token with all rights may send."""
    supersede = {"text": "The cat has gone away.", "old": fact}
    requests: dict[str, tuple[str, str, Any]] = {
        "prune": ("POST", "/api/facts/prune", None),
        "drop a space": ("DELETE", "/api/spaces/7", None),
        "remember": ("POST", "/api/remember", GLOBAL),
        "edit": ("PATCH", f"/api/facts/{fact}", {"text": "The cat is Ben's."}),
        "supersede": ("POST", "/api/supersede", supersede),
        "forget": ("POST", "/api/forget", {"ids": [fact]}),
    }
    return {name: server.ask(*request)[0] for name, request in requests.items()}


def test_reliability_d31_a_token_has_rights(home: Path, workspace: Path) -> None:
    usual = add_token("usual", cwd=workspace)
    fact = remember(workspace, "The cat is named Miso.", "--scope", "global")
    with serve(workspace) as server:
        answers = ask_as_admin(server.as_owner_of(usual), fact)
        assert answers == dict.fromkeys(answers, 403)
    names = {
        right: add_token(right, "--rights", right, cwd=workspace)
        for right in ("read", "write", "admin")
    }
    with serve(workspace) as server:
        owners = {name: server.as_owner_of(token) for name, token in names.items()}
        owners["usual"] = server.as_owner_of(usual)
        for owner in owners.values():
            assert owner.ask("POST", "/api/search", {"query": "cat"})[0] == 200
            assert owner.ask("GET", "/api/facts")[0] == 200
        assert owners["read"].ask("POST", "/api/remember", {"text": "A dog."})[0] == 403
        for name in ("read", "write", "usual"):
            assert {*ask_as_admin(owners[name], fact).values()} == {403}, name
        _, told = owners["usual"].ask("POST", "/api/remember", {"text": "The dog barks."})
        shared = json.loads(told)["fact"]["id"]
        promote = f"/api/facts/{shared}/promote"
        assert owners["usual"].ask("POST", promote, {"scope": "global"})[0] == 403
        assert owners["usual"].ask("POST", "/api/forget", {"ids": [shared]})[0] == 200
        allowed = ask_as_admin(owners["admin"], fact)
        assert allowed.pop("drop a space") == 404
        assert {*allowed.values()} == {200}


def test_reliability_d32_other_users_of_the_machine_need_a_token(
    home: Path, workspace: Path
) -> None:
    remember(workspace, "The cat is named Miso.")
    with serve(workspace) as server:
        for path in ("/api/facts", "/api/status", "/metrics", "/openapi.json"):
            status, answer = server.ask("GET", path)
            assert status == 401, (path, answer)
        assert server.ask("GET", "/health")[0] == 200
        token = run("serve", "token", "local", cwd=workspace).stdout.strip()
        owner = server.as_owner_of(token)
        _, answer = owner.ask("GET", "/api/facts")
        assert [fact["text"] for fact in json.loads(answer)["facts"]] == ["The cat is named Miso."]
        assert owner.ask("POST", "/api/facts/prune")[0] == 200
    file = home / "serve.token"
    assert (file.read_text().strip(), file.stat().st_mode & 0o777) == (token, 0o600)
    with serve(workspace, "--no-token") as server:  # told otherwise
        assert server.ask("GET", "/api/facts")[0] == 200
