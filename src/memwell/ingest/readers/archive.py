"""ZIP archives of XML files, as DOCX and EPUB are, read within limits."""

from __future__ import annotations

import io
import zipfile
import zlib
from xml.etree import ElementTree

from memwell.errors import UnreadableDocumentError

_MOST_BYTES = 200_000_000
"""Of all files of an archive together, unpacked: a bomb says less and has more."""


class Archive:
    """The files of an archive."""

    def __init__(self, data: bytes, kind: str) -> None:
        self._kind = kind
        self._left = _MOST_BYTES
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError):
            raise UnreadableDocumentError(f"it is encrypted, or not a valid {kind} file") from None
        self.names = set(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """Return a file, unpacked."""
        try:
            with self._zip.open(name) as file:
                data = file.read(self._left + 1)
        except KeyError:
            raise UnreadableDocumentError(
                f"it is not a valid {self._kind} file: {name} is missing"
            ) from None
        except (RuntimeError, NotImplementedError):
            raise UnreadableDocumentError("it is encrypted: save a copy without") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError):
            raise UnreadableDocumentError("it is damaged") from None
        self._left -= len(data)
        if self._left < 0:
            raise UnreadableDocumentError(f"it unpacks to more than {_MOST_BYTES // 10**6} MB")
        return data

    def read_xml(self, name: str) -> ElementTree.Element:
        """Return the root of an XML file. Declarations are refused: they can define entities."""
        data = self.read(name)
        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise UnreadableDocumentError(f"its {name} has a document type declaration")
        try:
            return ElementTree.fromstring(data)
        except (ElementTree.ParseError, ValueError, LookupError):
            raise UnreadableDocumentError(f"its {name} is not valid XML") from None


def local_name(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: ElementTree.Element | None, name: str) -> str:
    """Return an attribute by its name without a namespace; "" if there is none."""
    if element is None:
        return ""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""
