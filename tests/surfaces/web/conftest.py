"""One browser for the tests of a module: while it is open, no other event loop can run in its thread.

Tests that only read share a server; a test that writes
has its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from memwell import Memory
from tests.support.pages import browsing, opened, serving

ATTACK = """<script>window.harm = 1</script><img src=x onerror="window.harm = 2">
<a href="javascript:window.harm = 3">here</a> "><svg onload='window.harm = 4'>"""

Open = Callable[..., Page]


expect.set_options(timeout=30_000)  # for busy machines


@contextmanager
def pets_memory(folder: Path) -> Iterator[Memory]:
    """A memory of a few notes in `folder`, and of one fact."""
    notes = {
        "pets.md": "# Pets\n\nThe cat eats salmon.\n\n## The vet\n\nThe cat sees the vet in May.\n",
        "memory/2026-02-10.md": "# Tuesday\n\nThe cat is ill. The boiler was mended.\n",
        "boiler.md": "# Boiler\n\nThe boiler loses pressure every second week.\n",
        "attack.md": f"# Attack {ATTACK.splitlines()[0]}\n\nzebra {ATTACK}\n",
        "long.md": f"# Long\n\nzebra {'x' * 400} `{'y' * 300}`\n\n| a | b |\n|---|---|\n| {'z' * 200} | 1 |\n",
    }
    for name, text in notes.items():
        file = folder / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with opened(folder / "home", user="anna") as memory:
        memory.remember("The cat is called Miso.", scope="agent", tags=("pets",))
        memory.index(folder / "notes")
        yield memory


@pytest.fixture(scope="module")
def shared_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A memory that no test changes."""
    with pets_memory(tmp_path_factory.mktemp("page")) as memory:
        yield memory


@pytest.fixture(scope="module")
def shared_address(shared_memory: Memory) -> Iterator[str]:
    with serving(shared_memory) as address:
        yield address


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory of this test alone."""
    with pets_memory(tmp_path) as memory:
        yield memory


@pytest.fixture
def address(memory: Memory) -> Iterator[str]:
    with serving(memory) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def open_page(
    browser: Browser, shared_address: str, request: pytest.FixtureRequest
) -> Iterator[Open]:
    """Open a view, of the shared server by default; messages of the browser fail the test."""
    contexts, complaints = [], []
    if "address" in request.fixturenames:
        request.getfixturevalue("address")  # so that its server ends after the pages are closed

    def opening(path: str, at: str = shared_address, **options: object) -> Page:
        contexts.append(browser.new_context(base_url=at, **options))  # type: ignore[arg-type]
        contexts[-1].set_default_timeout(30_000)
        page = contexts[-1].new_page()
        page.on(
            "console", lambda message: complaints.append((message.location["url"], message.text))
        )
        page.on("pageerror", lambda error: complaints.append(("", str(error))))
        page.goto(path)
        return page

    yield opening
    for context in contexts:
        context.close()
    # A view that fails on purpose is reported with its own address, not with that of a file.
    assert [text for text in complaints if not _is_failed_view(*text)] == []


def _is_failed_view(url: str, text: str) -> bool:
    return "status of" in text and not re.search("/(static|note/image|map/points)", url)
