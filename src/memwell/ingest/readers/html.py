"""HTML: headings, paragraphs, lists, tables and code as Markdown.

The position of a section is the id of its heading, which opens the place in a browser, otherwise
the line of the file.
"""

from __future__ import annotations

import codecs
import re
from html.parser import HTMLParser

from memwell.ingest.readers.document import Document, Outline, escape, to_table

_SKIPPED = frozenset({"script", "style", "template", "noscript", "svg", "nav", "head"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body center dd details dialog div dl dt fieldset"
        " figcaption figure footer form header hr html legend li main ol p pre section summary"
        " table tbody td tfoot th thead tr ul",
    )
)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w-]{2,30})", re.I)


def read(data: bytes, name: str) -> Document:
    """Convert a page."""
    return read_html(decode_html(data))


def read_html(text: str) -> Document:
    """Convert the text of a page."""
    page = _Page()
    page.feed(text)
    page.close()
    page.end_page()
    return page.outline.finish(" ".join("".join(page.title).split()))


def decode_html(data: bytes) -> str:
    """Return the text of a page in the encoding that it names, else UTF-8 or Windows-1252."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    named = _CHARSET.search(data[:4096])
    for encoding in (named[1].decode() if named else "utf-8", "utf-8", "cp1252"):
        try:
            return data.decode("utf-8-sig" if encoding.lower() == "utf-8" else encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return data.decode("utf-8", "replace")


class _Page(HTMLParser):
    """Collects the blocks of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.outline = Outline()
        self.title: list[str] = []
        self._in_title = False
        self._skipping: list[str] = []
        self._inline: list[str] = []
        self._heading = 0
        self._anchor = ""
        self._lists: list[int] = []
        """For each open list: the number of the next item; -1 if it is not numbered."""
        self._marker = ""
        self._pre = 0
        self._rows: list[list[str]] | None = None
        self._tables = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a block, or add an inline element to the open one."""
        if tag == "title":
            self._in_title = True
        if self._skips(tag):
            return
        values = dict(attrs)
        if tag == "br":
            self._inline.append("\n")
        elif tag == "img":
            self._inline.append(f" {values.get('alt') or ''} ")
        elif tag == "code" and not self._pre:
            self._inline.append("`")
        elif self._rows is not None and tag != "table":
            self._begin_in_table(tag)
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.end_block()
            self._anchor = values.get("id") or self._anchor
            self._begin_block(tag)

    def _skips(self, tag: str) -> bool:
        """Whether an element is, or is inside of, one that has nothing to read."""
        if self._skipping == ["head"] and tag == "body":
            self._skipping.clear()  # a head that is not closed
        elif self._skipping:
            if tag == self._skipping[-1]:
                self._skipping.append(tag)
            return True
        if tag in _SKIPPED:
            self._skipping.append(tag)
        return bool(self._skipping)

    def _begin_in_table(self, tag: str) -> None:
        rows = self._rows or []
        if tag in ("tr", "td", "th"):
            self._end_in_table("td", rows)  # the end of a cell need not be written
        if tag == "tr" and self._rows is not None:
            self._rows.append([])
        elif tag in ("td", "th") and rows:
            rows[-1].append("")
            self._inline.clear()
        else:
            self._inline.append(" ")

    def _begin_block(self, tag: str) -> None:
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag]
        elif tag in ("ul", "ol"):
            self._lists.append(1 if tag == "ol" else -1)
        elif tag == "li" and self._lists:
            number = self._lists[-1]
            indent = "  " * (len(self._lists) - 1)
            self._marker = f"{indent}{f'{number}.' if number > 0 else '-'} "
            self._lists[-1] += number > 0
        elif tag == "pre":
            self._pre += 1
        elif tag == "table":
            self._tables += 1
            self._rows = self._rows or []

    def handle_endtag(self, tag: str) -> None:
        """End a block, or an inline element."""
        if tag == "title":
            self._in_title = False
        if self._skipping:
            if tag == self._skipping[-1]:
                self._skipping.pop()
        elif tag == "code" and not self._pre:
            self._inline.append("`")
        elif self._rows is not None:
            self._end_in_table(tag, self._rows)
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.end_block()
            if tag == "pre":
                self._pre = max(0, self._pre - 1)
            elif tag in ("ul", "ol") and self._lists:
                self._lists.pop()

    def _end_in_table(self, tag: str, rows: list[list[str]]) -> None:
        if tag in ("td", "th") and rows and rows[-1]:
            rows[-1][-1] += "".join(self._inline)
            self._inline.clear()
        elif tag == "table":
            self._tables -= 1
            if self._tables <= 0:
                self._rows = None
                self._inline.clear()
                self.outline.add_block(to_table([row for row in rows if any(map(str.strip, row))]))

    def handle_data(self, data: str) -> None:
        """Add text to the open block."""
        if self._in_title:
            self.title.append(data)
        elif not self._skipping:
            self._inline.append(data)

    def end_page(self) -> None:
        """End what the page left open."""
        if self._rows is not None:
            self._tables = 1
            self.handle_endtag("td")
            self.handle_endtag("table")
        self.end_block()

    def end_block(self) -> None:
        """Add the text that was collected as a block."""
        text = "".join(self._inline)
        self._inline.clear()
        marker, self._marker = self._marker, ""
        heading, self._heading = self._heading, 0
        if self._pre and text.strip():
            body = text.strip("\n")
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
            self.outline.add_block(f"{fence}\n{body}\n{fence}")
            return
        lines = [" ".join(line.split()) for line in text.split("\n")]
        text = " ".join(filter(None, lines))
        if not text:
            self._marker = marker  # an item whose text is in a paragraph
            self._heading = heading
        elif heading:
            position = self._anchor or f"line={self.getpos()[0]}"
            self.outline.add_heading(heading, text, position)
            self._anchor = ""
        else:
            self.outline.add_block(f"{marker}{text if marker else escape(text)}")
