"""Exports of Notion (Markdown and CSV): pages without the ids in their names, databases as tables.

Properties below the title of a page become fields of the front matter.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import posixpath
import re
from collections.abc import Container
from pathlib import Path
from urllib.parse import quote, unquote

from memwell.errors import BinaryFileError, MemwellError
from memwell.facts.guard import redact
from memwell.ingest.parse_note import decode
from memwell.ingest.readers.document import to_table
from memwell.model import Problem
from memwell.sources.importers.plan import IMPORTED, ImportPlan, read_files

NOTION = "notion"
_SUFFIXES = (".md", ".csv")
_ID = re.compile(r" ([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=$|[./_])")
_LINK = re.compile(r"\]\(([^)\s]+\.(?:md|csv))\)")
_PROPERTY = re.compile(r"([^\s:#>|\-*][^:\n]{0,60}): (.+)$")
_DATES = ("%B %d, %Y %I:%M %p", "%B %d, %Y", "%d/%m/%Y", "%Y/%m/%d")
_DATE_NAMES = ("date", "created", "created time", "creation date")


def plan_notion(path: Path) -> ImportPlan:
    """Plan the import of an export: the archive, or the folder that it was unpacked to."""
    plan = ImportPlan(NOTION)
    found = dict(read_files(path, _SUFFIXES))
    files = {name: data for name, data in found.items() if _is_taken(name, found)}
    names = _clean_names([*files])
    for name, data in files.items():
        try:
            text, _ = decode(data)
        except BinaryFileError:
            plan.problems.append(Problem(name, "holds binary data"))
            continue
        is_page = name.lower().endswith(".md")
        note = _page(name, text, names) if is_page else _database(names[name], text)
        plan.notes[f"{IMPORTED}/{NOTION}/{names[name]}"] = redact(note)
    if not plan.notes:
        raise MemwellError(
            f"{path} has no pages", 'Export the workspace from Notion as "Markdown & CSV"'
        )
    return plan


def _is_taken(name: str, found: Container[str]) -> bool:
    """Whether a file is a page or a table; of a view of a table, the whole one is taken."""
    whole = f"{name.removesuffix('.csv')}_all.csv"
    return name.lower().endswith(_SUFFIXES) and whole not in found


def _clean_names(names: list[str]) -> dict[str, str]:
    """Return the path of each file without ids; a few digits of the id tell namesakes apart."""
    clean: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        short = _ID.sub("", name).replace("_all.csv", ".csv")
        short = f"{short.removesuffix('.csv')}.csv.md" if short.endswith(".csv") else short
        if short.lower() in taken and (found := _ID.findall(name)):
            short = f"{short.removesuffix('.md')} {found[-1][:6]}.md"
        taken.add(short.lower())
        clean[name] = short.removeprefix("/").replace("../", "")
    return clean


def _page(name: str, text: str, names: dict[str, str]) -> str:
    folder, here = posixpath.dirname(name), posixpath.dirname(names[name])

    def relink(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, unquote(link[1])))
        if target not in names:
            return link[0]
        return f"]({quote(posixpath.relpath(names[target], here or '.'))})"

    fields, body = _split_properties(_LINK.sub(relink, text))
    header = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in fields)
    return f"---\n{header}---\n{body}" if header else body


def _split_properties(text: str) -> tuple[list[tuple[str, str | list[str]]], str]:
    """Return the properties that stand below the title, and the page without them."""
    lines = text.split("\n")
    at = 1 if lines[0].startswith("# ") else 0
    while at < len(lines) and not lines[at].strip():
        at += 1
    fields: list[tuple[str, str | list[str]]] = []
    end = at
    while end < len(lines) and (found := _PROPERTY.match(lines[end])):
        fields += _field(found[1].strip(), found[2].strip())
        end += 1
    if end == at or (end < len(lines) and lines[end].strip()):
        return [], text  # a paragraph, not properties
    return fields, "\n".join([*lines[:at], *lines[end:]])


def _field(name: str, value: str) -> list[tuple[str, str | list[str]]]:
    if name.lower() in _DATE_NAMES and (date := _parse_date(value)):
        return [("date", date)]
    if name.lower() in ("tags", "tag"):
        return [("tags", [tag.strip() for tag in value.split(",") if tag.strip()])]
    return [(re.sub(r"[^\w-]+", "_", name).strip("_").lower() or "property", value)]


def _parse_date(value: str) -> str | None:
    try:
        return dt.datetime.fromisoformat(value).date().isoformat()
    except ValueError:
        pass
    for form in _DATES:
        try:
            return dt.datetime.strptime(value.split(" → ")[0], form).date().isoformat()
        except ValueError:
            continue
    return None


def _database(name: str, text: str) -> str:
    rows = [row for row in csv.reader(io.StringIO(text)) if any(map(str.strip, row))]
    return f"# {Path(name).name.removesuffix('.csv.md')}\n\n{to_table(rows)}\n"
