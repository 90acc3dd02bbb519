"""PDF: a section for each page, under the bookmarks that lead to it. Needs pypdfium2."""

from __future__ import annotations

import re
from typing import Any

from memwell.errors import UnreadableDocumentError
from memwell.ingest.readers.document import Document, Section

_MOST_PAGES = 5_000
_MOST_BOOKMARKS = 10_000
_SOFT_HYPHEN = re.compile("[\ufffe\u0002\u00ad]\n?")
_NUL = str.maketrans({"\0": " ", "\r": None})


def read(data: bytes, name: str) -> Document:
    """Convert the pages of a file."""
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise UnreadableDocumentError(_reason(str(error))) from None
    if len(pdf) > _MOST_PAGES:
        raise UnreadableDocumentError(f"it has {len(pdf)} pages, more than {_MOST_PAGES}")
    headings = _headings(pdf)
    sections = []
    heading: tuple[str, ...] = ()
    for number in range(len(pdf)):
        heading = headings.get(number, heading)
        if text := _page_text(pdf, number):
            position = f"page={number + 1}"
            sections.append(Section(f"{text}\n", heading, position, is_plain=True))
    if not sections and len(pdf):
        raise UnreadableDocumentError("its pages hold pictures without text: run OCR on it first")
    return Document(tuple(sections), _title(pdf))


def _page_text(pdf: Any, number: int) -> str:
    import pypdfium2

    try:
        page = pdf[number]
        text = page.get_textpage().get_text_range().translate(_NUL)
        page.close()
    except pypdfium2.PdfiumError:
        return ""  # a damaged page: the others are read
    return _SOFT_HYPHEN.sub("", text).strip()


def _headings(pdf: Any) -> dict[int, tuple[str, ...]]:
    """Return the bookmarks that lead to each page, as a path from the outermost one."""
    found: dict[int, tuple[str, ...]] = {}
    path: list[str] = []
    for count, bookmark in enumerate(pdf.get_toc(max_depth=6)):
        if count >= _MOST_BOOKMARKS:
            break
        destination = bookmark.get_dest()
        title = " ".join(bookmark.get_title().split())
        path = [*path[: bookmark.level], title]
        page = destination.get_index() if destination else None
        if page is not None and title:
            found.setdefault(page, tuple(filter(None, path)))
    return found


def _title(pdf: Any) -> str:
    """Return the title in the metadata, unless a program put a file name or its own name there."""
    title = " ".join(str(pdf.get_metadata_value("Title") or "").split())
    is_poor = re.search(r"\.\w{2,4}$|^(?:untitled|microsoft word|anonymous)", title, re.I)
    return "" if is_poor else title


def _reason(message: str) -> str:
    if "password" in message.lower() or "security" in message.lower():
        return "it is encrypted: save a copy without a password"
    return "it is not a valid PDF file"
