"""What one user can find out about another's facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Write
from tests.reliability.defects.observer import NOTES, SECRETS, find_differences, observe
from tests.support.postgres import app_url, new_tenant


def test_scores_tell_nothing_about_others(
    tmp_path: Path, workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_STORE_URL", app_url())
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    monkeypatch.setenv("MEMWELL_NOW", "2026-03-01T10:00")
    for name, text in NOTES.items():
        write(name, text)
    observed: list[dict[str, object]] = []
    for secrets in ([], SECRETS):
        monkeypatch.setenv("MEMWELL_STORE_TENANT", new_tenant())
        observed.append(observe(tmp_path / f"home{len(observed)}", workspace, secrets))
    assert find_differences(*observed) == {}
    assert any(what.startswith("trace of hit 1") for what in observed[0])
