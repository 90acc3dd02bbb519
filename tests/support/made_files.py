"""Files of many formats, written by the programs and libraries that usually write them.

A file has five parts (pages, chapters, cells, messages, sections). Part `number` of the file `name`
contains the word `marker(name, number)`, which no other part has.
"""

from __future__ import annotations

import mailbox
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import nbformat
import pytest
from docx import Document
from reportlab.pdfgen.canvas import Canvas

PARTS = 5


def marker(name: str, number: int) -> str:
    """Return the word that only one part of one file has."""
    letters = "abcdefghij"
    return f"zebra{name}{letters[number]}"


def sentence(name: str, number: int) -> str:
    return f"The harbour keeps its {marker(name, number)} in the old lighthouse."


def markdown(name: str) -> str:
    """Return the text that pandoc and the line-based formats are made of."""
    parts = [f"# Manual {name}\n"]
    parts += [f"## Part {number}\n\n{sentence(name, number)}\n" for number in range(PARTS)]
    return "\n".join(parts)


def make_pdf(folder: Path, name: str) -> Path:
    file = folder / f"{name}.pdf"
    canvas = Canvas(str(file))
    canvas.setTitle(f"Manual {name}")
    for number in range(PARTS):
        canvas.drawString(72, 720, f"Part {number}")
        canvas.drawString(72, 700, sentence(name, number))
        canvas.showPage()
    canvas.save()
    return file


def make_docx(folder: Path, name: str) -> Path:
    file = folder / f"{name}.docx"
    document = Document()
    document.add_heading(f"Manual {name}", 1)
    for number in range(PARTS):
        document.add_heading(f"Part {number}", 2)
        document.add_paragraph(sentence(name, number))
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "mast", "oak"
    document.save(str(file))
    return file


def make_epub(folder: Path, name: str) -> Path:
    """Write the smallest book that readers accept: a container, a package and chapters."""
    file = folder / f"{name}.epub"
    items = "".join(f'<item id="c{n}" href="c{n}.xhtml"/>' for n in range(PARTS))
    order = "".join(f'<itemref idref="c{n}"/>' for n in range(PARTS))
    with zipfile.ZipFile(file, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/p.opf"/></rootfiles></container>',
        )
        book.writestr(
            "OEBPS/p.opf",
            '<package xmlns="http://www.idpf.org/2007/opf"><metadata>'
            '<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"Manual {name}</dc:title></metadata><manifest>{items}</manifest>"
            f"<spine>{order}</spine></package>",
        )
        for number in range(PARTS):
            body = f"<h1>Part {number}</h1><p>{sentence(name, number)}</p>"
            page = f'<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>'
            book.writestr(f"OEBPS/c{number}.xhtml", page)
    return file


def make_html(folder: Path, name: str) -> Path:
    parts = [
        f'<h2 id="part-{number}">Part {number}</h2>\n<p>{sentence(name, number)}</p>'
        for number in range(PARTS)
    ]
    page = "<html><head><title>Manual</title><script>var x;</script></head><body>{}</body></html>"
    return _write(folder / f"{name}.html", page.format("\n".join(parts)))


def make_org(folder: Path, name: str) -> Path:
    parts = [f"* Part {number}\n{sentence(name, number)}\n" for number in range(PARTS)]
    return _write(folder / f"{name}.org", f"#+TITLE: Manual {name}\n\n" + "\n".join(parts))


def make_rst(folder: Path, name: str) -> Path:
    title = f"Manual {name}"
    lines = ["=" * len(title), title, "=" * len(title), ""]
    for number in range(PARTS):
        lines += [f"Part {number}", "~" * 6, "", sentence(name, number), ""]
    return _write(folder / f"{name}.rst", "\n".join(lines))


def make_notebook(folder: Path, name: str) -> Path:
    v4 = nbformat.v4
    cells = [v4.new_markdown_cell(f"# Manual {name}")]
    for number in range(PARTS):
        source = f"# {sentence(name, number)}\nprint(1)"
        cells.append(v4.new_code_cell(source, outputs=[v4.new_output("stream", text="1\n")]))
    file = folder / f"{name}.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), str(file))
    return file


def make_mbox(folder: Path, name: str) -> Path:
    file = folder / f"{name}.mbox"
    box = mailbox.mbox(str(file))
    for number in range(PARTS):
        box.add(_message(name, number))
    box.close()
    return file


def make_eml(folder: Path, name: str) -> Path:
    file = folder / f"{name}.eml"
    file.write_bytes(_message(name, 0).as_bytes())
    return file


def make_code(folder: Path, name: str) -> Path:
    parts = [
        f'def part_{number}(ship: str) -> int:\n    """{sentence(name, number)}"""\n    return {number}\n\n'
        for number in range(PARTS)
    ]
    return _write(folder / f"{name}.py", "\n".join(parts))


def _message(name: str, number: int) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "ann@example.org", "bob@example.org"
    message["Subject"] = f"Part {number} – café"
    message["Date"] = "Mon, 03 Mar 2025 10:00:00 +0100"
    message.set_content(f"Hello,\n\n{sentence(name, number)}\nFrom here on, all is well.\n")
    message.add_alternative(f"<p>{sentence(name, number)}</p>", subtype="html")
    return message


def _write(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


MAKERS: dict[str, tuple[Callable[[Path, str], Path], Callable[[int], str | int]]] = {
    "pdf": (make_pdf, lambda number: f"page={number + 1}"),
    "docx": (make_docx, lambda number: f"paragraph={2 + 2 * number}"),
    "epub": (make_epub, lambda number: f"chapter={number + 1}"),
    "html": (make_html, lambda number: f"part-{number}"),
    "org": (make_org, lambda number: 3 + 3 * number),
    "rst": (make_rst, lambda number: 5 + 5 * number if number else 1),
    "notebook": (make_notebook, lambda number: f"cell={number + 2}"),
    "mail": (make_mbox, lambda number: f"message={number + 1}"),
    "code": (make_code, lambda number: 1 + 5 * number),
}
"""How a file of each format is made, and the position or the first line of each of its parts."""


def run_pandoc(source: Path, target: Path) -> Path:
    """Convert a file with pandoc; the test is skipped where it is not installed."""
    if not shutil.which("pandoc"):
        pytest.skip("pandoc is not installed")
    subprocess.run(["pandoc", "-s", str(source), "-o", str(target)], check=True)
    return target


def run_libreoffice(source: Path, suffix: str) -> Path:
    """Convert a file with LibreOffice; the test is skipped where it is not installed."""
    if not shutil.which("soffice"):
        pytest.skip("LibreOffice is not installed")
    subprocess.run(
        [
            "soffice",
            # Two programs with one profile exclude each other.
            f"-env:UserInstallation={(source.parent / '.profile').resolve().as_uri()}",
            "--headless",
            "--convert-to",
            suffix,
            "--outdir",
            str(source.parent),
            str(source),
        ],
        check=True,
        capture_output=True,
    )
    return source.with_suffix(f".{suffix}")
