from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from memwell import Memory

REPOSITORY = Path(__file__).parent.parent
EXAMPLES = REPOSITORY / "examples" / "notes"
SHARED = REPOSITORY.parent / "shared" / "bench"

Write = Callable[[str, str], Path]

FOLDER_MARKS = {
    "faults": "process",
    "postgres": "server",
    "reliability/defects": "process",
    "surfaces/hooks": "process",
    "surfaces/web": "browser",
}
"""The marks of all tests in a folder; other tests that need one have it in their file."""

# A shell ignores SIGINT for commands in the background, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No example is timed: a busy machine must not fail a test.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a server, a browser or processes."""
    for item in items:
        folder = item.path.parent.relative_to(Path(__file__).parent).as_posix()
        if mark := FOLDER_MARKS.get(folder):
            item.add_marker(mark)
        cases = getattr(item, "callspec", None)
        if cases and "postgres" in cases.params.values():
            item.add_marker("server")


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
