"""Jupyter notebooks: text, code and printed output; the position is the number of the cell."""

from __future__ import annotations

import json
from typing import Any

from memwell.errors import UnreadableDocumentError
from memwell.ingest.markdown import Kind, blocks
from memwell.ingest.readers.document import Document, Outline

_MOST_OUTPUT = 2_000
"""Characters of the output of a cell: more is data, not a note."""


def read(data: bytes, name: str) -> Document:
    """Convert the cells of a notebook of version 3 or 4."""
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
        cells = notebook.get("cells") or [
            cell for sheet in notebook.get("worksheets", []) for cell in sheet["cells"]
        ]
        language = str(notebook.get("metadata", {}).get("kernelspec", {}).get("language", ""))
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        raise UnreadableDocumentError("it is not a valid notebook") from None
    outline = Outline()
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict):
            _add_cell(outline, cell, f"cell={number}", language)
    return outline.finish()


def _add_cell(outline: Outline, cell: dict[str, Any], position: str, language: str) -> None:
    source = _joined(cell.get("source", cell.get("input", "")))
    outline.end_section()
    match cell.get("cell_type"):
        case "markdown":
            _add_markdown(outline, source, position)
        case "heading":
            outline.add_heading(int(cell.get("level", 1)), source, position)
        case "code":
            outline.add_block(_fenced(source, language), position)
            for output in cell.get("outputs") or []:
                if isinstance(output, dict) and (text := _printed(output).strip()):
                    outline.add_block(_fenced(text[:_MOST_OUTPUT], ""), position)
        case _:
            outline.add_block(source, position)


def _add_markdown(outline: Outline, source: str, position: str) -> None:
    """Add the text of a cell; its headings are those of the cells below, too."""
    lines = source.splitlines(keepends=True)
    for block in blocks(lines):
        if block.kind is Kind.HEADING:
            outline.add_heading(block.level, block.title, position)
        else:
            outline.add_block("".join(lines[block.first : block.end]), position)


def _fenced(text: str, language: str) -> str:
    fence = "~~~~" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}" if text.strip() else ""


def _printed(output: dict[str, Any]) -> str:
    data = output.get("data")
    found = data.get("text/plain") if isinstance(data, dict) else output.get("text")
    return _joined(found or output.get("evalue", ""))


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
