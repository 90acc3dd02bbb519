"""Generated requests, valid and invalid, get responses that fit /openapi.json."""

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

EXAMPLES = 3
PARTS = 4
"""All operations in one test would take longer than a test may, on a busy machine."""
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture
def server(workspace: Path, home: Path) -> Iterator[Server]:
    """A server of a small memory, for one test: generated requests write to it."""
    (workspace / "MEMORY.md").write_text("# Notes\n\nThe cat is called Miso.\n")
    settings = {**SERVER_SETTINGS, "embedding.chain": ("test",)}
    with Memory(home, workspace=workspace, settings=settings) as memory:
        memory.index()
        memory.remember("The dog Rex likes long walks.")
        with in_a_thread(create_app(memory)) as running:
            yield running


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_request_is_answered_as_described(
    server: Server, mode: GenerationMode, part: int
) -> None:
    description = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
    operations = [*description.get_all_operations()]
    assert len(operations) > 40
    for operation in operations[part::PARTS]:
        assert isinstance(operation, Ok)

        @given(case=operation.ok().as_strategy(generation_mode=mode))
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
        )
        def check(case: Case[Any]) -> None:
            case.call_and_validate(checks=CHECKS)

        with suppress(Unsatisfiable):  # every request of this operation is valid
            check()
