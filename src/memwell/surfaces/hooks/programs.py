"""The files by which programs run the hooks.

program       recall                            capture            file
claude-code   SessionStart, UserPromptSubmit    Stop, SessionEnd   .claude/settings.json
codex         SessionStart, UserPromptSubmit    UserPromptSubmit   .codex/hooks.json
gemini-cli    SessionStart, BeforeAgent         AfterAgent         .gemini/settings.json
cursor        sessionStart                      beforeSubmitPrompt .cursor/hooks.json
windsurf      (its hooks cannot add context)    pre_user_prompt    .windsurf/hooks.json
opencode      chat.message                      chat.message       .opencode/plugins/memwell.js
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memwell.files import atomic_write
from memwell.surfaces.command import find_command
from memwell.surfaces.json_file import edit_file, to_json

_RECALL, _CAPTURE = "recall", "capture"
_SECONDS = {_RECALL: 5, _CAPTURE: 15}
"""After so many seconds a program kills the command."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program with hooks."""

    file: str
    """Its file in a project."""
    commands: Sequence[tuple[str, str]]
    """Pairs of an event and the command to run at it."""
    is_desktop: bool = False
    groups: bool = True
    """Whether an event has groups of hooks, as in Claude Code, or hooks alone."""
    time_unit: int = 1
    """How many of its units of time are a second; 0 if it has no limit."""
    extra_fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the file."""
    hook_fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of each hook."""


_AT_PROMPT = (("SessionStart", _RECALL), ("UserPromptSubmit", _RECALL))
_TYPED = {"type": "command"}
PROGRAMS = {
    "claude-code": Program(
        ".claude/settings.json",
        [*_AT_PROMPT, ("Stop", _CAPTURE), ("SessionEnd", _CAPTURE)],
        hook_fields=_TYPED,
    ),
    "codex": Program(
        ".codex/hooks.json", [*_AT_PROMPT, ("UserPromptSubmit", _CAPTURE)], hook_fields=_TYPED
    ),
    "gemini-cli": Program(
        ".gemini/settings.json",
        [("SessionStart", _RECALL), ("BeforeAgent", _RECALL), ("AfterAgent", _CAPTURE)],
        time_unit=1000,
        hook_fields=_TYPED,
    ),
    "cursor": Program(
        ".cursor/hooks.json",
        [("sessionStart", _RECALL), ("beforeSubmitPrompt", _CAPTURE)],
        is_desktop=True,
        groups=False,
        extra_fields={"version": 1},
    ),
    "windsurf": Program(
        ".windsurf/hooks.json",
        [("pre_user_prompt", _CAPTURE)],
        is_desktop=True,
        groups=False,
        time_unit=0,
        hook_fields={"show_output": False},
    ),
    "opencode": Program(".opencode/plugins/memwell.js", []),
}


def hook_text(program: Program, options: Mapping[str, str | None]) -> str:
    """Return the content of a file that has only the hooks, each command with the same options."""
    if program.file.endswith(".js"):
        return _script(program, options)
    return to_json(hooks_block(program, options))


def hooks_block(program: Program, options: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the settings that run the hooks."""
    hooks: dict[str, list[Any]] = {}
    for event, command in program.commands:
        line = shlex.join(_command(program, command, options))
        limit = {"timeout": _SECONDS[command] * program.time_unit} if program.time_unit else {}
        hook = {**program.hook_fields, "command": line, **limit}
        hooks.setdefault(event, []).append({"hooks": [hook]} if program.groups else hook)
    return {**program.extra_fields, "hooks": hooks}


def install(program: Program, options: Mapping[str, str | None], file: Path) -> list[str]:
    """Add the hooks to a file; return the events that were added."""
    if program.file.endswith(".js"):
        return _write_script(_script(program, options), file)
    block, added = hooks_block(program, options), dict[str, None]()

    def add(settings: dict[str, Any]) -> dict[str, Any]:
        hooks = settings.get("hooks", {})
        if not isinstance(hooks, dict) or not all(isinstance(old, list) for old in hooks.values()):
            raise ValueError('"hooks" is not an object of lists')
        new = dict(hooks)
        for event, entries in block["hooks"].items():
            for entry in entries:
                hook = entry["hooks"][0] if program.groups else entry
                if json.dumps(hook["command"]) not in json.dumps(hooks.get(event, [])):
                    new[event] = [*new.get(event, []), entry]
                    added[event] = None
        return {**program.extra_fields, **settings, "hooks": new} if added else settings

    edit_file(file, add, "Correct the file by hand")
    return [*added]


def _command(program: Program, name: str, options: Mapping[str, str | None]) -> list[str]:
    arguments = [part for option, value in options.items() if value for part in (option, value)]
    return [find_command(is_desktop=program.is_desktop), "hook", name, *arguments]


def _script(program: Program, options: Mapping[str, str | None]) -> str:
    template = Path(__file__).with_name("opencode.js").read_text(encoding="utf-8")
    for name in (_RECALL, _CAPTURE):
        template = template.replace(
            f'"{name} command"', json.dumps(_command(program, name, options))
        )
    return template


def _write_script(script: str, file: Path) -> list[str]:
    if file.is_file() and file.read_text(encoding="utf-8") == script:
        return []
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as part:
        part.write_text(script, encoding="utf-8")
    return ["chat.message"]
