"""The settings by which Claude Code runs the hooks."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memwell.surfaces.json_file import edit_file

_RECALL, _CAPTURE = ("recall", 5), ("capture", 15)
"""The commands, and the seconds after which Claude Code kills them."""
_EVENTS = {
    "SessionStart": _RECALL,
    "UserPromptSubmit": _RECALL,
    "Stop": _CAPTURE,
    "SessionEnd": _CAPTURE,
}


def hooks_block(options: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the settings that run the hooks, each command with the same options."""
    arguments = [part for name, value in options.items() if value for part in (name, value)]

    def hook_groups(command: str, seconds: int) -> list[dict[str, Any]]:
        line = shlex.join(["memwell", "hook", command, *arguments])
        return [{"hooks": [{"type": "command", "command": line, "timeout": seconds}]}]

    return {"hooks": {event: hook_groups(*command) for event, command in _EVENTS.items()}}


def install(block: Mapping[str, Any], file: Path) -> list[str]:
    """Add the hooks to a settings file; return the events that were added."""
    added = []

    def add(settings: dict[str, Any]) -> dict[str, Any]:
        hooks = settings.get("hooks", {})
        if not isinstance(hooks, dict) or not all(isinstance(old, list) for old in hooks.values()):
            raise ValueError('"hooks" is not an object of lists')
        new = dict(hooks)
        for event, groups in block["hooks"].items():
            command = groups[0]["hooks"][0]["command"]
            if json.dumps(command) not in json.dumps(hooks.get(event, [])):
                new[event] = [*hooks.get(event, []), *groups]
                added.append(event)
        return {**settings, "hooks": new} if added else settings

    edit_file(file, add, "Correct the file by hand")
    return added
