"""A server whose tool list and errors are written for a model, which pays for every token.

A model cannot run a command of memwell: an error names a tool instead, or asks the user. The tool
list leaves out the titles that pydantic adds to each argument.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp_types import CallToolResult, InputRequiredResult, Tool
from pydantic import ValidationError

from memwell.errors import MemwellError, RefusedError

_COMMAND = "`memwell "
_MISSING = ("There is no fact", "There is no note")
_FIND_FIRST = "Use a citation that memory_search or memory_list returned"
_SCHEMAS_BY_NAME = ("properties", "$defs")
"""Objects whose keys are names, not words of JSON Schema: an argument may be called title."""
_NULL = {"type": "null"}
_LONGEST_VALUE = 40


class ModelServer(MCPServer):
    """A server for models."""

    async def list_tools(self) -> list[Tool]:
        """Return the tools with short schemas."""
        return [
            tool.model_copy(
                update={
                    "input_schema": shorten_schema(tool.input_schema),
                    "output_schema": tool.output_schema and shorten_schema(tool.output_schema),
                }
            )
            for tool in await super().list_tools()
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; an error is a sentence about the argument or the fact that is wrong."""
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_describe_arguments(error.__cause__)) from error.__cause__
            raise ToolError(str(error).removeprefix(f"Error executing tool {name}: ")) from error


def shorten_schema(schema: Any) -> Any:
    """Return a schema without titles, and without the null of an argument that may be left out."""
    if isinstance(schema, list):
        return [shorten_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    short = {
        key: {name: shorten_schema(inner) for name, inner in value.items()}
        if key in _SCHEMAS_BY_NAME
        else shorten_schema(value)
        for key, value in schema.items()
        if key != "title"
    }
    choices = [choice for choice in short.get("anyOf", []) if choice != _NULL]
    if len(choices) == 1 and "default" in short and short["default"] is None:
        del short["anyOf"], short["default"]
        short |= choices[0]
    return short


def translate_errors(
    call: Callable[..., Any], to_error: Callable[[str], Exception]
) -> Callable[..., Any]:
    """Return a function that raises memwell's errors as errors of the protocol."""

    @wraps(call)
    def translated(*arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except MemwellError as error:
            raise to_error(_to_model_text(error)) from error

    return translated


def _to_model_text(error: MemwellError) -> str:
    """Return an error with a remedy that a model can follow."""
    remedy = error.remedy
    if isinstance(error, RefusedError):
        remedy = remedy.partition(", or set ")[0]  # no tool has that argument
    elif _COMMAND in remedy:
        remedy = _FIND_FIRST if error.what.startswith(_MISSING) else f"Tell the user: {remedy}"
    return f"{error.what}. {remedy}" if remedy else error.what


def _describe_arguments(error: ValidationError) -> str:
    """Return a sentence about each argument that is wrong."""
    sentences = []
    for wrong in error.errors(include_url=False):
        name = ".".join(str(part) for part in wrong["loc"])
        if wrong["type"] == "missing":
            sentences.append(f"The argument {name} is missing.")
        else:
            rule = wrong["msg"].replace("Input should", "It should")
            value = repr(wrong["input"])
            shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
            sentences.append(f"The argument {name} = {shown} is wrong. {rule}.")
    return " ".join(sentences)
