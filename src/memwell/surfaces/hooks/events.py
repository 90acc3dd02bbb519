"""The event that an agent passes to its hooks: a JSON object; every field may be missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.errors import MemwellError

if TYPE_CHECKING:
    from memwell.config.fields import Value
    from memwell.memory import Memory

PROMPT, SESSION_START = "UserPromptSubmit", "SessionStart"
STOP, SESSION_END = "Stop", "SessionEnd"
_NAMES = {
    "BeforeAgent": PROMPT,  # Gemini CLI
    "AfterAgent": STOP,
    "sessionStart": SESSION_START,  # Cursor
    "beforeSubmitPrompt": PROMPT,
    "pre_user_prompt": PROMPT,  # Windsurf
}
"""The events of other programs, by the names that Claude Code and Codex give them."""


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event in an agent's session."""

    name: str = ""
    """As Claude Code calls it."""
    native_name: str = ""
    """As the program calls it."""
    session: str = ""
    folder: Path | None = None
    """The folder that the agent works in, if it exists."""
    prompt: str = ""
    source: str = ""
    """How a session began: startup, resume, clear or compact."""
    transcript: Path | None = None
    stop_hook_active: bool = False
    """Whether the agent continues only because a hook told it to."""


@dataclass(frozen=True, slots=True)
class HookTarget:
    """The memory that the options of the command name: agent, user and workspace."""

    agent: str | None = None
    user: str = ""
    workspace: str | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)

    def folder(self, event: HookEvent) -> tuple[Path, bool]:
        """Return the folder of an event, and whether it must be a workspace."""
        if self.workspace:
            return Path(self.workspace).expanduser().absolute(), True
        return event.folder or Path.cwd(), False

    def open_memory(
        self, event: HookEvent, session: str = "", settings: Mapping[str, Value] | None = None
    ) -> Memory:
        """Open the memory for an event."""
        from memwell.memory import Memory

        folder, only_there = self.folder(event)
        workspace, fallback = (folder, None) if only_there else (None, folder)
        return Memory(
            workspace=workspace,
            fallback_workspace=fallback,
            agent=self.agent,
            user=self.user,
            session=session,
            settings={**self.settings, **(settings or {})},
        )


def read_event(text: str) -> HookEvent:
    """Read an event as one of the programs writes it."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise MemwellError("The input is not a JSON object", "Run this from an agent's hook")
    fields = _add_common_fields(fields)
    folder, transcript = (_path(fields, name) for name in ("cwd", "transcript_path"))
    native = _text(fields, "hook_event_name")
    return HookEvent(
        name=_NAMES.get(native, native),
        native_name=native,
        session=_text(fields, "session_id"),
        folder=folder if folder and folder.is_dir() else None,
        prompt=_text(fields, "prompt"),
        source=_text(fields, "source"),
        transcript=transcript,
        stop_hook_active=fields.get("stop_hook_active") is True,
    )


def _add_common_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return an event of Cursor or Windsurf with the fields that the other programs have."""
    roots, info = fields.get("workspace_roots"), fields.get("tool_info")
    more = {
        "hook_event_name": fields.get("agent_action_name"),
        "session_id": fields.get("conversation_id") or fields.get("trajectory_id"),
        "cwd": roots[0] if isinstance(roots, list) and roots else None,
        "prompt": info.get("user_prompt") if isinstance(info, dict) else None,
    }
    return {**{name: value for name, value in more.items() if value}, **fields}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _path(fields: dict[str, Any], name: str) -> Path | None:
    value = _text(fields, name)
    return Path(value).expanduser() if value and "\0" not in value else None
