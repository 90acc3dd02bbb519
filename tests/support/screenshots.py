"""Take the pictures of docs/page.md from the examples: ``python -m tests.support.screenshots``."""

from __future__ import annotations

import base64
import os
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page

from memwell import Memory
from tests.support.documents import PLACE, sandbox
from tests.support.pages import browsing, opened, serving

PICTURES = Path(__file__).parents[2] / "docs" / "images"
QUESTION = "/?q=when+is+the+standup"
VIEWS = {
    "home": "/",
    "search": QUESTION,
    "why": "/why?q=when+is+the+standup&path=reference/regex-cheatsheet.md",
    "notes": "/notes",
    "note": "/note?path=runbooks/nginx-502.md",
    "facts": "/facts",
    "fact": "/facts?tag=staging",
    "timeline": "/timeline?year=2025",
    "map": "/map",
    "map-search": "/map?q=garden",
    "system": "/system",
    "evaluation": "/evaluation",
}
_COLOURS = 256

_PIXELS = """async (picture) => {
    const image = new Image();
    image.src = `data:image/png;base64,${picture}`;
    await image.decode();
    const pen = new OffscreenCanvas(image.width, image.height).getContext("2d");
    pen.drawImage(image, 0, 0);
    const bytes = pen.getImageData(0, 0, image.width, image.height).data;
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return [image.width, image.height, btoa(text)];
}"""
_RENAMED = """([from, to]) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
}"""


def tell(memory: Memory) -> None:
    """Remember a few facts."""
    memory.remember("Rod's standup is at 14:15 Berlin time.", scope="global", tags=("standup",))
    memory.remember("Ines prefers the window seat on trains.", category="preference")
    port = memory.remember(
        "The port of staging is 5432.",
        category="technical",
        decay_class="stable",
        tags=("staging",),
    )
    memory.supersede(
        port.fact.id,
        "The port of staging is 5433.",
        category="technical",
        decay_class="stable",
        tags=("staging",),
    )


def take(browser: Browser, address: str, folder: Path) -> None:
    """Take a picture of every view, and some of the dark, a phone and another language."""
    blank = browser.new_page()
    page = browser.new_page(base_url=address, viewport={"width": 960, "height": 720})
    for name, view in VIEWS.items():
        page.goto(view)
        if name == "search":
            page.get_by_label("Why this score?").first.click()
        elif name == "notes":
            page.locator(".folder .folder > summary").first.click()
        elif name == "note":
            page.locator("#related h2").first.wait_for()
        elif name == "fact":
            page.locator(".statement a").click()
            page.locator("h1.statement").wait_for()
        elif name == "map":
            page.locator("#map[data-drawn]").wait_for()
        elif name == "map-search":
            page.locator("#map[data-lit]").wait_for()
        keep(page, name, folder, blank)
    page = browser.new_page(
        base_url=address, color_scheme="dark", viewport={"width": 960, "height": 720}
    )
    page.goto("/map")
    page.locator("#map[data-drawn]").wait_for()
    keep(page, "dark", folder, blank)
    page = browser.new_page(
        base_url=address, viewport={"width": 360, "height": 720}, has_touch=True
    )
    page.goto(QUESTION)
    keep(page, "phone", folder, blank)
    page = browser.new_page(
        base_url=address, locale="de-DE", viewport={"width": 960, "height": 720}
    )
    page.goto("/")
    keep(page, "german", folder, blank)


def keep(page: Page, name: str, folder: Path, blank: Page) -> None:
    """Write what a page shows, wherever it really ran, as a picture of few colours."""
    page.evaluate(_RENAMED, [str(folder), PLACE])
    picture = base64.b64encode(page.screenshot()).decode()
    width, height, pixels = blank.evaluate(_PIXELS, picture)
    colours = np.frombuffer(base64.b64decode(pixels), dtype=np.uint8).reshape(-1, 4)[:, :3]
    (PICTURES / f"{name}.png").write_bytes(png(colours, width, height))


def png(pixels: np.ndarray[tuple[int, int], np.dtype[np.uint8]], width: int, height: int) -> bytes:
    """Return a picture with the commonest colours; the others become the nearest of these."""
    colours, inverse, counts = np.unique(pixels, axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.sort(counts.argsort()[-_COLOURS:])].astype(int)
    nearest = [((palette - colour) ** 2).sum(axis=1).argmin() for colour in colours.astype(int)]
    rows = np.array(nearest, dtype=np.uint8)[inverse.ravel()].reshape(height, width)
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), rows])
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


if __name__ == "__main__":
    os.environ["MEMWELL_NOW"] = "2026-02-10"
    PICTURES.mkdir(exist_ok=True)
    with sandbox() as folder, tempfile.TemporaryDirectory() as config:
        os.environ["MEMWELL_CONFIG"] = config
        with opened(folder / ".memwell", chain="memwell") as memory:
            tell(memory)
            memory.index(folder / "examples" / "notes")
            memory.search("standup")
            memory.fill()
            with serving(memory) as address, browsing() as browser:
                take(browser, address, folder)
