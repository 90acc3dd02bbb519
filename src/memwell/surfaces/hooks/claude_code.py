"""The settings with which Claude Code calls the hooks."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError
from memwell.files import atomic_write

_RECALL, _CAPTURE = ("recall", 5), ("capture", 15)
"""The commands, and the seconds after which Claude Code would end them."""
_EVENTS = {
    "SessionStart": _RECALL,
    "UserPromptSubmit": _RECALL,
    "Stop": _CAPTURE,
    "SessionEnd": _CAPTURE,
}


def hooks_block(options: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the part of the settings that names the hooks, with options for all of them."""
    given = [part for name, value in options.items() if value for part in (name, value)]

    def called(command: str, seconds: int) -> list[dict[str, Any]]:
        line = shlex.join(["memwell", "hook", command, *given])
        return [{"hooks": [{"type": "command", "command": line, "timeout": seconds}]}]

    return {"hooks": {event: called(*what) for event, what in _EVENTS.items()}}


def install(block: Mapping[str, Any], file: Path) -> list[str]:
    """Add the hooks to a file of settings; return the events that had none of ours."""
    settings = _read(file)
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict) or not all(
        isinstance(groups, list) for groups in hooks.values()
    ):
        raise MemwellError(f'"hooks" in {file} is not as Claude Code has it', "Mend it by hand")
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
        raise MemwellError(f"{file} cannot be read as JSON ({error})", "Mend it first") from error
    if not isinstance(settings, dict):
        raise MemwellError(f"{file} holds no JSON object", "Mend it first")
    return settings


def _write(file: Path, settings: Mapping[str, Any]) -> None:
    """Write the file whole or not at all; it keeps its permissions, and a link stays one."""
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
