"""Markdown as a sequence of blocks: just enough of its structure to cut it well.

One pass over the lines, without a syntax tree: a full parser spends most of its time inside
paragraphs, and no cut depends on that (docs/decisions/0003-chunking.md has figures).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """The kind of a block."""

    HEADING = "heading"
    FENCE = "fence"
    TABLE = "table"
    ITEM = "item"
    PARAGRAPH = "paragraph"


@dataclass(slots=True)
class Block:
    """Lines `first` up to `end` (exclusive, from 0), including the blank lines after them."""

    kind: Kind
    first: int
    end: int
    level: int = 0
    title: str = ""


FENCED_BLOCK = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)", re.S | re.M)
"""A fenced block in a whole text; without a closing fence it goes to the end."""

# No two neighbours in a pattern may match the same characters: a line that does not match would be
# tried in all the ways to divide it, which takes quadratic time, and exponential time in a loop.
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]|\r?\n?$)")
_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)*(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"( *)(?:[-*+]|\d{1,9}[.)])(?:[ \t]|\r?\n|$)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})\r?\n?$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*\r?\n?$")
_RST_UNDERLINE = re.compile(r"([=\-~^\"'*+#`:.])\1{2,}[ \t]*\r?\n?$")
_TABLE_RULE = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*(?:(?::-*|-+):?[ \t]*)?)*\r?\n?$")
_MAX_UNDERLINED = 200
_INTERESTING = re.compile(r"[ \t>]*(?:[#`~|*+\-=_]|\d{1,9}[.)])")


def blocks(lines: Sequence[str], *, rst: bool = False) -> list[Block]:
    """Return the blocks of `lines` (each with its line end); every line is in one block."""
    return _Scanner(lines, rst).run()


@dataclass(slots=True)
class _Scanner:
    """One pass over the lines, with the block that is open."""

    lines: Sequence[str]
    rst: bool
    found: list[Block] = field(default_factory=list)
    open: Block | None = None
    opened_at: int = 0
    after_blank: bool = False
    rst_styles: list[tuple[str, bool]] = field(default_factory=list)

    def run(self) -> list[Block]:
        number, total = 0, len(self.lines)
        interesting = _INTERESTING.match
        while number < total:
            line = self.lines[number]
            if line.isspace():
                self.after_blank = True
                number += 1
                continue
            after = None
            if interesting(line) or "|" in line or self.rst:
                after = self._read_structure(number, line)
            if after is None and (self.after_blank or not self._continues()):
                self._read_text(number, line)
            self.after_blank = False
            number = after or number + 1
        if self.open:
            self.open.end = total
        return self.found

    def _read_structure(self, number: int, line: str) -> int | None:
        if self.rst and self._apply_underline(number, line):
            return number + 1  # before fences, because in rst ~~~ underlines a heading
        if fence := _FENCE.match(line):
            return self._read_fence(number, fence.group(1))
        if heading := _ATX.match(line):
            title = _atx_title(line[heading.end(1) :])
            self._begin(Kind.HEADING, number, len(heading.group(1)), title)
            return number + 1
        if self._apply_underline(number, line):
            return number + 1
        if not _RULE.match(line) and (item := _ITEM.match(line)):
            return self._read_item(number, item)
        if "|" in line and number + 1 < len(self.lines) and self._table_starts(number):
            self._begin(Kind.TABLE, number)
            return number + 2
        return None

    def _begin(self, kind: Kind, number: int, level: int = 0, title: str = "") -> None:
        if self.open:
            self.open.end = number
        self.open = Block(kind, number if self.found else 0, number + 1, level, title)
        self.opened_at = number
        self.found.append(self.open)

    def _continues(self) -> bool:
        """Whether a line of text directly below the open block belongs to it."""
        kind = self.open.kind if self.open else None
        return kind is Kind.PARAGRAPH or kind is Kind.ITEM or kind is Kind.TABLE

    def _read_text(self, number: int, line: str) -> None:
        """Read text after a blank line: if indented, part of the item, else a new paragraph."""
        if not (self.open and self.open.kind is Kind.ITEM and line[0] in " \t"):
            self._begin(Kind.PARAGRAPH, number)

    def _read_fence(self, number: int, marker: str) -> int:
        """Read a fenced block up to its closing fence, or to the end of the note."""
        inside_item = self.open and self.open.kind is Kind.ITEM and self.lines[number][0] in " \t"
        if not inside_item:
            self._begin(Kind.FENCE, number)
        closing = re.compile(
            rf"[ \t]*(?:>[ \t]?)*{re.escape(marker[0])}{{{len(marker)},}}[ \t]*\r?\n?$"
        )
        for later in range(number + 1, len(self.lines)):
            if closing.match(self.lines[later]):
                return later + 1
        return len(self.lines)

    def _read_item(self, number: int, item: re.Match[str]) -> int:
        """Read an item: it belongs to the block above if it is nested, else it opens a block."""
        block = self.open
        indent = len(item.group(1))
        if not (block and block.kind is Kind.ITEM and indent > block.level):
            self._begin(Kind.ITEM, number, indent)
        return number + 1

    def _apply_underline(self, number: int, line: str) -> bool:
        """Make the paragraph above a heading if the line underlines it; return whether it does.

        The paragraph must be one short line. Under a longer text the line is a rule.
        """
        block = self.open
        if not block or block.kind is not Kind.PARAGRAPH:
            return False
        overlined = self.rst and self._is_overlined(number, line)
        if self.opened_at != number - 1 - overlined:
            return False
        title = self.lines[number - 1].strip()
        match = (_RST_UNDERLINE if self.rst else _SETEXT).match(line)
        too_short = self.rst and len(line.strip()) < len(title)
        if not match or too_short or len(title) > _MAX_UNDERLINED:
            return False
        level = (
            "=-".index(match.group(1)[0]) + 1
            if not self.rst
            else self._rst_level(match.group(1), overlined)
        )
        block.kind, block.level, block.title = Kind.HEADING, min(level, 6), title
        return True

    def _is_overlined(self, number: int, line: str) -> bool:
        """Whether the same line as below the title stands above it."""
        above = self.lines[number - 2].rstrip() if number > 1 else ""
        return above == line.rstrip() and _RST_UNDERLINE.match(above) is not None

    def _rst_level(self, sign: str, overlined: bool) -> int:
        """Return the level of a heading: the signs rank in the order in which they appear."""
        style = sign, overlined
        if style not in self.rst_styles:
            self.rst_styles.append(style)
        return self.rst_styles.index(style) + 1

    def _table_starts(self, number: int) -> bool:
        below = self.lines[number + 1]
        return "|" in below and "-" in below and _TABLE_RULE.match(below) is not None


def _atx_title(text: str) -> str:
    """Return the title in the rest of a heading's line, without the # that may close it."""
    title = text.removesuffix("\n").removesuffix("\r").strip(" \t")
    opened = title.rstrip("#")
    return (opened if opened != title and opened.endswith((" ", "\t")) else title).strip()
