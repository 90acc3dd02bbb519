"""Broken, encrypted, huge and hostile files are named, and stop nothing."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from memwell import Memory
from memwell.errors import UnreadableDocumentError
from memwell.ingest.readers.convert import Converter
from memwell.ingest.readers.formats import format_named

pytestmark = pytest.mark.process

ENTITIES = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {new} "{f"&{old};" * 10}">'
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]><a>&i;</a>"
)
EXTERNAL = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'


def archive(**files: bytes | str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return data.getvalue()


BOMB_BYTES = 201_000_000


def bomb() -> bytes:
    """A document of 201 MB of spaces, in 200 kB."""
    data = io.BytesIO()
    with (
        zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made,
        made.open("word/document.xml", "w") as file,
    ):
        for _ in range(BOMB_BYTES // 1_000_000):
            file.write(b" " * 1_000_000)
    return data.getvalue()


def lying(data: bytes) -> bytes:
    """An archive whose directory says that its file has 10 bytes."""
    return data.replace(BOMB_BYTES.to_bytes(4, "little"), (10).to_bytes(4, "little"))


def looping_pdf() -> bytes:
    """A PDF whose tree of pages leads back to itself."""
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2147483647/Parent 2 0 R>>endobj\n"
        b"trailer<</Root 1 0 R/Prev 9>>\nstartxref\n9\n%%EOF"
    )


def encrypted_pdf(folder: Path) -> bytes:
    file = folder / "encrypted.pdf"
    canvas = Canvas(str(file), encrypt=StandardEncryption("secret"))
    canvas.drawString(72, 700, "nobody reads this")
    canvas.save()
    return file.read_bytes()


def encrypted_docx() -> bytes:
    """Word wraps an encrypted document in an OLE file, which is not an archive."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000)


def hostile_files(folder: Path) -> dict[str, bytes]:
    made_bomb = bomb()
    return {
        "broken.pdf": b"%PDF-1.7\n" + os.urandom(2000),
        "empty.pdf": b"",
        "loop.pdf": looping_pdf(),
        "encrypted.docx": encrypted_docx(),
        "broken.docx": archive(**{"word/document.xml": "<w:document"}),
        "other.docx": archive(**{"a.txt": "x"}),
        "entities.docx": archive(**{"word/document.xml": ENTITIES}),
        "external.docx": archive(**{"word/document.xml": EXTERNAL}),
        "bomb.docx": made_bomb,
        "lying.docx": lying(made_bomb),
        "encrypted.pdf": encrypted_pdf(folder),
        "broken.epub": archive(**{"META-INF/container.xml": "<container/>"}),
        "entities.epub": archive(**{"META-INF/container.xml": ENTITIES}),
        "broken.ipynb": b'{"cells": 3',
        "deep.ipynb": b"[" * 200_000,
        "binary.org": bytes(5000),
        "not-mail.eml": b"\x00\x01\x02",
    }


GOOD = b"* Tides\nThe spring tide is in March.\n"


def test_hostile_files_are_named_and_stop_nothing(workspace: Path, tmp_path: Path) -> None:
    hostile = hostile_files(tmp_path)
    for name, data in hostile.items():
        (workspace / name).write_bytes(data)
    (workspace / "zz-last.org").write_bytes(GOOD)
    with Memory() as memory:
        (report,) = memory.index(workspace)
        assert {problem.path for problem in report.problems} == {*hostile}
        assert all(problem.what.startswith("skipped, it") for problem in report.problems)
        reasons = {problem.path: problem.what for problem in report.problems}
        assert "encrypted" in reasons["encrypted.pdf"]
        assert "encrypted" in reasons["encrypted.docx"]
        assert "200 MB" in reasons["bomb.docx"]
        (hit,) = memory.search("spring tide").hits
        assert hit.path == "zz-last.org"
        (again,) = memory.index(workspace)
        assert again.unchanged == len(hostile) + 1
        assert not again.problems


def test_an_entity_that_names_a_file_is_not_read(workspace: Path) -> None:
    with Converter() as converter, pytest.raises(UnreadableDocumentError, match="declaration"):
        converter.convert(
            format_named("docx"), "a.docx", archive(**{"word/document.xml": EXTERNAL})
        )


def test_a_file_that_takes_too_long_ends_and_the_next_one_is_read() -> None:
    slow = json.dumps({"cells": [{"cell_type": "code", "source": "x"}] * 400_000}).encode()
    late = "takes longer than 0[.]2 s"
    with Converter(seconds=0.2) as converter, pytest.raises(UnreadableDocumentError, match=late):
        converter.convert(format_named("notebook"), "a.ipynb", slow)
    with Converter() as converter:
        document = converter.convert(format_named("org"), "a.org", GOOD)
    assert "spring tide" in document.text


def test_a_file_that_needs_too_much_memory_is_named() -> None:
    greedy = b'{"cells": [' + b",".join([b'{"source": []}'] * 1_000_000) + b"]}"
    with Converter(memory_bytes=120_000_000) as converter:
        with pytest.raises(UnreadableDocumentError, match="more than 120 MB of memory"):
            converter.convert(format_named("notebook"), "a.ipynb", greedy)
        document = converter.convert(format_named("org"), "a.org", GOOD)
    assert "spring tide" in document.text


def test_a_large_file_is_left_out_by_its_size(workspace: Path) -> None:
    (workspace / "large.pdf").write_bytes(bytes(2_000_000))
    with Memory(settings={"scan.max_document_mb": 1.0}) as memory:
        (report,) = memory.index(workspace)
    (problem,) = report.problems
    assert (problem.path, problem.remedy) == ("large.pdf", "raise scan.max_document_mb to index it")
