"""Extract facts from Markdown by rules, without a language model.

    definition   "A tombstone is a row that ...", "**Term**: ...", "- Term - ...", "X = ..."
    command      a shell block or a command in a sentence, with its purpose
    bullet       a point of a list, under the heading that it belongs to
    row          a row of a table; its first cell is the subject

A fact is read apart from its note, so it must be complete: a text that does not name its subject
gets the nearest heading in front, and a nested point gets the points around it. Prose gives a fact
only if it defines something: to miss a fact costs less than to store a sentence that means nothing
later. The verbs of sentences are English; lists and tables may be in any language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memwell.extract import patterns
from memwell.extract.patterns import SHELLS, find_purpose, split_sentences, strip_markup
from memwell.facts.comparison import normalised
from memwell.ingest.front_matter import split_front_matter
from memwell.ingest.markdown import Block, Kind, blocks

DEFINITION, COMMAND, BULLET, ROW = "definition", "command", "bullet", "row"
MIN_WORDS = 3
MAX_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class MarkdownFact:
    """A fact and its lines: from 1, both ends included."""

    text: str
    start_line: int
    end_line: int
    kind: str


def extract_facts(text: str) -> list[MarkdownFact]:
    """Return the facts of a Markdown text in order, without duplicates."""
    _, body_at, _ = split_front_matter(text)
    lines = [line + "\n" for line in text[body_at:].split("\n")]
    facts = _MarkdownReader(lines, 1 + text.count("\n", 0, body_at)).run()
    return list({normalised(fact.text): fact for fact in reversed(facts)}.values())[::-1]


# -- the structure of a note -----------------------------------------------------------------------

_LISTS = frozenset(
    ("glossary", "terms", "terminology", "definitions", "abbreviations", "acronyms", "vocabulary")
)
_ABOUT_ALL = frozenset(
    ("overview", "notes", "summary", "general", "introduction", "about", "details", "description")
)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})\s*([\w+-]*)")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])(?:\s+|$)")
_CELL_END = re.compile(r"(?<!\\)\|")


@dataclass(slots=True)
class _Point:
    """A point of a list: its text, its lines, and the points nested in it."""

    indent: int
    first: int
    last: int
    lines: list[str]
    code: list[tuple[int, int, str]] = field(default_factory=list)
    """Fenced blocks in the point: first and last line, and the sentence above."""
    inner: list[_Point] = field(default_factory=list)

    @property
    def raw(self) -> str:
        return " ".join(self.lines).strip()


@dataclass(slots=True)
class _MarkdownReader:
    """Reads the blocks of a text, with the headings and the intro above them."""

    lines: Sequence[str]
    first_line: int
    facts: list[MarkdownFact] = field(default_factory=list)
    headings: list[Block] = field(default_factory=list)
    intro: str = ""

    def run(self) -> list[MarkdownFact]:
        """Read every block; a sentence that ends with a colon introduces the next block."""
        for block in blocks(self.lines):
            match block.kind:
                case Kind.HEADING:
                    above = [title for title in self.headings if title.level < block.level]
                    self.headings = [*above, block]
                    self.intro = ""
                case Kind.PARAGRAPH:
                    self._read_paragraph(block)
                case Kind.FENCE:
                    self._read_fence(block.first, block.end, self.intro)
                    self.intro = ""
                case Kind.ITEM:
                    for point in self._parse_points(block):
                        self._read_point(point, [self.intro] if self.intro else [])
                case Kind.TABLE:
                    self._read_table(block)
                    self.intro = ""
        return self.facts

    def _add(self, kind: str, text: str, first: int, last: int) -> None:
        """Add a fact, unless it is too short or too long."""
        if (
            len(text) <= MAX_CHARACTERS
            and "{{" not in text
            and len(normalised(text).split()) >= MIN_WORDS
        ):
            fact = MarkdownFact(text, self.first_line + first, self.first_line + last, kind)
            self.facts.append(fact)

    def _heading(self) -> str:
        """Return the nearest heading that names a subject; "" below a glossary and the like."""
        for block in reversed(self.headings):
            title = strip_markup(block.title).rstrip(":")
            if normalised(title) in _LISTS:
                return ""
            if title and "{{" not in title and normalised(title) not in _ABOUT_ALL:
                return title
        return ""

    def _with_context(self, text: str, context: Sequence[str] = ()) -> str:
        """Return a text with its heading and the points around it in front."""
        text = ": ".join([*(part.rstrip(":") for part in context), text])
        heading = self._heading()
        named = set(heading.casefold().split()) <= {
            word.strip('.,:;!()`"') for word in text.casefold().split()
        }
        return text if named else f"{heading}: {text}"

    # paragraphs

    def _read_paragraph(self, block: Block) -> None:
        self.intro = ""
        pieces: list[tuple[int, list[str]]] = []
        for number in range(block.first, block.end):
            line = self.lines[number].strip()
            if not line or line.startswith((">", "|", "<!--")) or self.lines[number][:4].isspace():
                continue
            if not pieces or patterns.BOLD_TERM.match(line) or patterns.EQUALS.match(line):
                pieces.append((number, []))
            pieces[-1][1].append(line)
        for first, lines in pieces:
            self._add_paragraph_part(first, lines)
        if pieces:
            last = split_sentences(strip_markup(" ".join(pieces[-1][1])))[-1:]
            self.intro = last[0] if last and last[0].endswith(":") else ""

    def _add_paragraph_part(self, first: int, lines: list[str]) -> None:
        raw = " ".join(lines)
        last = first + len(lines) - 1
        if patterns.says_nothing(raw) and len(split_sentences(raw)) == 1:
            return
        if about := patterns.find_term(raw):
            self._add(DEFINITION, self._with_context(about), first, last)
        elif patterns.EQUALS.match(raw):
            self._add(DEFINITION, strip_markup(raw), first, last)
        else:
            for sentence, start, end in _sentences_with_lines(lines):
                self._add_sentence(sentence, first + start, first + end)

    def _add_sentence(self, sentence: str, first: int, last: int) -> None:
        if command := patterns.find_inline_command(sentence):
            self._add(COMMAND, command, first, last)
        elif patterns.is_definition(sentence) and not sentence.endswith(":"):
            named = patterns.names_its_subject(sentence)
            self._add(DEFINITION, sentence if named else self._with_context(sentence), first, last)

    # commands

    def _read_fence(self, first: int, end: int, intro: str) -> None:
        """Add the commands of a block, each with its comment, the intro or the heading."""
        opening = next((n for n in range(first, end) if _FENCE.match(self.lines[n])), None)
        match = _FENCE.match(self.lines[opening]) if opening is not None else None
        if opening is None or match is None or match[2].lower() not in {*SHELLS, "", "text"}:
            return
        marker, language = match[1], match[2].lower()
        closing = next(
            (n for n in range(opening + 1, end) if self.lines[n].strip().startswith(marker)), end
        )
        for step in patterns.parse_steps(self.lines[opening + 1 : closing], language):
            heading = self._heading()
            what = find_purpose(step.comment) or find_purpose(intro) or find_purpose(heading)
            if what := what or (heading and f"For {heading}"):
                commands = ", ".join(f"`{command}`" for command in step.commands)
                self._add(COMMAND, f"{what}: {commands}", opening, min(closing, end - 1))

    # lists

    def _parse_points(self, block: Block) -> list[_Point]:
        """Return the points of a list block, with the nested points inside them."""
        outer: list[_Point] = []
        open_points: list[_Point] = []
        number = block.first
        while number < block.end:
            line = self.lines[number]
            if match := _ITEM.match(line):
                indent = len(match[1].expandtabs(4))
                point = _Point(indent, number, number, [line[match.end() :].strip()])
                while open_points and open_points[-1].indent >= indent:
                    open_points.pop()
                (open_points[-1].inner if open_points else outer).append(point)
                open_points.append(point)
            elif open_points and (fence := _FENCE.match(line)):
                end = number + 1
                while end < block.end and not self.lines[end].strip().startswith(fence[1]):
                    end += 1
                above = split_sentences(strip_markup(open_points[-1].raw))[-1:]
                open_points[-1].code.append((number, min(end + 1, block.end), "".join(above)))
                number = end
            elif open_points and line.strip():
                open_points[-1].lines.append(line.strip())
                open_points[-1].last = number
            number += 1
        return outer

    def _read_point(self, point: _Point, context: list[str]) -> None:
        text = strip_markup(point.raw)
        if patterns.NOT_A_FACT.match(point.raw) and not point.inner:
            return
        for first, end, above in point.code:
            self._read_fence(first, end, above)
        leads = bool(point.inner) and (text.endswith(":") or len(text.split()) < MIN_WORDS + 1)
        if not (leads or point.code or patterns.says_nothing(point.raw)):
            self._add_point(point, text, context)
        for inner in point.inner:
            self._read_point(inner, [*context, text] if text else context)

    def _add_point(self, point: _Point, text: str, context: list[str]) -> None:
        """Add the fact of a point, without the points nested in it."""
        lines = point.first, point.last
        about = patterns.find_term(point.raw)
        match = patterns.PLAIN_TERM.fullmatch(text)
        if command := patterns.find_inline_command(text):
            self._add(COMMAND, self._with_context(command, context), *lines)
        elif about or (match and len(match["term"].split()) < 5):
            about = about or f"{match['term']}: {match['is']}" if match else about
            code = match["term"].strip("`") if match and match["term"][0] == "`" else ""
            kind = COMMAND if code and patterns.is_command(code) else DEFINITION
            self._add(kind, self._with_context(about, context), *lines)
        elif patterns.is_definition(text) and patterns.names_its_subject(text) and not context:
            self._add(DEFINITION, text, *lines)
        elif len(normalised(text).split()) >= MIN_WORDS and (context or self._heading()):
            kind = DEFINITION if patterns.is_definition(text) else BULLET
            self._add(kind, self._with_context(text, context), *lines)

    # tables

    def _read_table(self, block: Block) -> None:
        rows = [
            (number, _split_cells(self.lines[number]))
            for number in range(block.first, block.end)
            if "|" in self.lines[number]
        ]
        header = rows[0][1]
        for number, (subject, *values) in rows[2:]:
            pairs = [
                f"{name}: {value}" if name else value
                for name, value in zip(header[1:], values, strict=False)
                if value
            ]
            if subject and pairs:
                self._add(ROW, self._with_context(f"{subject}: {', '.join(pairs)}"), number, number)


def _split_cells(line: str) -> list[str]:
    return [
        strip_markup(cell.replace("\\|", "|")) for cell in _CELL_END.split(line.strip().strip("|"))
    ]


def _sentences_with_lines(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the sentences of a paragraph, each with its first and last line (from 0)."""
    joined = "\n".join(lines)
    position = 0
    for sentence in split_sentences(joined):
        start = joined.index(sentence, position)
        position = start + len(sentence)
        yield strip_markup(sentence), joined.count("\n", 0, start), joined.count("\n", 0, position)
