"""Folders of Markdown that are indexed where they are: Obsidian, OpenClaw, basic-memory.

The observations of basic-memory become facts, too.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memwell.errors import BinaryFileError, MemwellError
from memwell.ingest.front_matter import split_front_matter
from memwell.ingest.parse_note import decode
from memwell.model import Problem, cite_lines
from memwell.sources.importers.plan import ImportedFact, ImportPlan
from memwell.sources.transcripts.turns import parse_time
from memwell.store.contract.values import CONVENTIONAL

OBSIDIAN, OPENCLAW, BASIC_MEMORY = "obsidian", "openclaw", "basic-memory"
_OBSERVATION = re.compile(r"\s*[-*] \[([^\[\]()]{2,40})\] (?!\()(.+?)\s*$")
_CONTEXT = re.compile(r"\s*\(([^()]*)\)$")
_HASHTAG = re.compile(r"(?:^|\s)#([\w/-]+)")


def plan_obsidian(path: Path) -> ImportPlan:
    """Plan the import of a vault."""
    plan = ImportPlan(OBSIDIAN, folders=[_require_folder(path)])
    if not (path / ".obsidian").is_dir():
        what = "has no folder .obsidian; it is indexed as a folder of notes"
        plan.problems.append(Problem(str(path), what))
    return plan


def plan_openclaw(path: Path) -> ImportPlan:
    """Plan the import of a workspace, or of all workspaces in the folder of OpenClaw."""
    folder = _require_folder(path)
    if _is_workspace(folder):
        return ImportPlan(OPENCLAW, folders=[folder])
    found = [one for one in sorted(folder.glob("workspace*")) if one.is_dir()]
    if not found:
        raise MemwellError(
            f"{path} has no workspace of OpenClaw", "Name ~/.openclaw, or the workspace itself"
        )
    return ImportPlan(OPENCLAW, folders=found)


def _is_workspace(folder: Path) -> bool:
    return any((folder / name).exists() for name in CONVENTIONAL if name.endswith(".md"))


def plan_basic_memory(path: Path) -> ImportPlan:
    """Plan the import of a project: its notes, and its observations as facts."""
    plan = ImportPlan(BASIC_MEMORY, folders=[_require_folder(path)])
    for file in sorted(path.rglob("*.md")):
        try:
            text, _ = decode(file.read_bytes())
            modified = dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC)
        except (OSError, BinaryFileError, OverflowError) as error:
            plan.problems.append(Problem(str(file), f"cannot be read: {error}"))
            continue
        plan.facts += _observations(file.relative_to(path).as_posix(), text, modified)
    return plan


def _observations(name: str, text: str, modified: dt.datetime) -> Iterator[ImportedFact]:
    fields, _, _ = split_front_matter(text)
    key = str(fields.get("permalink") or name)
    created = _date(fields, "created", "created_at", "date") or modified
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = line.strip()[:3]
        if mark in ("```", "~~~"):
            fence = "" if fence == mark else fence or mark
        found = None if fence else _OBSERVATION.match(line)
        if found is None:
            continue
        category, content = found[1].strip(), found[2]
        context = _CONTEXT.search(content)
        content = _CONTEXT.sub("", content)
        tags = _HASHTAG.findall(content)
        plain = " ".join(_HASHTAG.sub(" ", content).split())
        title = str(fields.get("title") or Path(name).stem)
        yield ImportedFact(
            key=f"{key}#{category}:{content}",
            text=f"{title}: {plain}" + (f" ({context[1]})" if context and context[1] else ""),
            created=created,
            confirmed=_date(fields, "modified", "updated_at"),
            category=category.lower(),
            tags=tuple(tags),
            origin=cite_lines(name, number, number),
        )


def _date(fields: dict[str, Any], *names: str) -> dt.datetime | None:
    return next((at for name in names if (at := parse_time(fields.get(name)))), None)


def _require_folder(path: Path) -> Path:
    if not path.is_dir():
        raise MemwellError(f"{path} is not a folder", "Name the folder that has the notes")
    return path
