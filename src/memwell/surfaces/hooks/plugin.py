"""A plugin for Claude Code: the hooks and the MCP server of memwell in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memwell import __version__
from memwell.files import atomic_write
from memwell.surfaces.command import find_command
from memwell.surfaces.hooks.programs import PROGRAMS, hooks_block
from memwell.surfaces.json_file import to_json

_ABOUT = {
    "name": "memwell",
    "description": "Long-term memory: recall before each prompt, capture after it, and tools.",
    "author": {"name": "memwell"},
}
_COMMAND = """---
description: Search the memory of notes and facts
argument-hint: [question]
---

Search the memory with memory_search for: $ARGUMENTS

Answer from the hits and cite them. If nothing fits, say so.
"""


def plugin_files() -> dict[str, str]:
    """Return the files of the plugin, by their paths in its folder."""
    server = {"command": find_command(is_desktop=False), "args": ["mcp"]}
    manifest: dict[str, Any] = {**_ABOUT, "version": __version__, "license": "Apache-2.0"}
    marketplace = {
        "name": "memwell",
        "owner": {"name": "memwell"},
        "metadata": {"description": "The plugin of memwell, for `/plugin marketplace add`."},
        "plugins": [{**_ABOUT, "source": "./"}],
    }
    return {
        ".claude-plugin/plugin.json": to_json(manifest),
        ".claude-plugin/marketplace.json": to_json(marketplace),
        ".mcp.json": to_json({"mcpServers": {"memwell": server}}),
        "hooks/hooks.json": to_json(hooks_block(PROGRAMS["claude-code"], {})),
        "commands/memory.md": _COMMAND,
    }


def write_plugin(folder: Path) -> list[str]:
    """Write the files of the plugin into a folder; return their paths."""
    files = plugin_files()
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as part:
            part.write_text(text, encoding="utf-8")
    return [*files]
