"""What a person said in a session, out of the transcript that the agent writes.

Claude Code writes a JSON object a line. Those of `type` "user" hold what was typed, but also what
tools returned, what commands printed and what was put in by the program itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NOT_TYPED = (
    "isMeta",
    "isSidechain",
    "isCompactSummary",
    "isVisibleInTranscriptOnly",
    "toolUseResult",
)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a transcript was read: bytes, and the lines that they end."""

    offset: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """What a person said, in which line (from 1), and where reading goes on after it."""

    text: str
    line: int
    after: Position


def read_messages(file: Path, start: Position) -> Iterator[Message]:
    """Yield what was said after a mark, and at last an empty message for what is read by then.

    A file that is shorter than it was is another one, which is read from its beginning. A last
    line that is being written is left for the next time.
    """
    with file.open("rb") as opened:
        if file.stat().st_size < start.offset:
            start = Position()
        opened.seek(start.offset)
        offset, line = start.offset, start.line
        for raw in opened:
            told = _parse_line(raw)
            if told is None and not raw.endswith(b"\n"):
                break
            number = line + 1
            offset, line = offset + len(raw), line + raw.endswith(b"\n")
            if text := _typed_text(told):
                yield Message(text, number, Position(offset, line))
    yield Message("", line, Position(offset, line))


def _parse_line(raw: bytes) -> Any:
    if b'"user"' not in raw and raw.endswith(b"\n"):
        return None  # most lines are not a person's, and some are megabytes long
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _typed_text(told: Any) -> str:
    """Return what a person typed, if a line holds that."""
    if not isinstance(told, dict) or any(told.get(name) for name in _NOT_TYPED):
        return ""
    message = told.get("message", told)
    if not isinstance(message, dict) or told.get("type", message.get("role")) != "user":
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = [block for block in _list(content) if isinstance(block, dict)]
    if any(block.get("type") == "tool_result" for block in blocks):
        return ""
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
