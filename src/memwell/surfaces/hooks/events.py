"""What an agent tells its hooks: one JSON object, of which anything may be missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.errors import MemwellError

if TYPE_CHECKING:
    from memwell.config.fields import Value
    from memwell.memory import Memory

PROMPT, SESSION_START, STOP, SESSION_END = (
    "UserPromptSubmit",
    "SessionStart",
    "Stop",
    "SessionEnd",
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in an agent's session."""

    name: str = ""
    session: str = ""
    folder: Path | None = None
    """Where the agent works, if that is there."""
    prompt: str = ""
    source: str = ""
    """How a session began: startup, resume, clear or compact."""
    transcript: Path | None = None
    stop_hook_active: bool = False
    """Whether the agent goes on only because a hook told it to."""


@dataclass(frozen=True, slots=True)
class HookTarget:
    """Whose memory, and where: what the options of the command say."""

    agent: str | None = None
    user: str = ""
    workspace: str | None = None

    def folder(self, event: Event) -> tuple[Path, bool]:
        """Return the folder that an event is about, and whether it has to be a workspace."""
        if self.workspace:
            return Path(self.workspace).expanduser().absolute(), True
        return event.folder or Path.cwd(), False

    def open_memory(
        self, event: Event, session: str = "", settings: Mapping[str, Value] | None = None
    ) -> Memory:
        """Open the memory that an event is about."""
        from memwell.memory import Memory

        folder, only_there = self.folder(event)
        workspace, near = (folder, None) if only_there else (None, folder)
        return Memory(
            workspace=workspace,
            fallback_workspace=near,
            agent=self.agent,
            user=self.user,
            session=session,
            settings=settings,
        )


def read_event(text: str) -> Event:
    """Read an event as Claude Code writes it."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise MemwellError("The input is no JSON object", "Call this from an agent's hook")
    folder, transcript = (_path(told, name) for name in ("cwd", "transcript_path"))
    return Event(
        name=_text(told, "hook_event_name"),
        session=_text(told, "session_id"),
        folder=folder if folder and folder.is_dir() else None,
        prompt=_text(told, "prompt"),
        source=_text(told, "source"),
        transcript=transcript,
        stop_hook_active=told.get("stop_hook_active") is True,
    )


def _text(told: dict[str, Any], name: str) -> str:
    value = told.get(name)
    return value if isinstance(value, str) else ""


def _path(told: dict[str, Any], name: str) -> Path | None:
    value = _text(told, name)
    return Path(value).expanduser() if value and "\0" not in value else None
