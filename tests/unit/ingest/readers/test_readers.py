"""What each reader makes of the structure of a file."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from memwell import Memory
from memwell.ingest.readers import code, docx, formats, html, mail, notebook, org
from memwell.ingest.readers.document import Document, Outline, Section, escape

PAGE = """<html><head><title>Sails</title><style>p {}</style></head><body>
<nav><a href="/">home</a></nav>
<h1>Sails</h1><p>Two <b>jibs</b> and<br>one <code>main</code>.</p>
<ul><li>jib<ul><li><p>storm jib</p></li></ul></li><li>main</li></ul>
<ol><li>hoist</li><li>trim</li></ol>
<h2 id="sizes">Sizes</h2>
<table><tr><th>sail</th><th>size</th></tr><tr><td>jib | fore</td><td>12</td></tr></table>
<pre># not a heading
x = 1</pre><p># neither is this</p></body></html>"""


def test_a_page_keeps_headings_lists_tables_and_code() -> None:
    document = html.read(PAGE.encode(), "a.html")
    assert document.title == "Sails"
    first, second = document.sections
    assert first.position == "line=3"
    assert first.text == (
        "# Sails\n\nTwo jibs and one `main`.\n\n- jib\n  - storm jib\n- main\n1. hoist\n2. trim\n"
    )
    assert (second.heading, second.position) == (("Sails",), "sizes")
    assert second.text == (
        "## Sizes\n\n| sail | size |\n| --- | --- |\n| jib \\| fore | 12 |\n\n"
        "```\n# not a heading\nx = 1\n```\n\n\\# neither is this\n"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16", "koi8-r"])
def test_a_page_is_decoded_as_it_says(encoding: str) -> None:
    text = "Пирс" if encoding == "koi8-r" else "Café"
    data = f'<meta charset="{encoding}"><p>{text}</p>'.encode(encoding)
    assert html.read(data, "a.html").text == f"{text}\n"


@pytest.mark.parametrize(
    "text", ["<p>a", "<table><tr><td>a<tr><td>b", "<li>a</ul>", "</p></table>a", "<pre>a"]
)
def test_a_page_that_is_not_valid_keeps_its_text(text: str) -> None:
    assert "a" in html.read(f"<html><head><body>{text}".encode(), "a.html").text


ORG = """#+TITLE: Log of the Tern
#+DATE: <2026-03-01 Sun>
#+FILETAGS: :boat:
* TODO Engine :repair:
:PROPERTIES:
:ID: 12
:END:
Change the [[https://example.org][oil]].
#+BEGIN_SRC sh
* not a heading
#+END_SRC
# a comment
** Filter
"""


def test_org_keeps_the_number_of_each_line() -> None:
    document = org.read(ORG.encode(), "a.org")
    (section,) = document.sections
    lines = section.text.split("\n")
    assert len(lines) == ORG.count("\n") + 1
    assert (lines[3], lines[7], lines[12]) == ("# Engine", "Change the oil.", "## Filter")
    assert lines[4:7] == ["", "", ""]
    assert lines[8:11] == ["```sh", "* not a heading", "```"]
    assert (document.title, document.date) == ("Log of the Tern", "2026-03-01")
    assert document.tags == ("boat", "repair")


def test_a_notebook_of_version_3_has_its_headings_and_outputs() -> None:
    old = (
        b'{"worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Tides"},'
        b'{"cell_type": "code", "input": ["1 +", " 1"], "outputs": [{"text": "2"}]}]}]}'
    )
    heading, cell = notebook.read(old, "a.ipynb").sections
    assert heading.text == "## Tides\n"
    assert (cell.position, cell.heading) == ("cell=2", ("Tides",))
    assert cell.text == "```\n1 + 1\n```\n\n```\n2\n```\n"


def test_a_heading_of_a_cell_stands_above_the_cells_below() -> None:
    cells = (
        b'{"cells": [{"cell_type": "markdown", "source": "# Tides\\nText."},'
        b'{"cell_type": "code", "source": "x", "outputs": []}]}'
    )
    assert notebook.read(cells, "a.ipynb").sections[1].heading == ("Tides",)


def test_a_message_names_its_attachments_and_prefers_plain_text() -> None:
    message = (
        b"Subject: Plan\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
        b"Content-Type: text/html\r\n\r\n<p>Sail at <b>nine</b>.</p>\r\n--b\r\n"
        b"Content-Type: application/pdf\r\nContent-Disposition: attachment; filename=chart.pdf\r\n"
        b"\r\nx\r\n--b--\r\n"
    )
    text = mail.read(message, "a.eml").text
    assert "Attached: chart.pdf" in text
    assert "Sail at nine." in text


PYTHON = '''"""The module."""

LIMIT = 3  # not a line of its own


@cached
def tide(
    port: str,
) -> int:
    """Return the tide."""
    # Springs come first.
    value = LIMIT

    def inner():
        # deep
        return value

    return inner()


class Boat:
    """A boat."""

    def sail(self): return 1
'''


def test_python_gives_signatures_docstrings_and_comments_by_symbol() -> None:
    document = code.read(PYTHON.encode(), "boat.py")
    found = {section.heading: section for section in document.sections}
    assert [*found] == [(), ("tide",), ("tide.inner",), ("Boat",), ("Boat.sail",)]
    tide = found["tide",]
    assert tide.first_line == 6
    assert tide.text.split("\n")[:6] == [
        *("@cached", "def tide(", "    port: str,", ") -> int:"),
        *('    """Return the tide."""', "    # Springs come first."),
    ]
    assert "LIMIT" not in "".join(section.text for section in document.sections)
    assert "# deep" in found["tide.inner",].text
    assert (
        found["Boat.sail",].first_line
        == PYTHON.split("\n").index("    def sail(self): return 1") + 1
    )


TYPESCRIPT = """import x from "y";

/** Keeps boats. */
export class Harbour {
  // How many fit.
  private size = 3;

  /** Moors a boat. */
  async moor(boat: Boat): Promise<void> {
    return;
  }
}

// Counts the tides.
export const count = async (port: string) => 12;
export function ebb(port: string): number {
  return 1;
}
"""


def test_other_languages_give_declarations_with_the_comments_above_them() -> None:
    document = code.read(TYPESCRIPT.encode(), "harbour.ts")
    found = {section.heading: section for section in document.sections}
    assert found["Harbour",].text.startswith("/** Keeps boats. */\nexport class Harbour {")
    assert found["count",].text.startswith("// Counts the tides.\nexport const count")
    assert found["ebb",].first_line == 17 - 1
    assert not any("return" in section.text for section in document.sections)


def test_python_that_cannot_be_parsed_is_read_like_other_languages() -> None:
    document = code.read(b"# Ports.\ndef tide(port):\n    print port\n", "old.py")
    assert [section.heading for section in document.sections] == [("tide",)]


def test_a_page_of_word_is_counted_where_the_file_says_so() -> None:
    runs = (
        "<w:p><w:r><w:t>first</w:t></w:r></w:p>"
        "<w:p><w:r><w:lastRenderedPageBreak/><w:t>second</w:t></w:r></w:p>"
        "<w:p><w:r><w:t>also second </w:t><w:lastRenderedPageBreak/><w:t>and third</w:t></w:r></w:p>"
        "<w:p><w:r><w:t>third</w:t></w:r></w:p>"
    )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        made.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="w"><w:body>{runs}</w:body></w:document>',
        )
    sections = docx.read(data.getvalue(), "a.docx").sections
    assert [(one.position, one.text) for one in sections] == [
        ("page=1", "first\n"),
        ("page=2", "second\n\nalso second and third\n"),
        ("page=3", "third\n"),
    ]


def test_lines_of_a_document_count_over_its_sections() -> None:
    document = Document((Section("a\nb\n"), Section("c\n"), Section("d")))
    assert document.first_lines == [1, 4, 6]
    lines = document.text.split("\n")
    assert [lines[first - 1] for first in document.first_lines] == ["a", "c", "d"]


def test_a_heading_without_text_joins_the_next_one() -> None:
    outline = Outline()
    outline.add_heading(1, "Boat")
    outline.add_heading(2, "Engine")
    outline.add_block("Oil.")
    outline.add_heading(1, "Crew")
    outline.add_block("Two.")
    first, second = outline.finish().sections
    assert (first.heading, first.text) == ((), "# Boat\n\n## Engine\n\nOil.\n")
    assert (second.heading, second.text) == ((), "# Crew\n\nTwo.\n")


def test_plain_text_cannot_become_a_heading() -> None:
    assert escape("# a\n---\n```") == "\\# a\n\\---\n\\```"


# -- other packages --------------------------------------------------------------------------------


@pytest.mark.process
def test_a_package_offers_a_reader_by_an_entry_point(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is installed for real: a folder with metadata on the path of the process."""
    site = tmp_path / "site"
    info = site / "sheets-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sheets\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[memwell.readers]\nsheet = sheets:read\n")
    (site / "sheets.py").write_text(
        "from memwell.ingest.readers.document import Document, Section\n"
        "def read(data, name):\n"
        "    return Document((Section(data.decode()[::-1], position='sheet=1'),))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    (workspace / "a.sheet").write_text("edit gnirps")
    with Memory(settings={"scan.formats": ("sheet",)}) as memory:
        memory.index(workspace)
        (hit,) = memory.search("spring").hits
    assert (hit.text, hit.position) == ("spring tide", "sheet=1")


def test_a_format_that_nobody_offers_is_named() -> None:
    with pytest.raises(Exception, match="nonsense is not a file format that memwell reads"):
        formats.format_named("nonsense").load()
