"""Source code: signatures, docstrings and comments, in a section for each symbol.

Python is parsed. In other languages a declaration is recognised by its keyword, and what it belongs
to by its indentation. The lines of bodies are left empty, so that line numbers are those of the
file.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memwell.ingest.parse_note import decode
from memwell.ingest.readers.document import Document, Section

_SYMBOLS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NAMED = r"(?P<name>[\w$~]+[?!]?)"
_CONTAINER = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|abstract|final|static|sealed|pub"
    r"(?:\([^)]*\))?|data|open|partial|unsafe|declare)\s+)*"
    r"(?:class|struct|interface|trait|impl(?:<[^>]*>)?(?:\s+[\w:<>]+\s+for)?|enum|object|module"
    rf"|namespace|protocol|extension|record|union|defmodule|mod|type)\s+{_NAMED}"
)
_FUNCTION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|abstract|final|static|async|pub"
    r"(?:\([^)]*\))?|override|virtual|inline|extern|unsafe|const|suspend|open|local)\s+)*"
    r"(?:function\*?|func(?:\s*\([^)]*\))?|fn|def|defp|fun|sub|proc|method|macro_rules!"
    rf"|create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|index))\s+{_NAMED}",
    re.I,
)
_ASSIGNED = re.compile(
    rf"\s*(?:export\s+)?(?:const|let|var)\s+{_NAMED}\s*(?::[^=]+)?=\s*(?:async\s*)?"
    r"(?:function\b|\([^)]*\)\s*(?::[^=]+)?=>|\w+\s*=>)"
)
_TYPED = re.compile(  # Type name(arguments) {, as in C, C++, C# and Java
    r"\s*(?!(?:return|if|for|while|switch|else|new|throw|case|catch|do|using|delete|await|yield)\b)"
    rf"(?:[\w:<>\[\],*&~.]+\s+)+[*&]?(?:\w+::)?{_NAMED}\s*\([^;]*\)?[^;=]*\{{?\s*$"
)
_HASH = frozenset((".rb", ".sh", ".bash", ".r", ".jl", ".ex", ".exs", ".php", ".py", ".pyi"))
_DASHES = frozenset((".sql", ".lua", ".hs"))
_TYPED_LANGUAGES = frozenset(
    (".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".java", ".dart", ".scala", ".kt")
)
_MOST_LINE = 500
"""A longer line is generated: it says nothing to a reader."""


@dataclass(slots=True)
class _Symbol:
    """A symbol, and the lines about it: signature, docstring, comments."""

    name: str
    lines: set[int] = field(default_factory=set)


def read(data: bytes, name: str) -> Document:
    """Convert a file."""
    text, _ = decode(data)
    lines = [line.rstrip("\r") for line in text.split("\n")]
    suffix = name[name.rfind(".") :].lower()
    symbols = None
    if suffix in (".py", ".pyi"):
        symbols = _python_symbols(text)
    symbols = symbols if symbols is not None else [*_other_symbols(lines, suffix)]
    sections = (_section(symbol, lines) for symbol in symbols if symbol.lines)
    found = sorted((one for one in sections if one.text.strip()), key=lambda one: one.first_line)
    return Document(tuple(found), has_source_lines=True)


def _section(symbol: _Symbol, lines: Sequence[str]) -> Section:
    first, last = min(symbol.lines), max(symbol.lines)
    text = "\n".join(
        lines[number - 1] if number in symbol.lines and len(lines[number - 1]) < _MOST_LINE else ""
        for number in range(first, last + 1)
    )
    heading = (symbol.name,) if symbol.name else ()
    return Section(f"{text}\n", heading, is_plain=True, first_line=first)


# -- Python ----------------------------------------------------------------------------------------


def _python_symbols(text: str) -> list[_Symbol] | None:
    """Return the symbols of a module, itself first; None if it cannot be parsed."""
    try:
        tree = ast.parse(text)
        comments = [
            token.start[0]
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    module = _Symbol("")
    _add_docstring(tree, module)
    found: list[tuple[int, int, _Symbol]] = [(1, text.count("\n") + 1, module)]
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        parent, path = waiting.pop()
        for child in ast.iter_child_nodes(parent):
            name = path
            if isinstance(child, _SYMBOLS):
                name = f"{path}.{child.name}" if path else child.name
                found.append(_python_symbol(child, name))
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                waiting.append((child, name))
    found.sort(key=lambda span: (span[0], -span[1]))
    starts = [start for start, _, _ in found]
    for number in comments:
        inside = (
            symbol
            for _, end, symbol in reversed(found[: bisect_right(starts, number)])
            if number <= end
        )
        next(inside, module).lines.add(number)
    return [symbol for _, _, symbol in found]


def _python_symbol(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, name: str
) -> tuple[int, int, _Symbol]:
    symbol = _Symbol(name)
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    body = node.body[0].lineno
    symbol.lines.update(range(first, max(body, node.lineno + 1)))
    _add_docstring(node, symbol)
    return first, node.end_lineno or node.lineno, symbol


def _add_docstring(node: ast.AST, symbol: _Symbol) -> None:
    body = getattr(node, "body", None)
    match body[0] if body else None:
        case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=last):
            symbol.lines.update(range(first, (last or first) + 1))


# -- other languages -------------------------------------------------------------------------------


def _other_symbols(lines: Sequence[str], suffix: str) -> Iterator[_Symbol]:
    """Yield the symbols in their order; a comment belongs to the declaration right below it."""
    containers: list[tuple[int, str]] = []
    current = _Symbol("")
    comments: list[int] = []
    comment_until = ""
    for number, line in enumerate(lines, 1):
        is_comment, comment_until = _read_comment(line, comment_until, suffix)
        if is_comment:
            comments.append(number)
            continue
        if not line.strip() and comments and comments[-1] != number - 1:
            continue
        declared = _declaration(line, suffix)
        if declared:
            yield current
            indent = len(line) - len(line.lstrip())
            containers = [outer for outer in containers if outer[0] < indent]
            path = ".".join([*(name for _, name in containers), declared[0]])
            if declared[1]:
                containers.append((indent, declared[0]))
            current = _Symbol(path, {number})
        elif line.strip() and not line.strip().startswith(("@", "#[", "[")):
            current.lines.update(comments)
            comments = []
            continue
        else:
            continue
        current.lines.update(comments)
        comments = []
    current.lines.update(comments)
    yield current


def _read_comment(line: str, until: str, suffix: str) -> tuple[bool, str]:
    """Return whether a line is a comment, and the sign that ends the comment it leaves open."""
    text = line.strip()
    if until:
        return True, "" if until in text else until
    block = {"/*": "*/", "<!--": "-->", "{-": "-}"}
    for begin, end in block.items():
        if text.startswith(begin):
            return True, "" if end in text[len(begin) :] else end
    if suffix in _HASH and text.startswith("#") and not text.startswith("#!"):
        return True, ""
    if suffix in _DASHES and text.startswith("--"):
        return True, ""
    return text.startswith("//"), ""


def _declaration(line: str, suffix: str) -> tuple[str, bool] | None:
    """Return the name that a line declares, and whether other symbols can belong to it."""
    if len(line) > _MOST_LINE:
        return None
    if found := _CONTAINER.match(line):
        return found["name"], True
    patterns = [_FUNCTION, _ASSIGNED, *([_TYPED] if suffix in _TYPED_LANGUAGES else [])]
    for pattern in patterns:
        if found := pattern.match(line):
            return found["name"], False
    return None
