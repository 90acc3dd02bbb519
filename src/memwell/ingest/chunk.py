"""Cut a note into chunks along its structure.

1. A heading opens a section; a heading with nothing under it joins the next one.
2. A section that fits is one chunk.
3. A larger section is packed from its blocks. A block that is too large is divided at its nested
   items or rows, then at lines, sentences, words, and at last anywhere.
4. A chunk that continues a section repeats the end of the chunk before it (the overlap).

Sizes are in tokens, estimated: four characters are one, a CJK character is one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from memwell.config.sections import ChunkingSettings
from memwell.errors import TooManySectionsError
from memwell.ingest.markdown import Block, Kind, blocks
from memwell.model import Chunk
from memwell.token_estimate import CHARACTERS_PER_TOKEN, quarter_tokens

# Where to cut, from coarse to fine: at the end of a match. Each pattern begins with the characters
# it looks for, so that the engine skips to them; it would try a look-behind at every position.
_FINER = (
    re.compile(r"\n(?=[ \t]*(?:[-*+]|\d+[.)])[ \t])"),  # before a nested item
    re.compile(r"\n(?=[ \t]*\n)"),  # before a blank line
    re.compile(r"\n"),  # after a line
    re.compile(r"[.!?](?=[ \t])|[。！？；]"),  # after a sentence
    re.compile(r"\s(?=\S)"),  # before a word; with \s+ a long blank line takes quadratic time
)

MAX_CHUNKS = 50_000
"""More are not worth the time to embed them: a note with so many has a few words in each."""
MAX_HEADING = 1_000
"""Every chunk of a section repeats its heading, of which so many characters are kept."""


def chunk(
    text: str,
    *,
    size: int = ChunkingSettings.size,
    overlap: int = ChunkingSettings.overlap,
    first_line: int = 1,
    rst: bool = False,
    plain: bool = False,
) -> list[Chunk]:
    """Cut `text` into chunks of about `size` tokens; its lines count from `first_line`.

    A `plain` text has no structure: its chunks depend on their size alone. Any other raises
    `TooManySectionsError` if it has too many.
    """
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    offsets = [0, *accumulate(map(len, lines))]
    cutter = _Cutter(
        text, offsets, size * CHARACTERS_PER_TOKEN, overlap * CHARACTERS_PER_TOKEN, first_line
    )
    found = [Block(Kind.PARAGRAPH, 0, len(lines))] if plain else blocks(lines, rst=rst)
    chunks: list[Chunk] = []
    for heading, section in _sections(found):
        chunks += cutter.cut(heading, section)
        if len(chunks) > MAX_CHUNKS and not plain:
            raise TooManySectionsError(MAX_CHUNKS)
    return chunks


def _sections(found: Sequence[Block]) -> Iterator[tuple[tuple[str, ...], list[Block]]]:
    """Group blocks into sections, each with its heading path."""
    path: list[Block] = []
    section: list[Block] = []
    for block in found:
        if block.kind is Kind.HEADING:
            # A section begins with all its headings, so that its last block says if it has text.
            if section and section[-1].kind is not Kind.HEADING:
                yield _titles(path), section
                section = []
            path = [*(above for above in path if above.level < block.level), block]
        section.append(block)
    if section:
        yield _titles(path), section


def _titles(path: Sequence[Block]) -> tuple[str, ...]:
    return tuple(block.title[:MAX_HEADING] for block in path if block.title)


class _Cutter:
    """Turns one section after another into chunks of a text."""

    def __init__(
        self, text: str, offsets: list[int], limit: int, overlap: int, first_line: int
    ) -> None:
        self.text = text
        self.ascii = text.isascii()
        self.offsets = offsets
        self.limit = max(limit, CHARACTERS_PER_TOKEN)
        self.overlap = min(overlap, self.limit // 2)
        self.first_line = first_line

    def cut(self, heading: tuple[str, ...], section: Sequence[Block]) -> Iterator[Chunk]:
        start, end = self.offsets[section[0].first], self.offsets[section[-1].end]
        if self._weight(start, end) <= self.limit:
            yield self._chunk(heading, start, start, end)
            return
        for new_start, new_end in self._pack(section):
            start = self._overlap_start(start, new_start)
            yield self._chunk(heading, start, new_start, new_end)

    def _weight(self, start: int, end: int) -> int:
        return end - start if self.ascii else quarter_tokens(self.text[start:end])

    def _pack(self, section: Sequence[Block]) -> Iterator[tuple[int, int]]:
        """Pack the atoms of a section greedily; leave room for overlap from the second chunk on."""
        begin = end = self.offsets[section[0].first]
        filled, room = 0, self.limit
        for atom_start, atom_end in self._atoms(section):
            weight = self._weight(atom_start, atom_end)
            if filled and filled + weight > room:
                yield begin, end
                begin, filled, room = atom_start, 0, self.limit - self.overlap
            filled += weight
            end = atom_end
        yield begin, end

    def _atoms(self, section: Sequence[Block]) -> Iterator[tuple[int, int]]:
        """Yield spans that are not cut further; a heading belongs to the atom after it."""
        room = self.limit - self.overlap
        begin: int | None = None
        for block in section:
            start, end = self.offsets[block.first], self.offsets[block.end]
            if block.kind is Kind.HEADING and end - start < room // 2 and block is not section[-1]:
                begin = start if begin is None else begin
                continue
            for atom_start, atom_end in self._divide(start, end, room, 0):
                yield (atom_start if begin is None else begin), atom_end
                begin = None

    def _divide(self, start: int, end: int, room: int, finer: int) -> list[tuple[int, int]]:
        """Divide a span that is too large, at finer and finer boundaries."""
        if self._weight(start, end) <= room:
            return [(start, end)]
        if finer == len(_FINER):
            step = max(1, room // CHARACTERS_PER_TOKEN)
            return [(cut, min(cut + step, end)) for cut in range(start, end, step)]
        inner = [match.end() for match in _FINER[finer].finditer(self.text, start, end)]
        cuts = [start, *(cut for cut in inner if start < cut < end), end]
        return [
            piece
            for first, last in pairwise(cuts)
            for piece in self._divide(first, last, room, finer + 1)
        ]

    def _overlap_start(self, previous_start: int, new_start: int) -> int:
        """Return where the overlap before `new_start` begins: at a line, sentence or word.

        It repeats the previous chunk only, which may be shorter than an overlap.
        """
        earliest = max(0, new_start - self.overlap)
        while earliest < new_start and self._weight(earliest, new_start) > self.overlap:
            earliest += max(1, (new_start - earliest) // 4)
        for boundary in _FINER[2:]:
            for match in boundary.finditer(self.text, earliest, new_start):
                if previous_start <= match.end() < new_start:
                    return match.end()
        return new_start

    def _chunk(self, heading: tuple[str, ...], start: int, new_start: int, end: int) -> Chunk:
        text = self.text[start:end]
        lead = len(text) - len(text.lstrip())
        first = start if lead == len(text) else start + lead
        last = start + max(len(text.rstrip()) - 1, 0)
        return Chunk(
            text=text,
            start_line=self.first_line + bisect_right(self.offsets, first) - 1,
            end_line=self.first_line + bisect_right(self.offsets, last) - 1,
            heading=heading,
            overlap=new_start - start,
        )
