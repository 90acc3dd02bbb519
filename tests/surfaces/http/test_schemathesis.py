"""Whatever the description of the interface allows, and more, is answered as it describes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode, checks
from schemathesis.core.result import Ok

from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from tests.support.http_servers import Server, in_a_thread

EXAMPLES = 4
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that answers from a small memory."""
    folder: Path = tmp_path_factory.mktemp("described")
    (folder / "MEMORY.md").write_text("# Notes\n\nThe cat is called Miso.\n")
    own = {**SERVER_SETTINGS, "embedding.chain": ("test",)}
    with Memory(folder / "home", workspace=folder, settings=own) as memory:
        memory.index()
        memory.remember("The dog Rex likes long walks.")
        with in_a_thread(create_app(memory)) as running:
            yield running


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_request_is_answered_as_described(server: Server, mode: GenerationMode) -> None:
    described = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
    operations = [*described.get_all_operations()]
    assert len(operations) > 40
    for found in operations:
        assert isinstance(found, Ok)

        @given(case=found.ok().as_strategy(generation_mode=mode))
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
        )
        def answered(case: Case[Any]) -> None:
            case.call_and_validate(checks=CHECKS)

        with suppress(Unsatisfiable):  # there is nothing that could be asked wrongly
            answered()
