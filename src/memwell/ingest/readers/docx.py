"""DOCX: headings, paragraphs, lists, tables and footnotes.

The position is the page, if the program that wrote the file recorded where pages begin, otherwise
the number of the paragraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from memwell.ingest.readers.archive import Archive, attribute, local_name
from memwell.ingest.readers.document import Document, Outline, escape, to_table

_MOST_LEVELS = 6


def read(data: bytes, name: str) -> Document:
    """Convert the body of a document."""
    archive = Archive(data, "DOCX")
    root = archive.read_xml("word/document.xml")
    body = next((child for child in root if local_name(child) == "body"), root)
    text = _Body(_heading_levels(archive), _has_pages(body))
    text.read(body)
    if "word/footnotes.xml" in archive.names:
        for note in archive.read_xml("word/footnotes.xml"):
            text.outline.add_block(escape(_text(note).strip()))
    return text.outline.finish(_title(archive))


class _Body:
    """Reads the paragraphs and tables in their order, and counts paragraphs and pages."""

    def __init__(self, levels: dict[str, int], has_pages: bool) -> None:
        self.outline = Outline()
        self._levels = levels
        self._has_pages = has_pages
        self._page = self._paragraph = 1

    def read(self, parent: Element) -> None:
        waiting = [iter(parent)]
        while waiting:
            child = next(waiting[-1], None)
            if child is None:
                waiting.pop()
                continue
            match local_name(child):
                case "p":
                    self._read_paragraph(child)
                case "tbl":
                    self.outline.add_block(to_table(_rows(child)), self._page_position)
                    self._count(child)
                case "sdt" | "sdtContent" | "ins" | "customXml" | "smartTag":
                    waiting.append(iter(child))

    @property
    def _position(self) -> str:
        return f"page={self._page}" if self._has_pages else f"paragraph={self._paragraph}"

    def _count(self, element: Element) -> None:
        self._page += sum(local_name(one) == "lastRenderedPageBreak" for one in element.iter())
        self._paragraph += sum(local_name(one) == "p" for one in element.iter())

    def _read_paragraph(self, paragraph: Element) -> None:
        text = _text(paragraph)
        starts_page = _starts_page(paragraph)
        self._page += starts_page
        properties = _child(paragraph, "pPr")
        level = self._level(properties)
        numbering = _child(properties, "numPr")
        if level:
            self.outline.add_heading(level, text, self._position)
        elif numbering is not None:
            depth = attribute(_child(numbering, "ilvl"), "val")
            indent = "  " * (int(depth) if depth.isdigit() else 0)
            self.outline.add_block(f"{indent}- {' '.join(text.split())}", self._page_position)
        else:
            self.outline.add_block(escape(text.strip()), self._page_position)
        self._page -= starts_page
        self._count(paragraph)

    @property
    def _page_position(self) -> str:
        """Paragraphs of one page form a section; without pages, those of one heading do."""
        return self._position if self._has_pages or not self.outline.has_position else ""

    def _level(self, properties: Element | None) -> int:
        outline = attribute(_child(properties, "outlineLvl"), "val")
        if outline.isdigit() and int(outline) < _MOST_LEVELS:
            return int(outline) + 1
        return self._levels.get(attribute(_child(properties, "pStyle"), "val"), 0)


def _text(element: Element) -> str:
    parts: list[str] = []
    for one in element.iter():
        match local_name(one):
            case "t":
                parts.append(one.text or "")
            case "tab":
                parts.append("\t")
            case "br" | "cr":
                parts.append("\n")
            case "noBreakHyphen":
                parts.append("-")
    return "".join(parts)


def _starts_page(paragraph: Element) -> bool:
    """Whether a page begins before the first text of a paragraph."""
    for one in paragraph.iter():
        if local_name(one) == "lastRenderedPageBreak":
            return True
        if local_name(one) == "t" and one.text:
            return False
    return False


def _rows(table: Element) -> list[list[str]]:
    return [
        [_text(cell) for cell in row if local_name(cell) == "tc"]
        for row in table
        if local_name(row) == "tr"
    ]


def _has_pages(body: Element) -> bool:
    return any(local_name(one) == "lastRenderedPageBreak" for one in body.iter())


def _child(element: Element | None, name: str) -> Element | None:
    return next(
        (one for one in (() if element is None else element) if local_name(one) == name), None
    )


def _heading_levels(archive: Archive) -> dict[str, int]:
    """Return the heading level of each style that is a heading, or is based on one."""
    if "word/styles.xml" not in archive.names:
        return {}
    levels: dict[str, int] = {}
    based_on: dict[str, str] = {}
    for style in archive.read_xml("word/styles.xml"):
        key = attribute(style, "styleId")
        based_on[key] = attribute(_child(style, "basedOn"), "val")
        name = attribute(_child(style, "name"), "val").lower()
        outline = attribute(_child(_child(style, "pPr"), "outlineLvl"), "val")
        if name.startswith("heading ") and name[8:].isdigit():
            levels[key] = min(int(name[8:]), _MOST_LEVELS)
        elif name == "title":
            levels[key] = 1
        elif outline.isdigit() and int(outline) < _MOST_LEVELS:
            levels[key] = int(outline) + 1
    for key in based_on:
        for ancestor in _ancestors(key, based_on):
            if ancestor in levels:
                levels.setdefault(key, levels[ancestor])
    return levels


def _ancestors(key: str, based_on: dict[str, str]) -> Iterator[str]:
    seen = {key}
    while (key := based_on.get(key, "")) and key not in seen:
        seen.add(key)
        yield key


def _title(archive: Archive) -> str:
    if "docProps/core.xml" not in archive.names:
        return ""
    title = _child(archive.read_xml("docProps/core.xml"), "title")
    return " ".join(((title.text if title is not None else "") or "").split())
