"""EPUB: the chapters in reading order; the position is the number of the chapter."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from memwell.errors import UnreadableDocumentError
from memwell.ingest.readers.archive import Archive, attribute, local_name
from memwell.ingest.readers.document import Document, Section
from memwell.ingest.readers.html import decode_html, read_html


def read(data: bytes, name: str) -> Document:
    """Convert the chapters of a book."""
    archive = Archive(data, "EPUB")
    container = archive.read_xml("META-INF/container.xml")
    package_path = next(
        (attribute(one, "full-path") for one in container.iter() if local_name(one) == "rootfile"),
        "",
    )
    package = archive.read_xml(package_path)
    sections: list[Section] = []
    for number, path in enumerate(_chapters(package, posixpath.dirname(package_path)), 1):
        if path in archive.names:
            chapter = read_html(decode_html(archive.read(path)))
            position = f"chapter={number}"
            sections += [replace(section, position=position) for section in chapter.sections]
    if not sections:
        raise UnreadableDocumentError("it is protected, or none of its chapters has text")
    return Document(tuple(sections), _find_text(package, "title"))


def _chapters(package: Element, folder: str) -> list[str]:
    """Return the paths of the chapters, in reading order."""
    files = {
        attribute(one, "id"): posixpath.normpath(
            posixpath.join(folder, unquote(attribute(one, "href")))
        )
        for one in package.iter()
        if local_name(one) == "item"
    }
    order = [attribute(one, "idref") for one in package.iter() if local_name(one) == "itemref"]
    return [files[key] for key in order if key in files]


def _find_text(package: Element, name: str) -> str:
    found = next((one.text for one in package.iter() if local_name(one) == name and one.text), "")
    return " ".join((found or "").split())
