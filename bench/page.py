"""How long a person waits for hits on the page after the last key, over 20,000 passages.

A real browser types a question into the page of a real server. The clock runs in the browser, from
the last input event until the new hits are in the document.
"""

from __future__ import annotations

import os
from statistics import median

from tests.support.pages import browsing, serving

from bench import data, start
from bench.measure import temporary_home
from bench.results import Row, at_most
from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS

_QUESTIONS = (
    "how does a pod get its IP address",
    "restart a failed container",
    "limit the memory of a namespace",
    "what is a headless service",
    "rolling update of a deployment",
    "persistent volume is not bound",
    "who may read secrets",
    "taints and tolerations",
    "drain a node before maintenance",
    "certificate of the API server expired",
)
_MOST = 100_000
_KEY_MS = 30
"""Between two keys: as quick as a person types."""
_WATCH = """() => {
    window.asked = window.waited = 0;
    addEventListener("input", () => { window.asked = performance.now(); window.waited = 0; }, true);
    new MutationObserver(() => { window.waited = performance.now() - window.asked; })
        .observe(document.querySelector("#hits"), { childList: true });
}"""


_IS_ANSWERED = """question =>
    new URLSearchParams(location.search).get("q") === question && window.waited > 0"""
"""Hits for the text before the last key do not count."""


def run() -> list[Row]:
    """Type questions, and measure from the last key to the hits."""
    root = data.workspace("k8s-en")
    with temporary_home("bench") as folder:
        with Memory() as memory:
            memory.index(root, embed=False)
        start._fill(folder, _MOST)
        os.environ["MEMWELL_EMBEDDING_CHAIN"] = "memwell"
        with Memory(workspace=root, settings=SERVER_SETTINGS) as memory:
            chunks = sum(note.chunks for note in memory.contents.notes())
            with serving(memory) as address, browsing() as browser:
                page = browser.new_page(base_url=address, bypass_csp=True)  # to wait for values
                page.goto("/")
                page.evaluate(_WATCH)
                waits, answered = [], []
                for question in (*_QUESTIONS, *_QUESTIONS):
                    if page.locator("#q").input_value():
                        page.locator("#q").fill("")
                        page.locator(".counts").wait_for()
                    page.locator("#q").press_sequentially(question, delay=_KEY_MS)
                    page.wait_for_function(_IS_ANSWERED, arg=question)
                    page.locator(".hits").wait_for()
                    waits.append(float(page.evaluate("window.waited")) / 1000)
                    shown = page.locator("#status").inner_text()
                    answered.append(int(shown.split()[-2]) / 1000)
    detail = {"chunks": chunks, "waits": waits, "searches": answered}
    waits.sort()
    name = f"hits after the last key, p95 ({chunks:,} passages)"
    return [
        Row(name, waits[int(len(waits) * 0.95)], "s", at_most(0.15), detail),
        Row("  median", median(waits), "s"),
        Row("  of these, the search itself, median", median(answered), "s"),
    ]
