"""What one viewer can find out about another, and how servers tell their viewers apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from tests.support.cli import run_json
from tests.support.postgres import app_url, new_tenant

SECRETS = [
    "Anna hides the kryptonite in Zanzibar.",
    "Anna flies to Zanzibar in April with Bertha.",
    "Anna's heron is called Methuselah.",
]


@pytest.fixture(params=["sqlite", "postgres"])
def ben(request: pytest.FixtureRequest, home: Path, write: Any, workspace: Path) -> Any:
    """The memory of Ben, who has a note and a fact."""
    write("notes.md", "# Birds\n\nThe heron eats fish.\n\n# Trees\n\nThe oak is old.\n")
    write("more.md", "The deploy goes out on Monday.\n")
    settings: dict[str, Any] = {"embedding.chain": ("test",)}
    if request.param == "postgres":
        settings |= {"store.url": app_url(), "store.tenant": new_tenant()}
    with Memory(home, user="ben", settings=settings) as memory:
        memory.index(workspace)
        memory.remember("Ben sails on Sundays.")
        memory.search("Sundays")
        memory.fill()
        yield memory


def test_reliability_d06_counts_are_of_what_the_viewer_sees(ben: Memory) -> None:
    def counts() -> list[object]:
        status = ben.status()
        checks = [check for check in ben.doctor() if check.name == "vectors"]
        found = ben.search("heron", mode="hybrid")
        return [status.bytes, status.meaning, status.spaces, ben.spaces(), checks, found.freshness]

    before = counts()
    anna = ben.as_viewer("anna")
    for secret in SECRETS:
        anna.remember(secret)
    assert counts() == before
    assert anna.search("kryptonite").hits
    anna.fill()
    assert counts() == before
    (space,) = anna.spaces()
    assert space.chunks == space.embedded == ben.spaces()[0].chunks + 2


def test_reliability_d06_a_command_counts_for_its_viewer(
    workspace: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    write("notes.md", "The heron eats fish.\n")
    run_json("index", str(workspace), cwd=workspace)
    before = run_json("status", cwd=workspace), run_json("spaces", cwd=workspace)
    for secret in SECRETS:
        run_json("remember", secret, "--user", "anna", cwd=workspace)
    run_json("search", "kryptonite", "--user", "anna", cwd=workspace)
    assert (run_json("status", cwd=workspace), run_json("spaces", cwd=workspace)) == before
    (space,) = run_json("spaces", "--user", "anna", cwd=workspace)["spaces"]
    assert space["chunks"] == 4


def test_reliability_d07_a_session_belongs_to_its_user(
    workspace: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("notes.md", "The heron eats fish.\n")
    run_json("index", str(workspace), cwd=workspace)
    anna, ben = (("--user", name, "--session", "default") for name in ("anna", "ben"))
    fact = run_json("remember", "Anna hides the kryptonite.", *anna, cwd=workspace)["fact"]
    assert (fact["scope"], fact["target"]) == ("session", "default@anna")
    for viewer in (ben, ("--session", "default"), ("--session", "default@anna")):
        assert run_json("facts", "list", *viewer, cwd=workspace)["facts"] == []
        assert run_json("search", "kryptonite", *viewer, cwd=workspace)["hits"] == []
    assert run_json("search", "kryptonite", *anna, cwd=workspace)["hits"]
    for viewer in (anna, ben):  # nobody is left without a note because another has recalled it
        block = run_json("recall", "what does the heron eat?", *viewer, cwd=workspace)["block"]
        assert "The heron eats fish." in block
