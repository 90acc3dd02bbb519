"""A real server for the web pages of a memory, and a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from tests.support.http_servers import in_a_thread


def opened(home: Path, *, chain: str = "test", **options: object) -> Memory:
    """A memory as a server opens it; the environment does not choose the provider."""
    return Memory(home, settings={**SERVER_SETTINGS, "embedding.chain": (chain,)}, **options)  # type: ignore[arg-type]


@contextmanager
def serving(memory: Memory) -> Iterator[str]:
    """Serve a memory on a port of the loopback; yield the address."""
    with in_a_thread(create_app(memory)) as server:
        yield server.address


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start the machine's Chromium, or Playwright's own; skip where there is none."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"] if root else []
            )
        except Error:
            pytest.skip("needs Chromium: `apt install chromium` or `playwright install chromium`")
        yield browser
        browser.close()
