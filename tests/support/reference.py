"""The reference pages that are written from the code: commands, HTTP, MCP, Python.

``python -m tests.support.documents`` writes them; test_site.py fails while they are out of date.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

import memwell
from memwell import Memory
from memwell.surfaces.cli import COMMANDS, cli
from memwell.surfaces.cli.overview import find_example, read_groups
from memwell.surfaces.http.app import create_app
from memwell.surfaces.mcp.server import create_server

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
_WRITTEN = "<!-- Written by `make docs` from the code. Edit the code, not this page. -->"


def write_all() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


# -- commands --------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options, as `--help` prints them."""
    parts = [
        "# Command line",
        _WRITTEN,
        "[Commands](../commands.md) explains them. `memwell COMMAND --help` prints the same.",
    ]
    for title, rows in read_groups():
        parts.append(f"## {title}")
        for row in rows:
            command = cli.get_command(click.Context(cli), row.name)
            assert command is not None
            parts += _describe(command, f"memwell {row.name}")
            parts.append(f"Example: `{find_example(row.name)}`")
    assert {row.name for _, rows in read_groups() for row in rows} == {*COMMANDS}
    return _join(parts)


def _describe(command: click.Command, name: str, level: int = 3) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"{'#' * level} `{name}`"
    yield _paragraphs(command.help or "")
    yield f"Usage: `{usage}`"
    rows = [one.get_help_record(context) for one in command.get_params(context)]
    options = [row for row in rows if row and row[1] and "--help" not in row[0]]
    if options:
        yield _table(["option", "meaning"], [[f"`{left}`", right] for left, right in options])
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _describe(found, f"{name} {inner}", level + 1)


# -- HTTP ------------------------------------------------------------------------------------------


def http_page() -> str:
    """Every route of the server with its fields, from its OpenAPI document."""
    with tempfile.TemporaryDirectory() as home, Memory(home) as memory:
        document = create_app(memory).openapi()
    parts = [
        "# HTTP routes",
        _WRITTEN,
        "[Over HTTP](../http.md) explains the server. `/openapi.json` has the same as data, with the"
        " form of every answer.",
    ]
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            parts.append(f"## `{method.upper()} {path}`")
            parts.append(_paragraphs(operation.get("description") or operation["summary"]))
            rows = [*_parameters(operation), *_body(operation, document)]
            if rows:
                parts.append(_table(["field", "in", "type"], rows))
    return _join(parts)


def _parameters(operation: dict[str, Any]) -> Iterator[list[str]]:
    for one in operation.get("parameters", []):
        mark = " (required)" if one.get("required") else ""
        yield [f"`{one['name']}`{mark}", one["in"], _type(one["schema"])]


def _body(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[list[str]]:
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        where = "form" if "form" in kind else "body"
        for name, field in schema.get("properties", {}).items():
            mark = " (required)" if name in schema.get("required", []) else ""
            yield [f"`{name}`{mark}", where, _type(field)]


def _type(schema: dict[str, Any]) -> str:
    """Return the type of a field in few words."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return f"{schema['$ref'].rpartition('/')[2]}"
    kinds = schema.get("anyOf") or schema.get("oneOf")
    if kinds:
        return " or ".join(_type(one) for one in kinds if one.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


# -- MCP -------------------------------------------------------------------------------------------


def mcp_page() -> str:
    """Every tool and resource as an agent receives it."""
    with tempfile.TemporaryDirectory() as home, Memory(home) as memory:
        server = create_server(memory, lambda: None)
        tools = asyncio.run(server.list_tools())
        resources = asyncio.run(server.list_resources())
        templates = asyncio.run(server.list_resource_templates())
    parts = [
        "# MCP tools",
        _WRITTEN,
        "[For agents](../mcp.md) explains how to connect one. This is the text that the agent reads.",
    ]
    for tool in tools:
        parts += [f"## `{tool.name}`", _paragraphs(tool.description or "")]
        schema = tool.input_schema
        needed = schema.get("required", [])
        rows = [
            [
                f"`{name}`" + (" (required)" if name in needed else ""),
                _type(field),
                _line(field.get("description")),
            ]
            for name, field in schema.get("properties", {}).items()
        ]
        if rows:
            parts.append(_table(["argument", "type", "meaning"], rows))
    parts.append("## Resources")
    rows = [[f"`{one.uri}`", _line(one.description)] for one in resources]
    rows += [[f"`{one.uri_template}`", _line(one.description)] for one in templates]
    parts.append(_table(["resource", "content"], rows))
    return _join(parts)


# -- Python ----------------------------------------------------------------------------------------


def python_page() -> str:
    """Every public name of the package, and every method of `Memory`."""
    parts = [
        "# Python names",
        _WRITTEN,
        "[memwell from Python](../python.md) explains them with examples.",
        "## `Memory`",
        _docstring(Memory),
    ]
    for name, member in vars(Memory).items():
        if name.startswith("_"):
            continue
        function: Any = member.fget if isinstance(member, property) else member
        mark = "" if isinstance(member, property) else _signature(function)
        parts += [f"### `{name}`", f"`Memory.{name}{mark}`", _docstring(function)]
    parts.append("## Other names")
    others = [name for name in memwell.__all__ if name not in ("Memory", "__version__")]
    rows = [[f"`{name}`", _line(getattr(memwell, name).__doc__)] for name in others]
    parts.append(_table(["name", "meaning"], rows))
    return _join(parts)


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    shown = [one for one in signature.parameters.values() if one.name != "self"]
    text = str(signature.replace(parameters=shown))
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)
    return re.sub(r"(: |-> )'([^']+)'", r"\1\2", text)  # annotations are strings


def _docstring(thing: object) -> str:
    """Return a docstring as Markdown: the arguments become a list."""
    text = inspect.getdoc(thing) or ""
    before, mark, arguments = text.partition("Args:\n")
    items = re.findall(r"^    (\w[\w, ]*): (.*?)(?=^    \w|\Z)", arguments, re.S | re.M)
    listed = "\n".join(f"- `{name}`: {_line(what)}" for name, what in items)
    return f"{_paragraphs(before)}\n\n{listed}" if mark else _paragraphs(before)


# -- Markdown --------------------------------------------------------------------------------------


def _paragraphs(text: str) -> str:
    text = inspect.cleandoc(text.replace("\b\n", "")).replace("<", "&lt;")
    return text.replace("``", "`").strip()


def _line(text: str | None) -> str:
    return _escape(" ".join((text or "").replace("``", "`").split()))


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *([_escape_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape_cell(cell: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(cell.split()))


def _join(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "http.md": http_page,
    "mcp.md": mcp_page,
    "python.md": python_page,
}

if __name__ == "__main__":
    write_all()
