"""Notes on the page: rendered Markdown, links, images, the tree, and nothing harmful in them."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from memwell import Memory
from memwell.ingest.chunk import chunk
from memwell.surfaces.web.code_colours import colour_code
from memwell.surfaces.web.fact_pages import compare_words
from memwell.surfaces.web.markdown import MOST_CHARACTERS, render_note
from memwell.surfaces.web.region_names import name_regions
from memwell.surfaces.web.timeline import heat_map
from tests.support.pages import opened, serving
from tests.surfaces.web.conftest import Open

HOSTILE = """# Trap

<script>window.harm = 1</script>
<img src=x onerror="window.harm = 2"> <img src="data:image/svg+xml,<svg onload='window.harm=3'/>">
<svg onload="window.harm = 4"><script>window.harm = 5</script></svg>
<math><mtext></mtext><style><img src=x onerror="window.harm = 6"></style></math>
<iframe srcdoc="<script>parent.harm = 7</script>"></iframe>
<a href="javascript:window.harm = 8">one</a> [two](javascript:window.harm=9)
[three](data:text/html,<script>window.harm=10</script>) [four](vbscript:x)
<a href="JaVa&#10;script:window.harm=11">five</a> <b style="position:fixed" onclick="x()">bold</b>
<form action="/facts" method="post"><input name="text"><button>Remember</button></form>
<base href="http://elsewhere.example/"> <meta http-equiv="refresh" content="0;url=/x">
<link rel="stylesheet" href="http://elsewhere.example/x.css"> <object data="x"></object>
</section></article></main></div><p id="main" class="skip">outside</p>
<details ontoggle="window.harm=12" open>x</details>

![out](https://elsewhere.example/pixel.png) <b onmouseover="window.harm=16">inline</b>

<noscript><p title="</noscript><img src=x onerror=window.harm=13>">x</p></noscript>

```html"><script>window.harm = 14</script>
</code></pre><script>window.harm = 15</script>
```
"""


def dot(colour: bytes) -> bytes:
    """Return a picture of one pixel."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0" + colour)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, Path]]:
    """Notes that link to each other, with images, code and a trap."""
    folder = tmp_path_factory.mktemp("vault")
    files = {
        "garden/beds.md": (
            "---\ntags: [plan]\n---\n# Beds\n\nSee [[roses]], [the shed](../shed.md#L3) and [[Nothing]].\n\n"
            "- [ ] dig\n- [x] sow\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n![plot](plot.png)"
            " ![[plan.png]] ![gone](gone.png)\n\n```python\ndef water(bed):  # daily\n"
            "    return 'done'\n```\n"
        ),
        "garden/roses.md": "# Roses\n\nThey stand in [the beds](beds.md).\n",
        "shed.md": "# Shed\n\nThe spade of [[garden/beds|the garden]] hangs here.\n",
        "trap.md": HOSTILE,
        "deep.md": "# Deep\n\n" + ">" * 3000 + " x\n\n" + "<div>" * 3000 + "\n\n" + "[" * 3000,
    }
    for name, text in files.items():
        file = folder / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (folder / "notes" / "garden" / "plot.png").write_bytes(dot(b"\xff\0\0"))
    (folder / "notes" / "attachments").mkdir()
    (folder / "notes" / "attachments" / "plan.png").write_bytes(dot(b"\0\xff\0"))
    (folder / "notes" / ".hidden.png").write_bytes(dot(b"\0\0\0"))
    (folder / "secret.png").write_bytes(dot(b"\0\0\0"))
    with opened(folder / "home") as memory:
        memory.index(folder / "notes")
        yield memory, folder / "notes"


@pytest.fixture(scope="module")
def vault_address(vault: tuple[Memory, Path]) -> Iterator[str]:
    with serving(vault[0]) as address:
        yield address


# -- rendering -------------------------------------------------------------------------------------


@pytest.mark.browser
def test_a_note_is_rendered_with_live_links_and_images(open_page: Open, vault_address: str) -> None:
    page = open_page("/note?path=garden/beds.md", vault_address)
    expect(page.get_by_role("heading", level=1)).to_have_text("Beds")
    expect(page.locator(".markdown .task")).to_have_text(["☐ dig", "☑ sow"])
    expect(page.locator(".markdown td.right")).to_have_text("2")
    expect(page.locator(".markdown .keyword")).to_have_text(["def", "return"])
    expect(page.locator(".markdown .comment")).to_have_text("# daily")
    images = page.locator(".markdown img")
    expect(images).to_have_count(2)  # the third file does not exist
    widths = images.evaluate_all("(all) => all.map((one) => one.naturalWidth)")
    assert widths == [1, 1]
    assert page.locator(".markdown a:not([href])").all_inner_texts() == ["Nothing"]
    expect(page.locator("#related")).to_contain_text("Shed")  # it links here
    expect(page.locator("#related")).to_contain_text("Roses")
    page.get_by_role("link", name="roses").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Roses")
    page.goto("/note?path=garden/beds.md")
    page.get_by_role("link", name="the shed").click()
    expect(page).to_have_url(re.compile(r"/note\?path=shed\.md.*#L3$"))


@pytest.mark.browser
def test_a_citation_is_copied_and_an_editor_opened(
    open_page: Open, vault_address: str, vault: tuple[Memory, Path]
) -> None:
    page = open_page(
        "/note?path=shed.md", vault_address, permissions=["clipboard-read", "clipboard-write"]
    )
    page.get_by_role("link", name="1–3").click()
    expect(page.get_by_role("link", name="Copied")).to_be_visible()
    citation = page.evaluate("navigator.clipboard.readText()")
    assert vault[0].get(citation).text.startswith("# Shed")
    file = vault[1] / "shed.md"
    link = page.get_by_role("link", name="Open in VS Code")
    expect(link).to_have_attribute("href", f"vscode://file{file}")
    expect(page.get_by_role("link", name="Open in Obsidian")).to_be_visible()


@pytest.mark.browser
def test_a_hostile_note_does_nothing(open_page: Open, vault_address: str) -> None:
    page = open_page("/note?path=trap.md", vault_address)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.harm") is None
    assert page.url == f"{vault_address}/note?path=trap.md"
    allowed = "a, b, p, h2, em, code, pre, div, section, span, details, article, summary, noscript"
    inside = page.locator("article *").evaluate_all(
        "(all, allowed) => all.filter((one) => !one.matches(allowed)).map((one) => one.outerHTML)",
        allowed,
    )
    assert inside == []
    names = page.locator(".markdown *").evaluate_all(
        "(all) => [...new Set(all.flatMap((one) => one.getAttributeNames()))]"
    )
    assert {*names} <= {"href", "rel", "open", "id", "class", "tabindex"}
    links = page.locator(".markdown a[href]").evaluate_all("(all) => all.map((one) => one.href)")
    assert links == ["https://elsewhere.example/pixel.png"]
    assert page.locator("article").get_by_text("outside").count() == 1  # the note cannot leave it
    page.goto("/note?path=deep.md")
    expect(page.get_by_role("heading", level=1)).to_have_text("Deep")


def test_ids_and_classes_of_a_note_are_not_those_of_the_page() -> None:
    text = '<p id="main" class="skip comment">x</p>\n\n<p id="L9">y</p>\n'
    (section,) = render_note(text, chunk(text), "", str, str)
    assert section.html == '<p class="comment">x</p>\n<p id="L9">y</p>\n'


def test_headings_stay_in_order_below_the_title() -> None:
    text = "# Title\n\n### a\n\n##### b\n\n### c\n\n# d\n"
    html = "".join(section.html for section in render_note(text, chunk(text), "Title", str, str))
    assert re.findall(r"<h(\d)>(\w)", html) == [("2", "a"), ("3", "b"), ("2", "c"), ("2", "d")]


def test_a_passage_that_begins_inside_a_list_has_its_anchor() -> None:
    items = "".join(f"- item {number} {'word ' * 30}\n" for number in range(40))
    chunks = chunk(f"# List\n\n{items}")
    sections = render_note(f"# List\n\n{items}", chunks, "List", str, str)
    html = "".join(f'<i id="L{section.start_line}">{section.html}' for section in sections)
    assert len(chunks) > 1
    for part in chunks:
        assert f'id="L{part.start_line}"' in html


def test_a_very_long_note_is_plain_text() -> None:
    text = "*a* <b>\n" * (MOST_CHARACTERS // 8 + 1)
    html = render_note(text, chunk(text), "", str, str)[0].html
    assert html.startswith('<div class="text">*a* &lt;b&gt;')


@pytest.mark.parametrize(
    ("code", "language", "expected"),
    [
        ("x = '<b>'  # y", "python", ("string", "&#x27;&lt;b&gt;&#x27;")),
        ("select 1 -- y", "sql", ("keyword", "select")),
        ("cat /dev/null", "bash", None),
        ("if x", "nolanguage", None),
    ],
)
def test_code_is_coloured(code: str, language: str, expected: tuple[str, str] | None) -> None:
    html = colour_code(code, language)
    found = re.findall(r'<span class="(\w+)">(.*?)</span>', html)
    assert (expected in found) if expected else not found
    assert "<b>" not in html


# -- images ----------------------------------------------------------------------------------------


def test_only_images_of_the_workspace_are_sent(
    open_page: Open, vault_address: str, vault: tuple[Memory, Path]
) -> None:
    root = vault[1]
    (root / "drawing.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><script>window.harm = 1</script></svg>'
    )
    page = open_page("/notes", vault_address)

    def status(path: str, workspace: str = str(root)) -> int:
        query = urlencode({"path": path, "workspace": workspace})
        return page.request.get(f"/note/image?{query}").status

    assert status("garden/plot.png") == 200
    for path in ("../secret.png", ".hidden.png", "shed.md", "garden/none.png", str(root) + "x"):
        assert status(path) == 404, path
    assert status("secret.png", str(root.parent)) == 404
    drawing = urlencode({"path": "drawing.svg", "workspace": str(root)})
    answer = page.request.get(f"/note/image?{drawing}")
    assert answer.headers["content-security-policy"].endswith("sandbox")
    assert answer.headers["x-content-type-options"] == "nosniff"


# -- the tree, and adding a note -------------------------------------------------------------------


@pytest.mark.browser
def test_the_tree_is_filtered_while_typing(open_page: Open, vault_address: str) -> None:
    page = open_page("/notes", vault_address)
    folder = page.locator(".folder .folder", has_text="garden")
    expect(folder.get_by_text("Roses", exact=True)).to_be_hidden()
    page.locator("#filter").press_sequentially("rose")
    expect(folder.get_by_text("Roses", exact=True)).to_be_visible()
    expect(page.get_by_text("Shed", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Filter").click()  # as without the script
    expect(page.locator("main .plain li")).to_have_count(1)


@pytest.mark.browser
def test_a_note_is_added_to_the_log(open_page: Open, memory: Memory, address: str) -> None:
    page = open_page("/notes#add", address)
    page.get_by_label("The text is appended to today's log").fill("The kettle is broken.")
    page.get_by_role("button", name="Add the note").click()
    expect(page.locator("article")).to_contain_text("The kettle is broken.")
    assert memory.search("kettle").hits[0].text.endswith("The kettle is broken.\n")


# -- regions, days, differences --------------------------------------------------------------------


def test_a_region_is_named_by_words_that_others_lack() -> None:
    names = name_regions(
        [
            ["the tomato plants need water", "tomato seeds and plants"],
            ["the database needs a backup", "restore the backup of the database"],
            ["会议改到三点", "会议在七楼"],
        ],
        ["A", "B", "C"],
    )
    assert "tomato" in names[0]
    assert {*names[1].split(" · ")} == {"backup", "database"}
    assert names[2].startswith("会议")
    assert name_regions([["the of and"]], ["Title"]) == ["Title"]


def test_a_year_has_all_its_days_in_columns_of_weeks() -> None:
    days = heat_map(2026, ["2026-01-01", "2026-12-31", "2026-12-31", ""])
    assert len(days) == 365
    first, last = days[0], days[-1]
    assert (first.week, first.weekday, first.count, first.shade) == (0, 3, 1, 1)  # a Thursday
    assert (last.week, last.weekday, last.count, last.shade) == (52, 3, 2, 2)


def test_the_words_that_changed_are_found() -> None:
    changes = [*compare_words("The port is 5432 now", "The port is 5433")]
    assert changes == [("same", "The port is"), ("removed", "5432 now"), ("added", "5433")]
