"""The TypeScript client is what its generator writes from the server's OpenAPI document."""

from __future__ import annotations

import runpy

from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "clients" / "typescript"


def test_the_typescript_client_is_generated_from_the_openapi_document() -> None:
    generator = runpy.run_path(str(FOLDER / "generate.py"))
    written = (FOLDER / "memwell.ts").read_text(encoding="utf-8")
    assert generator["generate"](generator["read_document"]()) == written, (
        "run python clients/typescript/generate.py"
    )


def test_the_versions_are_the_same() -> None:
    from memwell import __version__

    assert f'"version": "{__version__}"' in (FOLDER / "package.json").read_text(encoding="utf-8")
