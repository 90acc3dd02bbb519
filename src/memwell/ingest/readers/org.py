"""Org: each line becomes the same line in Markdown, so that line numbers are those of the file."""

from __future__ import annotations

import re

from memwell.ingest.parse_note import decode
from memwell.ingest.readers.document import Document, Section

_HEADING = re.compile(
    r"(\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAITING|HOLD|CANCELLED)\b[ \t]*)?(?:\[#\w\][ \t]*)?"
    r"(.*?)[ \t]*(?::([\w@#%:]+):)?[ \t]*$"
)
_KEYWORD = re.compile(r"#\+(\w+):[ \t]*(.*)$", re.I)
_BEGIN = re.compile(r"[ \t]*#\+BEGIN_(\w+)[ \t]*([\w+-]*)", re.I)
_END = re.compile(r"[ \t]*#\+END_(\w+)", re.I)
_DRAWER = re.compile(r"[ \t]*:[\w-]+:[ \t]*$")
_LINK = re.compile(r"\[\[([^\]\[]+)\](?:\[([^\]\[]+)\])?\]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_VERBATIM = frozenset({"src", "example"})


def read(data: bytes, name: str) -> Document:
    """Convert a file."""
    text, _ = decode(data)
    note = _Note()
    lines = [note.convert(line.rstrip("\r")) for line in text.split("\n")]
    section = Section("\n".join(lines), first_line=1)
    return Document(
        (section,), note.title, note.date, tuple(dict.fromkeys(note.tags)), has_source_lines=True
    )


class _Note:
    """The state between the lines: the block or drawer that is open, and what keywords say."""

    def __init__(self) -> None:
        self.title = ""
        self.date: str | None = None
        self.tags: list[str] = []
        self._verbatim = ""
        self._in_drawer = False

    def convert(self, line: str) -> str:
        if self._verbatim:
            end = _END.match(line)
            if end and end[1].lower() == self._verbatim:
                self._verbatim = ""
                return "```"
            return line
        if self._in_drawer:
            self._in_drawer = line.strip().upper() != ":END:"
            return ""
        return self._convert_text(line)

    def _convert_text(self, line: str) -> str:
        if begin := _BEGIN.match(line):
            if begin[1].lower() not in _VERBATIM:
                return ""
            self._verbatim = begin[1].lower()
            return f"```{begin[2]}"
        if _END.match(line) or line.startswith("# "):
            return ""
        if keyword := _KEYWORD.match(line):
            return self._read_keyword(keyword[1].lower(), keyword[2].strip())
        if heading := _HEADING.match(line):
            if heading[3]:
                self.tags += filter(None, heading[3].split(":"))
            return f"{'#' * min(len(heading[1]), 6)} {_LINK.sub(_link_text, heading[2])}"
        if _DRAWER.match(line):
            self._in_drawer = True
            return ""
        if line.lstrip().startswith("|-"):
            return line.replace("+", "|")
        return _LINK.sub(_link_text, line)

    def _read_keyword(self, name: str, value: str) -> str:
        if name == "title":
            self.title = f"{self.title} {value}".strip()
        elif name == "date" and (found := _DATE.search(value)):
            self.date = found[0]
        elif name == "filetags":
            self.tags += filter(None, re.split(r"[:\s]+", value))
        return value if name in ("title", "subtitle", "description", "author") else ""


def _link_text(link: re.Match[str]) -> str:
    return link[2] or link[1]
