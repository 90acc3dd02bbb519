"""The settings by which Claude Code runs the hooks."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError
from memwell.files import atomic_write

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
    settings = _read(file)
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict) or not all(
        isinstance(groups, list) for groups in hooks.values()
    ):
        raise MemwellError(
            f'"hooks" in {file} is not an object of lists', "Correct the file by hand"
        )
    added = []
    for event, groups in block["hooks"].items():
        command = groups[0]["hooks"][0]["command"]
        if json.dumps(command) not in json.dumps(hooks.get(event, [])):
            hooks.setdefault(event, []).extend(groups)
            added.append(event)
    if added:
        _write(file, settings)
    return added


def _read(file: Path) -> dict[str, Any]:
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise MemwellError(
            f"{file} cannot be read as JSON ({error})", "Correct the file"
        ) from error
    if not isinstance(settings, dict):
        raise MemwellError(f"{file} is not a JSON object", "Correct the file")
    return settings


def _write(file: Path, settings: Mapping[str, Any]) -> None:
    """Write the file atomically; it keeps its permissions, and a link stays a link."""
    file = file.resolve()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file, keep_permissions=True) as part:
            text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MemwellError(
            f"{file} cannot be written ({error})", "Check its permissions"
        ) from error
