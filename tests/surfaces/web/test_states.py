"""Every state of the page on desktop and phone, in light and dark: accessible and without jumps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from memwell import Memory
from memwell.surfaces.web.languages import LANGUAGES, Translator, choose_language, read_catalogue
from tests.conftest import EXAMPLES
from tests.support.pages import opened, serving
from tests.support.screenshots import tell
from tests.support.translations import find_texts
from tests.surfaces.web.conftest import Open

pytestmark = pytest.mark.browser

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
QUESTION = "/?q=when+is+the+standup"
STATES = (
    "/",
    QUESTION,
    "/?q=qqqqqq+xyzzy&kind=note",
    "/?q=path:memory+standup",
    "/why?q=standup&path=reference/regex-cheatsheet.md",
    "/notes",
    "/notes?filter=garden",
    "/note?path=runbooks/nginx-502.md",
    "/note?path=languages/zh-tea.md",
    "/note/related?path=MEMORY.md",
    "/facts",
    "/facts?tag=staging",
    "/timeline?year=2026",
    "/map?q=garden",
    "/map/regions",
    "/system",
    "/system/checks",
    "/spaces",
    "/evaluation",
    "/nowhere",
)
LOADED = {"/note": "#related h2", "/map": "#regions h2"}
"""Parts that the script loads later."""


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """The example notes with a few facts."""
    with opened(tmp_path_factory.mktemp("states")) as memory:
        tell(memory)
        memory.index(EXAMPLES)
        memory.search("standup")
        memory.fill()
        yield memory


@pytest.fixture(scope="module")
def examples_address(examples: Memory) -> Iterator[str]:
    with serving(examples) as address:
        yield address


def complaints(page: Page) -> list[str]:
    """Return the violations that axe-core finds."""
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found]


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        (PHONE, "dark"),
        pytest.param(DESKTOP, "light", marks=pytest.mark.slow),
        pytest.param(DESKTOP, "dark", marks=pytest.mark.slow),
        pytest.param(PHONE, "light", marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing_to_complain_about(
    open_page: Open, examples_address: str, size: dict[str, int], scheme: str
) -> None:
    page = open_page("/", examples_address, viewport=size, color_scheme=scheme)
    wrong = {}
    for state in STATES:
        page.goto(state)
        if loaded := LOADED.get(state.partition("?")[0]):
            page.locator(loaded).first.wait_for()
        if state == "/system":
            page.get_by_text("Run the checks").click()
            page.locator(".checks").first.wait_for()
            page.get_by_text("All settings", exact=True).click()
        for details in page.locator("main details:not([open]) > summary").all()[:3]:
            details.click()
        wrong[state] = complaints(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], state
    assert {state: found for state, found in wrong.items() if found} == {}


def test_a_screen_has_five_hits_and_a_phone_begins_with_them(
    open_page: Open, examples_address: str
) -> None:
    page = open_page(QUESTION, examples_address, viewport=DESKTOP)
    bottoms = page.locator(".hits > li").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().bottom)"
    )
    assert len([bottom for bottom in bottoms if bottom <= DESKTOP["height"]]) >= 5
    page = open_page(QUESTION, examples_address, viewport=PHONE)
    first = page.locator(".hits > li").first.bounding_box()
    assert first
    assert first["y"] < PHONE["height"] / 3
    links = page.locator("header nav a").evaluate_all("(all) => all.map((one) => one.offsetTop)")
    assert len({*links}) == 1  # one row


def test_nothing_jumps_while_hits_arrive(open_page: Open, examples_address: str) -> None:
    page = open_page("/", examples_address, viewport=DESKTOP)
    places = "() => [...document.querySelectorAll('header, #search, #hits')].map((one) => one.getBoundingClientRect().top)"
    before = page.evaluate(places)
    page.evaluate(
        "() => { window.shift = 0; new PerformanceObserver((list) => list.getEntries().forEach("
        "(one) => { if (!one.hadRecentInput) window.shift += one.value; }))"
        ".observe({ type: 'layout-shift', buffered: true }); }"
    )
    for word in ("standup", "when is the standup", "when is the standup path:memory", "xyzzyx"):
        page.locator("#q").fill(word)
        expect(page.locator("#status")).to_contain_text("ms")
        assert page.evaluate(places) == before
    page.goto("/note?path=runbooks/nginx-502.md")
    page.locator("#related h2").first.wait_for()
    assert page.evaluate("window.shift ?? 0") == 0


def test_filters_are_chips_and_more_hits_are_a_click_away(
    open_page: Open, examples_address: str
) -> None:
    page = open_page("/?q=the+standup+moved", examples_address)
    page.get_by_role("link", name="path:memory/").click()
    expect(page.locator("#q")).to_have_value("the standup moved path:memory/")
    assert page.locator(".hits .place").all_inner_texts()
    for place in page.locator(".hits .place").all_inner_texts():
        assert place.startswith("memory/")
    page.get_by_role("link", name="path:memory/").click()
    expect(page.locator("#q")).to_have_value("the standup moved")
    page.goto("/?q=a+note+about+things+and+people&k=5")
    expect(page.locator(".hits > li")).to_have_count(5)
    page.get_by_role("link", name="More hits").click()
    expect(page.locator(".hits > li")).to_have_count(10)


def test_the_first_view_shows_the_memory(open_page: Open, examples_address: str) -> None:
    page = open_page("/", examples_address)
    expect(page.locator(".counts")).to_contain_text(
        re.compile(r"90 notes · \d+ passages · 3 facts")
    )
    expect(page.locator("#hits")).to_contain_text("The port of staging is 5433.")
    expect(
        page.get_by_role("link", name="Seed order, Saturday 7 February 2026").first
    ).to_be_visible()
    page.locator("#hits .chip").first.click()
    expect(page.locator("a.hit").first).to_be_visible()


def test_the_map_highlights_hits_and_colours_folders(
    open_page: Open, examples_address: str
) -> None:
    page = open_page("/map", examples_address)
    expect(page.locator("#map[data-drawn]")).to_be_visible()
    page.get_by_label("Highlight the hits of a query").fill("tomatoes")
    expect(page.get_by_role("status")).to_have_text(
        re.compile(r"[1-9]\d* passages are highlighted")
    )
    page.get_by_label("Colour").select_option("folder")
    expect(page.locator("#colours")).to_contain_text("garden")
    page.get_by_label("Colour").select_option("date")
    expect(page.locator("#colours")).to_contain_text("2026-02-10")
    page.get_by_label("Highlight the hits of a query").fill("")
    expect(page.get_by_role("status")).to_contain_text("regions")


# -- languages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "en"])
def test_every_text_is_translated_with_the_same_values(language: str) -> None:
    catalogue = read_catalogue(language)
    assert catalogue.keys() == find_texts()
    for text, other in catalogue.items():
        for pattern in (r"\{\w+\}", r"</?\w+>"):
            assert sorted(re.findall(pattern, text)) == sorted(re.findall(pattern, other)), text


def test_a_translation_escapes_its_values() -> None:
    text = Translator("de")("Why {path}", path="<script>")
    assert str(text) == "Warum &lt;script&gt;"


def test_the_browser_chooses_the_language_until_one_chooses() -> None:
    assert choose_language({}, "fr-FR, de;q=0.7, en;q=0.3") == "de"
    assert choose_language({}, "zh-CN,zh;q=0.9,en;q=0.8") == "zh"
    assert choose_language({}, "fr;q=x") == "en"
    assert choose_language({"language": "en"}, "de") == "en"
    assert choose_language({"language": "xx"}, "") == "en"


def test_the_page_speaks_three_languages(open_page: Open, examples_address: str) -> None:
    page = open_page("/", examples_address, locale="de-DE")
    expect(page.get_by_role("button", name="Suche")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "de")
    page.goto("/timeline?year=2026")
    page.get_by_role("link", name="中文").click()
    expect(page).to_have_url(re.compile(r"/timeline\?year=2026$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("时间线")
    page.goto("/language?to=en&back=//elsewhere.example")
    expect(page).to_have_url(f"{examples_address}/")


# -- errors ----------------------------------------------------------------------------------------


def test_an_unknown_address_is_a_page_for_browsers_and_json_for_programs(
    open_page: Open, examples_address: str
) -> None:
    page = open_page("/", examples_address)
    answer = page.goto("/nowhere")
    assert answer
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    program = page.request.get("/nowhere", headers={"Accept": "application/json"})
    assert program.status == 404
    assert "error" in json.loads(program.body())


def test_a_mistake_of_the_server_is_a_page_without_details(
    open_page: Open, memory: Memory, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("memwell.surfaces.web.pages.describe_home", fail)
    page = open_page("/facts", address)
    answer = page.goto("/")
    assert answer
    assert answer.status == 500
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    expect(page.get_by_role("alert")).to_have_text("The server made a mistake.")
    assert "secret detail" not in page.content()


def test_a_damaged_memory_is_a_page_that_names_no_file(open_page: Open, tmp_path: Path) -> None:
    with opened(tmp_path / "home") as memory:
        memory.remember("The gate is green.")
        with serving(memory) as address:
            page = open_page("/facts", address)
            memory.close()
            (tmp_path / "home" / "memory.db").write_bytes(b"not a database" * 1000)
            answer = page.goto("/facts")
            assert answer
            assert answer.status == 503
            assert "memory.db" not in page.content()
            page.close()
