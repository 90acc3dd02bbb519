"""The result of a reader: sections of text, each with its headings and its place in the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

_LOOKS_LIKE_STRUCTURE = re.compile(r"^([ \t]*)(#{1,6}[ \t]|[=-]+[ \t]*$|```|~~~)", re.M)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document; a passage never goes beyond it."""

    text: str
    """Markdown, or plain text."""
    heading: tuple[str, ...] = ()
    """The headings above it that are not in `text`."""
    position: str = ""
    """Its place in the file, as a link names it: ``page=3``, ``cell=5``."""
    is_plain: bool = False
    """Whether `text` has no Markdown structure."""
    first_line: int = 0
    """The line of the file that `text` begins at; 0 if its lines are not those of the file."""


@dataclass(frozen=True, slots=True)
class Document:
    """A converted file."""

    sections: tuple[Section, ...]
    title: str = ""
    date: str | None = None
    tags: tuple[str, ...] = ()
    has_source_lines: bool = False
    """Whether line numbers are those of the file, not those of the converted text."""

    @property
    def text(self) -> str:
        """The converted text as a whole."""
        return "\n".join(section.text for section in self.sections)

    @property
    def first_lines(self) -> list[int]:
        """The number of the line at which each section begins."""
        if self.has_source_lines:
            return [section.first_line for section in self.sections]
        lengths = (section.text.count("\n") + 1 for section in self.sections)
        return [1 + before for before in accumulate(lengths, initial=0)][: len(self.sections)]


@dataclass(slots=True)
class Outline:
    """Builds a document block by block: a heading or another position begins a new section."""

    sections: list[Section] = field(default_factory=list)
    _blocks: list[str] = field(default_factory=list)
    _path: list[tuple[int, str]] = field(default_factory=list)
    _above: tuple[str, ...] = ()
    _position: str = ""
    _level: int = 0
    """The level of the first heading of the open section, while it has no text; else 0."""

    @property
    def has_position(self) -> bool:
        """Whether the open section, or one before it, has a position."""
        return bool(self._position)

    def add_heading(self, level: int, title: str, position: str = "") -> None:
        """Begin a section with a heading."""
        title = " ".join(title.split())
        if not title:
            return
        if not (self._level and level >= self._level):  # a heading without text joins the next one
            self.end_section()
        self._path = [above for above in self._path if above[0] < level]
        if not self._blocks:
            self._above = tuple(name for _, name in self._path)
            self._level = level
        self._path.append((level, title))
        self._position = position or self._position
        self._blocks.append(f"{'#' * min(level, 6)} {title}\n")

    def add_block(self, text: str, position: str = "") -> None:
        """Add a paragraph, a list or another block of Markdown."""
        if not text.strip():
            return
        if position and position != self._position:
            self.end_section()
            self._position = position
        if not self._blocks:
            self._above = tuple(name for _, name in self._path)
        self._level = 0
        if _ITEM.match(text) and self._blocks and _ITEM.match(self._blocks[-1]):
            self._blocks[-1] += text.rstrip() + "\n"
        else:
            self._blocks.append(text.rstrip() + "\n")

    def end_section(self) -> None:
        """End the section that is open."""
        if self._blocks:
            text = "\n".join(self._blocks)
            self.sections.append(Section(text, self._above, self._position))
            self._blocks, self._level = [], 0

    def finish(self, title: str = "", date: str | None = None) -> Document:
        """Return the document."""
        self.end_section()
        return Document(tuple(self.sections), title, date)


def escape(text: str) -> str:
    """Return plain text so that no line of it begins a heading or a code block of Markdown."""
    return _LOOKS_LIKE_STRUCTURE.sub(r"\1\\\2", text)


def to_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a Markdown table."""
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = []
    for number, row in enumerate(rows):
        cells = [" ".join(cell.split()).replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join([*cells, *[''] * (width - len(cells))])} |")
        if not number:
            lines.append(f"|{' --- |' * width}")
    return "\n".join(lines)
