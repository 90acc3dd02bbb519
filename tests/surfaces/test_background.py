"""The background thread of a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS, Background
from tests.conftest import Write
from tests.support.embedders import Faulty


@pytest.mark.parametrize(("chain", "queries"), [("test", 2), ("mine", 0)])
def test_a_server_searches_before_its_clients_do(
    workspace: Path, write: Write, chain: str, queries: int
) -> None:
    """A provider that may be remote, and cost money, is not asked."""
    write("cat.md", "# The cat\n\nThe cat is named Miso.\n")
    provider = Faulty()
    settings = {**SERVER_SETTINGS, "embedding.chain": (chain,)}
    with Memory(workspace=workspace, embedders={chain: lambda: provider}, settings=settings) as one:
        one.index(workspace)
        with Background(one, lambda _: None):
            pass  # at its end the thread is waited for
        assert provider.queries == queries
