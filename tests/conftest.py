from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from memwell import Memory

REPOSITORY = Path(__file__).parent.parent
EXAMPLES = REPOSITORY / "examples" / "notes"
SHARED = REPOSITORY.parent / "shared" / "bench"

Write = Callable[[str, str], Path]

# A busy machine is no failure: no example is timed.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a home and a configuration of its own, and no vectors unless it asks."""
    for name in [name for name in os.environ if name.startswith("MEMWELL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMWELL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMWELL_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "")
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def write(workspace: Path) -> Write:
    """Write a file of the workspace."""

    def writer(path: str, text: str) -> Path:
        file = workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return writer


@pytest.fixture
def memory(workspace: Path, home: Path) -> Iterator[Memory]:
    with Memory() as opened:
        yield opened


def paths(memory: Memory, query: str, k: int = 10) -> list[str]:
    """The notes a query finds, best first, each once."""
    return [*dict.fromkeys(hit.path for hit in memory.search(query, k=k).hits)]


def shared_set(name: str) -> Path:
    """A labelled set or workspace beside the checkout; the test is skipped where there is none."""
    folder = SHARED / name
    if not folder.exists():
        pytest.skip(
            f"reads {name} from the shared benchmark data, which is not beside this checkout"
        )
    return folder
