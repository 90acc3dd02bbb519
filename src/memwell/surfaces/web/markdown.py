"""A note as HTML: markdown-it renders it, nh3 keeps only what is harmless.

    text ──markdown-it──▶ blocks, in sections by passage ──nh3──▶ tags and attributes that are known

Notes may come from strangers. nh3 parses the HTML as a browser does and drops every tag, attribute
and address that is not on its lists. Addresses lead to other sites, to notes and to images of the
workspace, and nowhere else in this server. Sections are added afterwards: a note cannot close them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from memwell.ingest.front_matter import split_front_matter
from memwell.model import Chunk
from memwell.surfaces.web.code_colours import colour_code

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MOST_CHARACTERS = 400_000
"""A longer note is shown as plain text: rendering it would take seconds."""
WIKI_SCHEME = "wiki:"
"""Marks the address of a [[wiki link]], which names a note without its folder."""

_MOST_NESTED = 100
_TAGS = """
    a abbr b blockquote br caption code dd del details div dl dt em figcaption figure h2 h3 h4 h5 h6
    hr i img ins kbd li mark ol p pre q s samp small span strong sub summary sup table tbody td
    tfoot th thead tr u ul var
"""
_ATTRIBUTES = {
    "*": {"id", "class", "dir", "lang"},
    "a": {"href", "title"},
    "img": {"src", "alt", "title"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
}
_CLASSES = {"comment", "string", "number", "keyword", "right", "center", "task"}
_SCHEMES = {"http", "https", "mailto", WIKI_SCHEME.rstrip(":")}
_LINE_ID = re.compile(r"L\d{1,7}")
_WIKI_LINK = re.compile(r"(!?)\[\[([^\[\]\n|]+)(?:\|([^\[\]\n]*))?\]\]")
_IMAGE_WITHOUT_SOURCE = re.compile(r"<img(?![^>]* src=)[^>]*>")
_SCROLLS = re.compile(r"<(pre|table)(?=[ >])")
"""Blocks that scroll sideways: with a tab stop, also by the keyboard."""
_ELSEWHERE = re.compile(r"(?:https?|mailto):", re.I)
_TASK = re.compile(r"\[([ xX])\] ")

Address = Callable[[str], str | None]
"""Returns the address on this page for one that a note contains; None if it leads nowhere."""


@dataclass(frozen=True, slots=True)
class Section:
    """A passage of a note as HTML."""

    start_line: int
    end_line: int
    html: str


def render_note(
    text: str, chunks: Sequence[Chunk], title: str, link: Address, image: Address
) -> list[Section]:
    """Return the passages of a note as HTML, without its front matter and its first title."""
    body = _blank_front_matter(text)
    if len(body) > MOST_CHARACTERS:
        return _as_plain_text(chunks)
    tokens = _without_title(_parser().parse(body), title)
    starts = [chunk.start_line for chunk in chunks]
    ends = {chunk.start_line: chunk.end_line for chunk in chunks}
    grouped: dict[int, list[Token]] = {}
    for block in _top_blocks(tokens):
        line = (block[0].map or [0])[0] + 1
        start = max((number for number in starts if number <= line), default=1)
        grouped.setdefault(start, []).extend(block)
    _mark_lines(tokens, set(starts) - grouped.keys())
    _adapt(tokens)
    return [
        Section(start, ends.get(start, start), _clean(_render(block), link, image))
        for start, block in grouped.items()
    ]


def _as_plain_text(chunks: Sequence[Chunk]) -> list[Section]:
    return [
        Section(
            chunk.start_line,
            chunk.end_line,
            f'<div class="text">{escape(chunk.text[chunk.overlap :].strip())}</div>',
        )
        for chunk in chunks
    ]


def _blank_front_matter(text: str) -> str:
    """Return the text with its front matter as empty lines, so that line numbers stay."""
    _, begins, _ = split_front_matter(text)
    return "\n" * text[:begins].count("\n") + text[begins:]


# -- parsing ---------------------------------------------------------------------------------------


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    options: Any = {"html": True, "maxNesting": _MOST_NESTED, "highlight": _colour}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.inline.ruler.before("link", "wiki_link", _read_wiki_link)
    return parser


def _colour(code: str, language: str, _: str) -> str:
    return colour_code(code, language)


def _read_wiki_link(state: StateInline, silent: bool) -> bool:
    """Read ``[[note|label]]`` and ``![[image.png]]``."""
    match = _WIKI_LINK.match(state.src, state.pos)
    if not match:
        return False
    if not silent:
        target, label = match[2].strip(), (match[3] or match[2]).strip()
        if match[1]:
            token = state.push("image", "img", 0)
            token.attrs = {"src": WIKI_SCHEME + target, "alt": ""}
            token.children, token.content = [], label
        else:
            state.push("link_open", "a", 1).attrs = {"href": WIKI_SCHEME + target}
            state.push("text", "", 0).content = label
            state.push("link_close", "a", -1)
    state.pos = match.end()
    return True


def _top_blocks(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the blocks that are in no other block, each with all its tokens."""
    blocks: list[list[Token]] = []
    depth = 0
    for token in tokens:
        if depth == 0:
            blocks.append([])
        blocks[-1].append(token)
        depth += token.nesting
    return blocks


def _without_title(tokens: list[Token], title: str) -> list[Token]:
    """Return the tokens without a first heading that repeats the title of the page."""
    is_title = (
        len(tokens) > 2 and tokens[0].type == "heading_open" and tokens[1].content.strip() == title
    )
    return tokens[3:] if is_title else tokens


def _mark_lines(tokens: Sequence[Token], lines: set[int]) -> None:
    """Give an id to the inner blocks at which a passage begins."""
    for line in sorted(lines):
        inside = [token for token in tokens if token.map and token.nesting == 1 and token.level]
        at = next((token for token in inside if token.map and token.map[0] + 1 >= line), None)
        if at:
            at.attrs.setdefault("id", f"L{line}")


def _adapt(tokens: Sequence[Token]) -> None:
    """Fit a note into the page: headings below its own, classes for styles, links for images."""
    above: list[str] = []
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            above = [*(tag for tag in above if tag < token.tag), token.tag]
            token.tag = tokens[number + 2].tag = f"h{min(1 + len(above), 6)}"
        style = str(token.attrs.pop("style", ""))
        if style:
            token.attrs["class"] = style.rpartition(":")[2]
        if token.type == "inline" and token.children:
            token.children = [part for child in token.children for part in _as_link(child)]
            _mark_task(tokens[number - 2 : number], token.children)


def _as_link(token: Token) -> list[Token]:
    """Return a link in place of an image of another site, which the page does not load."""
    from markdown_it.token import Token

    source = str(token.attrs.get("src", ""))
    if token.type != "image" or not _ELSEWHERE.match(source):
        return [token]
    label = Token("text", "", 0, content=token.content or source)
    return [
        Token("link_open", "a", 1, attrs={"href": source}),
        label,
        Token("link_close", "a", -1),
    ]


def _mark_task(before: Sequence[Token], children: Sequence[Token]) -> None:
    """Draw the box of a task list item."""
    if [token.type for token in before] != ["list_item_open", "paragraph_open"]:
        return
    match = _TASK.match(children[0].content)
    if match:
        before[0].attrs["class"] = "task"
        box = "☐" if match[1] == " " else "☑"
        children[0].content = f"{box} {children[0].content[match.end() :]}"


# -- cleaning --------------------------------------------------------------------------------------


def _render(tokens: Sequence[Token]) -> str:
    parser = _parser()
    return str(parser.renderer.render(tokens, parser.options, {}))


def _clean(html: str, link: Address, image: Address) -> str:
    import nh3

    def keep(tag: str, attribute: str, value: str) -> str | None:
        if attribute == "href":
            return value if _ELSEWHERE.match(value) else link(value)
        if attribute == "src":
            return image(value)
        if attribute == "id":
            return value if _LINE_ID.fullmatch(value) else None
        if attribute == "class":
            return " ".join(name for name in value.split() if name in _CLASSES) or None
        return value

    cleaned = nh3.clean(
        html,
        tags={*_TAGS.split()},
        clean_content_tags={"script", "style", "template", "iframe", "svg", "math"},
        attributes=_ATTRIBUTES,
        attribute_filter=keep,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    cleaned = _IMAGE_WITHOUT_SOURCE.sub("", cleaned)
    return _SCROLLS.sub(r'<\1 tabindex="0"', cleaned)
