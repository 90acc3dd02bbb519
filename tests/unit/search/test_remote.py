"""Another store, asked along with the index: `memwell serve` itself, and what may go wrong."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell import Memory
from memwell.model import Hit
from memwell.search.remote_merge import interleave, to_candidates
from memwell.search.retrieve import Candidate
from tests.conftest import Write
from tests.support.http_servers import Server, served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of this test alone, in a process: its settings are not those of the test."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with served(folder / "home", folder, MEMWELL_EMBEDDING_CHAIN="test") as running:
        yield running


@pytest.fixture
def store(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("openai")
    from tests.support.openai_clients import create_filled_store, openai_client

    with openai_client(server) as client:
        store, _ = create_filled_store(client)
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    monkeypatch.setenv("MEMWELL_REMOTE_BASE_URL", f"{server.address}/v1")
    monkeypatch.setenv("MEMWELL_REMOTE_VECTOR_STORE", store)
    return store


@pytest.fixture
def notes(write: Write, workspace: Path) -> Path:
    write("birds.md", "# Birds\n\nThe parrot is called Quixote.\n")
    write("copy.md", "The dog Rex likes bones and long walks in the morning.\n")
    return workspace


@pytest.mark.process
def test_what_another_store_holds_is_found_beside_the_notes(
    memory: Memory, notes: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.index(notes)
    cat = memory.search("the cat called Miso eats fish", explain=True)
    best = cat.hits[0]
    assert (best.path, "eats fish" in best.text) == ("cats.md", True)
    assert store in best.workspace
    assert best.trace is not None
    assert [part.leg for part in best.trace.parts] == ["remote"]
    assert best.trace.fused == best.trace.parts[0].contribution
    assert [leg.name for leg in cat.legs if leg.answered] == ["words", "meaning", "remote"]
    assert memory.search("what is the parrot called").hits[0].path == "birds.md"
    dog = memory.search("the dog Rex likes bones").hits[0]
    assert (dog.path, dog.also) == ("copy.md", ("dogs.txt:1",))  # the same text comes once
    monkeypatch.setenv("MEMWELL_RECALL_MIN_SCORE", "0.1")
    assert "cats.md" in memory.recall("the cat called Miso eats fish").block


@pytest.mark.process
def test_it_is_not_asked_what_only_the_index_can_tell(
    memory: Memory, notes: Path, store: str
) -> None:
    memory.index(notes)
    memory.remember("The cat is grey.")
    for query, wanted in (
        ("cat path:birds.md", {}),
        ('"the cat" eats', {}),
        ("cat -miso", {}),
        ("cat", {"kind": "fact"}),
        ("cat", {"paths": ["birds.md"]}),
    ):
        result = memory.search(query, **wanted)
        assert "remote" not in [leg.name for leg in result.legs], query
        assert all("Miso" not in hit.text for hit in result.hits)


@pytest.mark.process
@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("VECTOR_STORE", "vs_none", "answered"),
        ("BASE_URL", "http://127.0.0.1:9/v1", "No server answers at 127.0.0.1:9"),
        ("TIMEOUT", "0.1", "did not answer within 0.1 seconds"),
    ],
)
def test_where_it_fails_the_index_answers_alone(
    memory: Memory,
    notes: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    value: str,
    reason: str,
) -> None:
    if setting == "VECTOR_STORE":
        request.getfixturevalue("store")
    else:
        monkeypatch.setenv("MEMWELL_REMOTE_VECTOR_STORE", "vs_any")
    memory.index(notes)
    monkeypatch.setenv(f"MEMWELL_REMOTE_{setting}", value)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        if setting == "TIMEOUT":
            address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
            monkeypatch.setenv("MEMWELL_REMOTE_BASE_URL", address)
        result = memory.search("what is the parrot called")
    assert result.hits[0].path == "birds.md"
    (leg,) = [leg for leg in result.legs if leg.name == "remote"]
    assert not leg.answered
    assert reason in leg.reason


relevances = st.lists(st.floats(0, 1), max_size=8)


@given(relevances, relevances)
def test_neither_order_is_changed_and_the_more_relevant_comes_first(
    ours: list[float], theirs: list[float]
) -> None:
    own = [Candidate(number, relevance) for number, relevance in enumerate(ours, 1)]
    hits = [Hit("a.md", "", 1, 1, score, score, "") for score in sorted(theirs, reverse=True)]
    merged = interleave(own, to_candidates(hits))
    assert [one for one in merged if one.chunk_id > 0] == own
    assert [one.chunk_id for one in merged if one.chunk_id < 0] == [
        -n - 1 for n in range(len(hits))
    ]
    for one, other in itertools.pairwise(merged):
        if (one.chunk_id > 0) != (other.chunk_id > 0) and one.chunk_id < 0:
            assert one.relevance > other.relevance
