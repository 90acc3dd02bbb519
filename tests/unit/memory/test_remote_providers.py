"""A memory on a remote provider that misbehaves: what the index holds is right all the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from memwell import Memory
from memwell.embed.batch import embed_batch
from memwell.embed.gemini import Gemini
from memwell.embed.openai import OpenAI
from memwell.net.retry import RetryPolicy
from memwell.store.contract.quantisation import quantise
from memwell.store.sqlite.index import SqliteIndex
from tests.conftest import Write
from tests.support.embedders import Faulty
from tests.support.servers import (
    Act,
    Server,
    altered,
    cut_short,
    raw,
    serving,
    silent,
    status,
    well,
)

DIMENSIONS = 4
KEY = "sk-not-for-anybodys-eyes-7Q"
NAN = float("nan")

UNAVAILABLE: dict[str, Act] = {
    "401": status(401, {"message": f"Incorrect API key provided: {KEY}"}),
    "wrong dimensions": altered(lambda vectors: [[*values, 1.0] for values in vectors]),
}
FAILING: dict[str, Act] = {
    "429": status(429, {"message": "slow down"}, Retry_After="0"),
    "500": status(500),
    "503": status(503),
    "slow": silent,
    "cut": cut_short,
    "NaN": altered(lambda vectors: [[NAN] * DIMENSIONS for _ in vectors]),
    "truncated JSON": raw(b'{"data": [{"emb'),
    "fewer vectors": altered(lambda vectors: vectors[:-1]),
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture(params=[OpenAI, Gemini])
def opened(
    request: pytest.FixtureRequest,
    server: Server,
    workspace: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], Memory]:
    """A memory on that provider, with the test's own behind it, and little patience."""
    hasty = partial(embed_batch, retry=RetryPolicy(first=0.01, longest=0.02))
    monkeypatch.setattr("memwell.memory.embed_pending.embed_batch", hasty)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "remote,behind")
    for number in range(6):
        write(f"{number}.md", f"the note with number {number}" + "!" * number)
    remote = partial(
        request.param,
        model="a-model",
        base_url=server.url,
        key=KEY,
        dimensions=DIMENSIONS,
        timeout=0.3,
    )
    return lambda: Memory(embedders={"remote": remote, "behind": Faulty})


def right_vectors(memory: Memory) -> int:
    """Count the vectors of the remote space; each must be what the server means by it."""
    assert isinstance(memory._index, SqliteIndex)
    with memory._index.database.reading() as connection:
        rows = connection.execute(
            """
            SELECT c.text, v.vector FROM vectors v JOIN chunks c ON c.id = v.chunk_id
            JOIN spaces s ON s.id = v.space_id WHERE s.provider = 'remote'
            """
        ).fetchall()
    for text, blob in rows:
        length = len(str(text).strip())
        expected = np.array([0.0, length, 0.0, -1.0]) / np.hypot(length, 1)
        assert bytes(blob) == quantise(expected[None])[0].tobytes()  # type: ignore[arg-type]
    return len(rows)


@pytest.mark.parametrize("fault", UNAVAILABLE)
def test_the_next_provider_takes_over(
    fault: str, opened: Callable[[], Memory], server: Server, workspace: Path
) -> None:
    server.usually = UNAVAILABLE[fault]
    with opened() as memory:
        memory.index(workspace)
        assert right_vectors(memory) == 0
        assert KEY not in "".join(memory.notices)
        result = memory.search("number 3")
        assert result.hits
        assert [leg.detail for leg in result.legs if leg.name == "meaning"] == ["words (behind)"]
        asked = len(server.requests)
        memory.search("number 3")
        assert len(server.requests) == asked


@pytest.mark.parametrize("fault", FAILING)
def test_the_work_waits_and_is_finished_later(
    fault: str, opened: Callable[[], Memory], server: Server, workspace: Path
) -> None:
    server.usually = FAILING[fault]
    with opened() as memory:
        memory.index(workspace, embed=False)
        report = memory.fill()
        assert (report.provider, report.left) == ("remote", 6)
        assert right_vectors(memory) == 0
        result = memory.search("number 3")
        assert result.hits[0].path == "3.md"
        assert [leg.name for leg in result.legs if leg.answered] == ["words"]
        asked = len(server.requests)
        memory.search("number 3")
        assert len(server.requests) == asked  # it is left alone
        server.usually = well
        assert memory.fill().embedded == 6
        assert right_vectors(memory) == 6
        result = memory.search("number 3")
        assert [leg.name for leg in result.legs if leg.answered] == ["words", "meaning"]


def test_a_fault_that_passes_is_hardly_noticed(
    opened: Callable[[], Memory], server: Server, workspace: Path
) -> None:
    server.script = [FAILING["429"], FAILING["503"], FAILING["cut"]]
    with opened() as memory:
        memory.index(workspace)
        assert right_vectors(memory) == 6
        assert memory.notices == []
