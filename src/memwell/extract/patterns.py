"""Patterns in Markdown text: terms, definitions, commands, and texts that are not facts.

Pure functions over one point, paragraph, sentence or shell block; markdown.py applies them to the
blocks of a note. The verbs are English.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

RULES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
"""Words and phrases: those of Markdown and those of a chat."""


def _words(name: str) -> frozenset[str]:
    return frozenset(RULES["markdown"][name].split())


# -- text without its markup -----------------------------------------------------------------------

_CODE = re.compile(r"`+[^`]+`+")
_LINK = re.compile(
    r"!?\[([^\[\]]{0,300})\]"
    r"(?:\((?:[^()\s]|\([^()]{0,200}\)){0,1000}(?:\s+\"[^\"]{0,300}\")?\)|\[[^\[\]]{0,300}\])"
)
_WIKI = re.compile(r"!?\[\[(?:[^\[\]|]{0,300}\|)?([^\[\]|]{1,300})\]\]")
_TAG = re.compile(
    r"<!--.*?(?:-->|$)|</?[a-zA-Z][^<>]{0,300}>|~~[^~]{0,300}~~|\[\^[^\[\]]{1,100}\]"
    r"|\{[#.][^{}]{0,100}\}",
    re.S,
)
_STRONG = re.compile(
    r"\*{1,3}(?=[^\s*])([^*]{1,300})(?<=\S)\*{1,3}"
    r"|(?<!\w)_{1,3}(?=[^\s_])([^_]{1,300})(?<=\S)_{1,3}(?!\w)"
)


def strip_markup(text: str) -> str:
    """Return a text without markup: links become their words, code keeps its backticks."""
    text = _LINK.sub(
        r"\1", _LINK.sub(r"\1", _WIKI.sub(r"\1", text))
    )  # twice: an image may be a link
    pieces, last = [], 0
    for code in _CODE.finditer(text):
        pieces += [_strip_emphasis(text[last : code.start()]), code[0]]
        last = code.end()
    pieces.append(_strip_emphasis(text[last:]))
    return " ".join("".join(pieces).split())


def _strip_emphasis(text: str) -> str:
    text = _TAG.sub("", text)
    return _STRONG.sub(r"\1\2", _STRONG.sub(r"\1\2", text)).replace("**", "")


NOT_A_FACT = re.compile(
    r"""\[[ xX-]\](?:\s|$)                                   # a box to tick
      | (?:TODO|FIXME|XXX|TBD)\b
      | (?:<?\w+://\S+>?|!?\[[^\]]*\]\([^)]*\)|\[\[[^\]]*\]\])   # a link alone, or with its date
        [.,;]?(?:\s*[-–—(:]?\s*\d{4}-\d\d-\d\d\)?)?$
      | (?:See|Read|Learn)\s(?:also|more|about|how|the|\[)      # a pointer to somewhere else
      | For\s(?:more|further|details)\b
    """,
    re.X,
)


def says_nothing(raw: str) -> bool:
    """Whether a point or paragraph is a question, a checkbox, a bare link or the like."""
    raw = raw.strip()
    text = strip_markup(raw)
    if NOT_A_FACT.match(raw) or "{{" in raw:
        return True
    return text.endswith(("?", "？", ":")) or not re.search(r"\w", text)


# -- sentences -------------------------------------------------------------------------------------

_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)[\"”)]?\s+(?=[^a-z\s])")
BOLD_TERM = re.compile(
    r"(?:\*\*|__)(?P<bold>[^*_\n]{1,60}?)\s*(?::\s*(?:\*\*|__)|(?:\*\*|__)\s*(?::|\s[-–—]\s))\s*(?P<a>\S.*)",
    re.S,
)
PLAIN_TERM = re.compile(
    r"(?P<term>`[^`]+`|[^\s:`.?!-][^:`.?!\n]{0,50}?)(?:\s+[-–—]\s+|:\s+|：\s*)(?P<is>\S.*)", re.S
)
EQUALS = re.compile(r"`?[A-Za-z][\w.-]{1,40}`? = \S")
_SUBJECT = (
    r"(?:(?:A|An|The|Our|Its|Each|Every)\s)?[\"“`]?\w[\w/.'’+#&-]*"
    r"(?:\s[\w/.'’+#&()-]+){0,4}?[\"”`]?"
)
_DEFINES = re.compile(
    rf"""(?P<subject>{_SUBJECT})\s
    (?:(?P<names>(?:means|stands\s+for|refers\s+to|denotes|is\s+short\s+for|(?:is|are)\s+an?)\s)
      |(?:is|are)\s(?:(?P<one>(?:the|one|our|any|another)\s|(?:\w+\s){{1,3}}?(?:that|which|who)\s)
         |(?:also\s|now\s|always\s)?(?:called|named|known\s+as|set\s+to|stored\s+(?:in|at|under)
             |kept\s+in|located|written\s+in|owned\s+by|limited\s+to|defined\s+(?:in|as)|based\s+on
             |served\s+(?:by|from|at)|hosted)\b
         |["“`]?[\w.:/-]*\d
         |[`"“]))""",
    re.X | re.I,
)
_NOT_A_SUBJECT = _words("not_a_subject")
_VAGUE = re.compile(r"(?:The|Its|Our|Each|Every)\s", re.I)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph."""
    return [sentence for sentence in _SENTENCE_END.split(text) if sentence]


def find_term(raw: str) -> str:
    """Return "Term: its meaning" if a point or paragraph begins with a term in bold, else ""."""
    if match := BOLD_TERM.match(raw):
        return f"{strip_markup(match['bold'])}: {strip_markup(match['a'])}"
    return ""


def is_definition(sentence: str) -> bool:
    """Whether a sentence defines something that it names."""
    match = _DEFINES.match(sentence)
    if not match or sentence.endswith("?"):
        return False
    subject = re.findall(r"[\w'’]+", match["subject"].lower())
    return _NOT_A_SUBJECT.isdisjoint(subject)


def names_its_subject(text: str) -> bool:
    """Whether a sentence makes sense without its heading: "the port is" does not."""
    match = _DEFINES.match(text)
    general = bool(match and (match["names"] or match["one"])) and not _VAGUE.match(text)
    return general and (text[0].isupper() or text[0] in '"“`')


# -- commands --------------------------------------------------------------------------------------

SHELLS = _words("shells")
_TOOLS = _words("tools")
_VERBS = _words("verbs")
_ASKS = r"(?:run|use|type|call|execute|enter|do|try)"
_LEAD_OUT = re.compile(
    rf",?\s*(?:(?:just\s|simply\s)?{_ASKS}(?:\s(?:this|the|following|below|commands?|`[^`]+`))*"
    r"|with|using|via|by\srunning|like\sthis|as\sfollows|is)?\s*[:.]*$",
    re.I,
)
_LEAD_IN = re.compile(
    r"(?:(?:To|You can|We can|Then|Next|Now|First|Finally|Also|Please|Optionally),?\s+)+", re.I
)
_INLINE = (
    re.compile(rf"{_ASKS}\s(?P<code>`[^`]+`)\sto\s(?P<what>[^`]+)", re.I),
    re.compile(rf"To\s(?P<what>[^`]+?),?\s{_ASKS}:?\s(?P<code>`[^`]+`)", re.I),
    re.compile(r"(?P<what>[^`]+?)\s(?:with|using|by running|via):?\s(?P<code>`[^`]+`)", re.I),
)


def is_command(line: str) -> bool:
    """Whether a line is a command: its first word is a known tool, or it has options."""
    first = line.split()[0] if line.split() else ""
    return first in _TOOLS or first.startswith("./") or " --" in line


def find_purpose(intro: str) -> str:
    """Return "To do this" from the text before a command; "" if it does not name a purpose."""
    purpose = _LEAD_OUT.sub("", strip_markup(intro)).strip()
    purpose = _LEAD_IN.sub("", purpose)
    first = purpose.split()[0].lower() if purpose else ""
    if first not in _VERBS or len(purpose.split()) < 2:
        return ""
    return f"To {purpose[0].lower()}{purpose[1:]}"


def find_inline_command(sentence: str) -> str:
    """Return "To do this: `command`" if a sentence contains a command, else ""."""
    for shape in _INLINE:
        match = shape.match(sentence)
        what = find_purpose(match["what"].rstrip(" .")) if match else ""
        if match and what and is_command(match["code"].strip("`")):
            return f"{what}: {match['code']}"
    return ""


_COMMAND = re.compile(r"[A-Za-z_./~][\w./~:-]*(?=\s|=|$)|[\[{(<&|]|done|fi\b")
_ASSIGNS = re.compile(r"(?:export\s+)?\w+=\S*")


@dataclass(slots=True)
class Step:
    """Commands that belong together, and the comment above them."""

    comment: str
    commands: list[str] = field(default_factory=list)


def parse_steps(lines: Sequence[str], language: str) -> list[Step]:
    """Return the commands of a fenced block, without the output that they printed."""
    text = re.sub(r"\\\n\s*", "", "\n".join(line.rstrip() for line in lines))
    prompted = re.search(r"^\s*[$>%]\s+\S", text, re.M)
    found = [Step("")]
    for line in map(str.strip, text.split("\n")):
        if line.startswith("#"):
            further = found[-1].comment and not found[-1].commands
            found += [] if further else [Step(line.lstrip("#! "))]
        elif line and prompted and line[0] in "$>%":
            found[-1].commands.append(_without_comment(line[1:]))
        elif line and not prompted:
            if not (is_command(line) if language not in SHELLS else _COMMAND.match(line)):
                return []
            found[-1].commands.append(_without_comment(line))
    return [step for step in found if not all(map(_ASSIGNS.fullmatch, step.commands))]


def _without_comment(line: str) -> str:
    return re.sub(r"\s+# .*", "", line).strip()
