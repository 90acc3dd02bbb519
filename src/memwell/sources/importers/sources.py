"""The names after ``--from``, and which one a file looks like."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from memwell.errors import MemwellError
from memwell.sources.importers import chats, folders, memories, notion
from memwell.sources.importers.plan import ImportPlan

IMPORTERS: dict[str, Callable[[Path], ImportPlan]] = {
    chats.CHATGPT: chats.plan_chatgpt,
    chats.CLAUDE: chats.plan_claude,
    memories.MEM0: memories.plan_mem0,
    folders.OPENCLAW: folders.plan_openclaw,
    memories.HYBRID: memories.plan_hybrid_memory,
    folders.BASIC_MEMORY: folders.plan_basic_memory,
    folders.OBSIDIAN: folders.plan_obsidian,
    notion.NOTION: notion.plan_notion,
}


def plan_import(source: str, path: Path) -> ImportPlan:
    """Read an export and plan what to add; nothing is changed."""
    if source not in IMPORTERS:
        raise MemwellError(
            f"{source} is not a program that memwell imports from",
            f"Choose one of {', '.join(IMPORTERS)}",
        )
    if not path.exists():
        raise MemwellError(f"{path} does not exist", "Check the spelling")
    return IMPORTERS[source](path)


def guess_source(data: bytes) -> str:
    """Return the program whose export a file looks like; "" if it looks like none."""
    head = data[:200_000]
    signs = {
        chats.CHATGPT: (b'"mapping"',),
        chats.CLAUDE: (b'"chat_messages"',),
        memories.MEM0: (b'"memory"', b'"created_at"'),
        memories.HYBRID: (b"SQLite format 3\0",),
    }
    found = (name for name, parts in signs.items() if all(part in head for part in parts))
    return next(found, "")


def guess_archive(path: Path) -> str:
    """Return the program whose archive a ZIP file looks like."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any(name.endswith("conversations.json") for name in names):
        is_claude = any(name.endswith(("users.json", "projects.json")) for name in names)
        return chats.CLAUDE if is_claude else chats.CHATGPT
    return notion.NOTION if any(name.endswith(".md") for name in names) else ""
