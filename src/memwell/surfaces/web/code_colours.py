"""Colours for code in notes: comments, strings, numbers and keywords, by one pattern per language.

That is enough to read a listing. A full highlighter (pygments) would add nine megabytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape

_HASH = r"(?:^|(?<=\s))\#[^\n]*"
_SLASHES = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_DASHES = r"--[^\n]*|/\*.*?(?:\*/|\Z)"
_ANGLES = r"<!--.*?(?:-->|\Z)"
_COMMENTS = {
    _HASH: "python py bash sh shell zsh console yaml yml toml ini ruby rb perl r make makefile"
    " dockerfile docker nginx conf elixir julia powershell",
    _SLASHES: "javascript js typescript ts jsx tsx c cpp c++ h java go rust rs css scss json jsonc"
    " kotlin swift php scala dart csharp cs zig",
    _DASHES: "sql sqlite psql postgresql mysql lua haskell hs ada",
    _ANGLES: "html xml svg vue markdown md",
}
_BY_LANGUAGE = {name: comment for comment, names in _COMMENTS.items() for name in names.split()}
_KEYWORDS = (
    "and as assert async await begin break case catch class const continue def default del delete"
    " do done echo elif else elseif end enum except export extends false False fi final finally fn"
    " for foreach from func function global go if impl import in instanceof interface is lambda let"
    " loop match module mut namespace new nil none None not null of or package pass private"
    " protected pub public raise range return self static struct super switch then this throw trait"
    " true True try type typeof undefined union until use var void when where while with yield"
)
_SQL = (
    "add all alter and as asc begin between by case check column commit constraint create cross"
    " default delete desc distinct drop else end exists foreign from full group having if in index"
    " inner insert into is join key left like limit not null offset on or order outer primary"
    " references returning right rollback select set table then trigger union unique update using"
    " values view when where with"
)


@lru_cache(maxsize=64)
def _pattern(language: str) -> re.Pattern[str]:
    comment = _BY_LANGUAGE[language]
    words = "|".join((_SQL if comment is _DASHES else _KEYWORDS).split())
    case = "(?i:" if comment is _DASHES else "(?:"
    return re.compile(
        rf"""(?P<comment>{comment})
        |(?P<string>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?)
        |(?P<number>(?<![\w.])\d[\w.]*)
        |(?P<keyword>(?<![\w.$/-]){case}{words})(?![\w/-]))""",
        re.X | re.S | re.M,
    )


def colour_code(code: str, language: str) -> str:
    """Return code as HTML; the spans have the classes comment, string, number and keyword."""
    name = language.strip().lower()
    if name not in _BY_LANGUAGE:
        return escape(code)
    parts, position = [], 0
    for match in _pattern(name).finditer(code):
        if match.start() == match.end():
            continue
        parts.append(escape(code[position : match.start()]))
        parts.append(f'<span class="{match.lastgroup}">{escape(match[0])}</span>')
        position = match.end()
    return "".join([*parts, escape(code[position:])])
