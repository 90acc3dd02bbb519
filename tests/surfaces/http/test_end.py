"""A server that is asked to end while a model embeds ends without an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.http_servers import served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process
SENTENCE = "The boat of the harbour is painted in blue every spring by people who like the sea. "


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_ends_while_it_embeds(home: Path, workspace: Path, workers: int) -> None:
    for note in range(60):
        parts = [f"Number {note} {part}. {SENTENCE * 4}" for part in range(12)]
        (workspace / f"{note}.md").write_text("\n\n".join(parts))
    (workspace / "memwell.toml").write_text('[scan]\nextra = ["*.md"]\n')
    with served(home, workspace, workers=workers, MEMWELL_EMBEDDING_CHAIN="memwell") as server:
        server.ask("POST", "/api/search", {"query": "boat"})

        def is_embedding() -> bool:
            spaces = server.get("/api/spaces")["spaces"]
            return any(space["embedded"] > 0 for space in spaces)

        wait_until(is_embedding)
        (space,) = server.get("/api/spaces")["spaces"]
        process = server.process
        assert process
        assert process.stderr
        process.terminate()
        errors = process.stderr.read()
        assert (process.wait(60), errors) == (0, "")
    assert space["embedded"] < 60 * 12  # it was not done
