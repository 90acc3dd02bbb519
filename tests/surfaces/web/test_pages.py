"""The page, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from time import process_time
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from memwell import Memory
from memwell.embed.testing import WordCounts
from memwell.model import LegScore, Trace
from memwell.store.contract.values import FactFilter
from memwell.surfaces.http.tokens import Tokens
from memwell.surfaces.web.map import find_regions, layout
from memwell.surfaces.web.render import TEMPLATES
from memwell.surfaces.web.views import score_bar, split_text
from tests.conftest import REPOSITORY
from tests.support.pages import opened, serving
from tests.surfaces.web.conftest import ATTACK, Open

STATIC = REPOSITORY / "src" / "memwell" / "surfaces" / "web" / "static"
VIEWS = (
    "/",
    "/?q=cat",
    "/notes",
    "/facts",
    "/timeline",
    "/map",
    "/map/regions",
    "/system",
    "/system/checks",
    "/spaces",
    "/evaluation",
)
# -- searching -------------------------------------------------------------------------------------


def test_hits_come_as_one_types_with_their_words_marked(open_page: Open) -> None:
    page = open_page("/")
    page.locator("#q").press_sequentially("vet")
    expect(page.locator("mark").first).to_have_text("vet")
    expect(page.get_by_role("status")).to_contain_text("hit")
    expect(page).to_have_url(re.compile(r"/\?q=vet&kind="))
    page.reload()
    expect(page.locator("mark").first).to_have_text("vet")


def test_the_latest_answer_wins(open_page: Open) -> None:
    page = open_page("/")
    held: list[Route] = []
    page.route("**/hits?q=boiler*", lambda route: held.append(route))
    with page.expect_request("**/hits?q=boiler*"):
        page.locator("#q").fill("boiler")
    page.locator("#q").fill("salmon")
    expect(page.locator("mark").first).to_have_text("salmon")
    for route in held:
        route.continue_()
    page.evaluate("fetch('/hits?q=vet').then((answer) => answer.text())")
    expect(page.locator("mark").first).to_have_text("salmon")


def test_a_hit_leads_to_its_passage(open_page: Open) -> None:
    page = open_page("/?q=vet+May")
    page.locator("a.hit").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pets")
    expect(page.locator(".chunk:target")).to_contain_text("The cat sees the vet in May.")


def test_only_facts_or_only_notes_can_be_asked_for(open_page: Open) -> None:
    page = open_page("/?q=cat")
    expect(page.locator("a.hit", has_text="Pets").first).to_be_visible()
    page.get_by_label("facts").check()
    expect(page.locator("a.hit")).to_have_text(["The cat is called Miso."])
    page.get_by_label("notes").check()
    expect(page.locator("a.hit", has_text="Tuesday")).to_be_visible()
    expect(page.locator("a.hit", has_text="Miso")).to_have_count(0)


def test_a_score_is_explained_in_words_and_drawn(open_page: Open) -> None:
    page = open_page("/?q=salmon")
    page.get_by_label("Why this score?").first.click()
    expect(page.locator(".explained").first).to_contain_text("Keyword search found it at rank 1")
    expect(page.locator(".explained").first).to_contain_text("The score is")
    expect(page.get_by_role("img", name=re.compile(r"Score .*words .*meaning"))).not_to_have_count(
        0
    )


def test_a_missing_note_is_explained(open_page: Open) -> None:
    page = open_page("/?q=salmon")
    page.get_by_text("Is a note missing?").click()
    page.get_by_label("Path of the note").fill("nowhere.md")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".verdict")).to_contain_text("Not indexed")


def test_what_a_bar_shows_adds_up_to_the_relevance() -> None:
    parts = (
        LegScore("words", 1, 3.0, 2.0, 0.25, 0.25 * 2.0),
        LegScore("meaning", 2, 0.4, 2.0, 0.75, 0.75 * 2.0),
    )
    trace = Trace(parts, 2.0, 3.0, 0.5, 0.8, 0.1, kept=0.75, kept_why="9 days old", score=0.6)
    widths = {part.name: part.width for part in score_bar(trace)}
    assert widths == {
        "words": pytest.approx(100 * 0.6 * 0.25),
        "meaning": pytest.approx(100 * 0.6 * 0.75),
        "age": pytest.approx(100 * (0.8 - 0.6)),
    }
    explained = TEMPLATES.get_template("_score.html").module.sentences(trace)  # type: ignore[attr-defined]
    assert "<li>75% of the sum is left: 9 days old.</li>" in explained
    in_time = replace(trace, kept=1.0, kept_why="2026-02-10 is in 2026", gain=2.3)
    explained = TEMPLATES.get_template("_score.html").module.sentences(in_time)  # type: ignore[attr-defined]
    assert "<li>Its logit rises by 2.30: 2026-02-10 is in 2026.</li>" in explained


def test_a_text_is_cut_at_its_marks() -> None:
    assert split_text("a cat!", [(2, 5)]) == [("a ", False), ("cat", True), ("!", False)]


# -- browsing --------------------------------------------------------------------------------------


def test_the_timeline_shows_notes_and_facts_by_day(open_page: Open) -> None:
    page = open_page("/timeline?year=2026")
    day = page.locator(".day", has_text="2026-02-10")
    expect(day).to_contain_text("The cat is ill.")  # its title is only a date
    expect(page.get_by_role("group", name="Entries per day in 2026")).to_be_visible()
    page.locator(".heat a[href='#d2026-02-10']").click()
    expect(page).to_have_url(re.compile("#d2026-02-10$"))
    page = open_page("/timeline")
    expect(page.locator(".day").first).to_contain_text("The cat is called Miso.")
    page.get_by_role("link", name="no date").click()
    expect(page.locator(".day")).to_contain_text("Boiler")


def test_the_filling_of_spaces_is_seen_as_it_happens(
    open_page: Open, memory: Memory, address: str, tmp_path: Path
) -> None:
    page = open_page("/spaces", address)
    (space,) = memory.spaces()
    expect(page.locator(".space")).to_contain_text(f"{space.chunks} of {space.chunks} passages")
    (tmp_path / "notes" / "late.md").write_text("# Late\n\nIt came later.\n", encoding="utf-8")
    more = space.chunks + 1
    expect(page.locator(".space")).to_contain_text(f"{more} of {more} passages")


def test_the_evaluation_is_shown_once_there_is_one(
    open_page: Open, memory: Memory, address: str
) -> None:
    page = open_page("/evaluation", address)
    expect(page.locator("main")).to_contain_text("There is no report yet")
    (memory.home / "evaluation.html").write_text("<h1>Evaluation of cases</h1>", encoding="utf-8")
    page.reload()
    page.get_by_role("link", name="Open the report").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Evaluation of cases")


# -- facts -----------------------------------------------------------------------------------------


def test_a_fact_is_remembered_corrected_superseded_promoted_and_forgotten(
    open_page: Open, memory: Memory, address: str
) -> None:
    page = open_page("/facts#add", address)
    page.get_by_label("The fact, in one sentence").fill("The heron nests by the canal.")
    page.get_by_label("Tags").fill("Birds, canal")
    page.get_by_role("button", name="Remember", exact=True).click()
    expect(page.locator(".statement")).to_have_text("The heron nests by the canal.")
    expect(page.get_by_role("link", name="#birds")).to_be_visible()

    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Text").fill("The heron nests by the lake.")
    page.get_by_label("Importance").fill("0.9")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".history")).to_contain_text("edited text, importance")

    page.get_by_text("Promote", exact=True).click()
    page.get_by_role("button", name="Promote this fact").click()
    expect(page.locator(".history")).to_contain_text("promoted")

    page.get_by_text("Supersede", exact=True).click()
    page.get_by_label("What is true now").fill("The heron has moved to the river.")
    page.get_by_role("button", name="Supersede this fact").click()
    expect(page.locator(".statement")).to_have_text("The heron has moved to the river.")
    expect(page.locator(".history")).to_contain_text("superseded")
    expect(page.locator(".versions del")).to_have_text(["nests by", "lake."])
    expect(page.locator(".versions ins")).to_have_text(["has moved to", "river."])
    (fact,) = memory.facts.find(FactFilter(tag="birds"))
    assert fact.text == "The heron has moved to the river."
    assert fact.scope == memory.viewer.scopes[-2][0]  # one wider than the narrowest

    page.get_by_role("link", name="Forget this fact").click()
    expect(page.locator("main")).to_contain_text("This cannot be undone")
    assert memory.facts.find(FactFilter(tag="birds"))
    page.get_by_role("button", name="Forget this fact").click()
    expect(page.get_by_role("status")).to_have_text("1 fact forgotten.")
    assert not memory.facts.find(FactFilter(tag="birds"))


def test_facts_are_filtered(open_page: Open, memory: Memory, address: str) -> None:
    memory.remember("The gate is painted green.", category="decision", tags=("garden",))
    page = open_page("/facts?tag=garden", address)
    expect(page.locator(".statement")).to_have_text("The gate is painted green.")
    page.get_by_label("Tag", exact=True).fill("")
    page.get_by_role("form", name="Filter").get_by_label("Category").select_option("rule")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".facts")).to_have_text("There are no such facts.")


def test_a_fact_that_is_refused_is_answered_with_the_reason(open_page: Open) -> None:
    page = open_page("/facts#add")
    page.get_by_label("The fact, in one sentence").fill("thanks!")
    with page.expect_response("**/facts") as answer:
        page.get_by_role("button", name="Remember", exact=True).click()
    assert answer.value.status == 400
    expect(page.get_by_role("alert")).to_contain_text("Not remembered")


def read(url: str) -> bytes:
    with urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def post(url: str, headers: dict[str, str] | None = None, **fields: str) -> int:
    request = Request(url, urlencode(fields).encode(), headers or {})
    try:
        with urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_form_without_the_token_of_the_page_changes_nothing(
    address: str, memory: Memory, token: str
) -> None:
    fact = memory.remember("The bridge is closed on Sundays.").fact
    assert post(f"{address}/facts/{fact.id}/forget", token=token) == 400
    assert post(f"{address}/facts/{fact.id}/edit", token=token, text="changed") == 400
    assert memory.facts.get(fact.id).text == fact.text


def test_a_form_of_another_site_changes_nothing(
    address: str, memory: Memory, open_page: Open
) -> None:
    fact = memory.remember("The ferry leaves at noon.").fact
    token = open_page("/facts", address).locator("[name=token]").first.input_value()
    elsewhere = {"Origin": "http://elsewhere.example"}
    assert post(f"{address}/facts/{fact.id}/forget", elsewhere, token=token) == 403
    assert memory.facts.get(fact.id) == fact
    assert post(f"{address}/facts/{fact.id}/forget", token=token) == 200


def test_errors_are_shown_on_a_page(shared_address: str) -> None:
    for path in ("/facts/nothing", "/note?path=nothing.md", "/static/nothing", "/note"):
        with pytest.raises(HTTPError) as refused, urlopen(shared_address + path, timeout=60):
            pass
        with refused.value as answer:
            assert answer.code in (400, 404)
            assert b'role="alert"' in answer.read()


def test_facts_of_others_are_on_no_view(address: str, memory: Memory) -> None:
    with opened(memory.home, user="ben") as other:
        other.remember("Ben hides a walrus.", scope="user")
        assert other.search("walrus").hits
        other.fill()
    memory.search("walrus")
    for path in ("/facts", "/timeline", "/map/points", "/map/regions", "/?q=walrus&kind=fact"):
        assert b"Ben hides" not in read(address + path), path


# -- the map ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """5,000 passages with vectors as long as those of the default model."""
    folder, lots = tmp_path_factory.mktemp("large"), Random(0)
    (folder / "notes").mkdir()
    for number in range(500):
        words = [f"topic{number % 40}word{one}" for one in range(30)]
        parts = [f"## Part {part}\n\n{' '.join(lots.choices(words, k=40))}" for part in range(10)]
        file = folder / "notes" / f"{number}.md"
        file.write_text("\n\n".join([f"# Note {number}", *parts]), encoding="utf-8")
    wide = {"wide": lambda: WordCounts(dimensions=384)}
    with opened(folder / "home", chain="wide", embedders=wide) as memory:
        memory.index(folder / "notes")
        yield memory


def test_a_map_of_5000_passages_is_drawn_and_the_same_each_time(
    large: Memory, open_page: Open
) -> None:
    with serving(large) as address:
        page = open_page("/map", address)
        expect(page.locator("#map[data-drawn]")).to_be_visible(timeout=120_000)
        expect(page.get_by_role("status")).to_contain_text("5000 passages")
        first = read(f"{address}/map/points")
        find_regions.cache_clear()
        assert read(f"{address}/map/points") == first


def test_the_time_for_a_map_grows_with_the_square_of_its_points() -> None:
    def seconds(points: int) -> float:
        vectors = np.random.default_rng(0).standard_normal((points, 64), dtype=np.float32)
        start = process_time()
        layout(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
        return process_time() - start

    seconds(100)  # loads what is loaded once
    assert seconds(4000) < 3 * 4**2 * seconds(1000)  # the cube would be 64 times as long


def test_the_map_is_walked_with_the_mouse(open_page: Open) -> None:
    page = open_page("/")
    with page.expect_response("**/map/points") as answer:
        page.goto("/map")
    points = answer.value.json()["points"]
    x, y, _, title, link, folder, date = next(one for one in points if one[3] == "Boiler")
    assert (folder, date) == (".", "")
    expect(page.get_by_role("heading", name="Regions")).to_be_visible()
    box = page.locator("#map").bounding_box()
    assert box
    place = (
        box["x"] + 1 + 30 + x * (box["width"] - 2 - 60),
        box["y"] + 1 + 30 + y * (box["height"] - 2 - 60),
    )
    page.mouse.move(*place)
    expect(page.get_by_role("tooltip")).to_have_text(title)
    page.mouse.wheel(0, -300)
    expect(page.get_by_role("tooltip")).to_be_hidden()  # until the mouse points at it again
    page.mouse.move(place[0] + 1, place[1])
    expect(page.get_by_role("tooltip")).to_have_text(title)
    page.mouse.down()
    inwards = (place[0] + (60 if x < 0.5 else -60), place[1] + (20 if y < 0.5 else -20))
    page.mouse.move(*inwards, steps=3)
    page.mouse.up()
    expect(page).to_have_url(re.compile("/map$"))
    page.mouse.click(*inwards)
    expect(page).to_have_url(re.compile(re.escape(link)))


def test_the_map_can_be_read_as_a_list(open_page: Open) -> None:
    page = open_page("/map")
    expect(page.get_by_role("heading", name="Regions")).to_be_visible()
    page.locator("#regions summary").first.click()
    page.locator("#regions details a").first.click()
    expect(page).to_have_url(re.compile("/(note|facts)"))


# -- accessibility ---------------------------------------------------------------------------------


def test_all_can_be_done_with_the_keyboard(open_page: Open) -> None:
    page = open_page("/timeline")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    field = page.get_by_role("searchbox")
    expect(field).to_be_focused()
    page.keyboard.type("cat /")
    hits = page.locator("a.hit")
    expect(hits.nth(1)).to_be_visible()
    expect(field).to_have_value("cat /")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(hits.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(hits.nth(0)).to_be_focused()
    expect(hits.nth(0)).to_have_css("outline-style", "solid")
    page.keyboard.press("Escape")
    expect(field).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/(note|facts)"))


def test_hits_that_arrive_late_do_not_take_the_focus_away(open_page: Open) -> None:
    page = open_page("/")
    field, hits = page.get_by_role("searchbox"), page.locator("a.hit")
    field.press_sequentially("cat")
    expect(hits.first).to_be_visible()
    late: list[Route] = []
    page.route("**/hits?*", lambda route: late.append(route))
    with page.expect_request("**/hits?*"):
        field.press_sequentially(" /")
    page.keyboard.press("ArrowDown")
    expect(hits.first).to_be_focused()
    with page.expect_response("**/hits?*"):
        late[0].continue_()
    expect(page).to_have_url(re.compile(r"q=cat\+%2F"))
    expect(hits.first).to_be_focused()


def test_light_and_dark_follow_the_system_until_one_chooses(open_page: Open) -> None:
    def background(page: Page) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = open_page("/"), open_page("/", color_scheme="dark")
    assert background(light) != background(dark)
    night = background(dark)
    light.get_by_role("button", name="Dark").click()
    assert background(light) == night
    light.goto("/facts")
    assert background(light) == night
    light.get_by_role("button", name="Light").click()
    assert background(light) != night


def test_without_script_a_search_answers_and_a_fact_is_forgotten(
    open_page: Open, memory: Memory, address: str
) -> None:
    fact = memory.remember("The lantern hangs by the door.").fact
    page = open_page("/", address, java_script_enabled=False)
    page.get_by_role("searchbox").fill("lantern")
    page.get_by_role("button", name="Search").click()
    page.locator("a.hit").first.click()
    expect(page.locator(".statement")).to_have_text(fact.text)
    page.get_by_role("link", name="Forget this fact").click()
    page.get_by_role("button", name="Forget this fact").click()
    expect(page.get_by_role("status")).to_have_text("1 fact forgotten.")
    page.goto("/map")
    page.get_by_role("link", name="The map as a list").click()
    expect(page.get_by_role("heading", name="Regions", exact=True)).to_be_visible()


def test_nothing_of_a_note_a_fact_or_a_query_is_run(
    open_page: Open, memory: Memory, address: str
) -> None:
    fact = memory.remember(
        f"zebra {ATTACK}",
        category="</select><script>window.harm = 5</script>",
        tags=('"><script>window.harm=6</script>',),
        origin="javascript:window.harm = 7",
    ).fact
    page = open_page("/", address)
    page.get_by_role("searchbox").fill(f"zebra {ATTACK}")
    expect(
        page.locator(".passage", has_text="<script>window.harm = 1</script>").first
    ).to_be_visible()
    paths = [
        "/note?path=attack.md",
        f"/facts/{fact.id}",
        f"/facts/{fact.id}/forget",
        f"/facts?{urlencode({'tag': ATTACK})}",
    ]
    query = urlencode({"q": ATTACK, "path": f"{ATTACK}.md", "kind": "note"})
    for path in (*paths, f"/?{query}", f"/why?{query}", *VIEWS):
        answer = page.goto(path)
        assert answer
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert page.evaluate("window.harm") is None, path
        links = page.locator("a:not(svg a)").evaluate_all(
            "(links) => links.map((link) => link.protocol)"
        )
        assert {*links} <= {"http:", ":", "vscode:", "obsidian:"}, path
        assert page.locator("main script, main img, [onerror], [onload], [style]").count() == 0


def test_a_phone_shows_each_view_without_scrolling_sideways(open_page: Open) -> None:
    page = open_page("/", viewport={"width": 360, "height": 740})
    for view in (*VIEWS, "/?q=zebra", "/note?path=long.md", "/why?q=cat&path=pets.md"):
        page.goto(view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


def test_each_view_can_be_read_aloud(open_page: Open, shared_memory: Memory) -> None:
    """Landmarks are there, headings are in order, every field has a name."""
    fact = shared_memory.facts.find(FactFilter(tag="pets"))[0]
    page = open_page("/")
    for address in (*VIEWS, "/note?path=pets.md", f"/facts/{fact.id}", f"/facts/{fact.id}/forget"):
        page.goto(address)
        expect(page.get_by_role("banner")).to_have_count(1)
        expect(page.get_by_role("main")).to_have_count(1)
        levels = page.locator("h1, h2, h3").evaluate_all(
            "(all) => all.map((one) => +one.tagName[1])"
        )
        assert levels[0] == 1, address
        assert levels.count(1) == 1, address
        assert all(after - before <= 1 for before, after in pairwise(levels))
        nameless = (
            "(all) => all.filter((one) => one.type !== 'hidden' && !one.labels.length"
            " && !one.ariaLabel).length"
        )
        assert page.locator("input, select, textarea").evaluate_all(nameless) == 0, address
        assert page.title().endswith("memwell")


@pytest.mark.parametrize("theme", [0, 1])
def test_letters_stand_out_from_what_they_are_on(theme: int) -> None:
    """Contrast is at least 4.5 to 1 (AA), in light and in dark."""
    style = (STATIC / "memwell.css").read_text(encoding="utf-8")
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    colours = {name: pair[theme] for name, *pair in found}
    grounds = [colours[name] for name in ("paper", "card", "rail")]
    for name in ("ink", "quiet", "accent", "danger"):
        for ground in grounds[: 2 if name in ("accent", "danger") else 3]:
            assert contrast(colours[name], ground) >= 4.5, (name, ground)
    assert contrast(colours["ink"], colours["mark"]) >= 4.5
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    assert contrast(colours["paper"], colours["danger"]) >= 4.5


def contrast(one: str, other: str) -> float:
    """The ratio of two colours' luminances, as WCAG defines it."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_browser_gives_its_token_once(open_page: Open, home: Path) -> None:
    with opened(home) as memory:
        memory.remember("The chest is in the cellar.", scope="global")
        token = Tokens(memory.home).add("laptop", user="anna")
        with serving(memory) as address:
            page = open_page("/facts", at=address)
            expect(page).to_have_url(re.compile("/login$"))
            assert "cellar" not in page.content()
            page.get_by_label("Token").fill(token)
            page.get_by_label("Token").press("Enter")
            page.get_by_role("link", name="Facts", exact=True).click()
            expect(page.locator("body")).to_contain_text("The chest is in the cellar.")
            page.goto("/map")
            expect(page).to_have_url(re.compile("/map$"))
            page.close()  # before its server: the map still asks for its points


def test_the_evaluation_report_keeps_its_styles(
    open_page: Open, memory: Memory, address: str
) -> None:
    report = memory.home / "evaluation.html"
    report.write_text("<!doctype html><title>R</title><style>p { color: rgb(1, 2, 3) }</style><p>r")
    page = open_page("/evaluation/report", address)
    expect(page.locator("p")).to_have_css("color", "rgb(1, 2, 3)")
