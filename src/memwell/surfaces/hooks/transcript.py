"""The messages of the user, read from the transcript that an agent writes.

Claude Code writes one JSON object per line. Lines of `type` "user" contain typed text, but also
results of tools, output of commands and text that the program itself inserted.
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
    """A position in a transcript: bytes and complete lines before it."""

    offset: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the user, its line (from 1), and the position after it."""

    text: str
    line: int
    after: Position


def read_messages(file: Path, start: Position) -> Iterator[Message]:
    """Yield the messages after a position, then an empty message with the last position.

    A file that became shorter is a new one and is read from its beginning. An incomplete last line
    is still being written and is left for the next time.
    """
    with file.open("rb") as stream:
        if file.stat().st_size < start.offset:
            start = Position()
        stream.seek(start.offset)
        offset, line = start.offset, start.line
        for raw in stream:
            parsed = _parse_line(raw)
            if parsed is None and not raw.endswith(b"\n"):
                break
            number = line + 1
            offset, line = offset + len(raw), line + raw.endswith(b"\n")
            if text := _typed_text(parsed):
                yield Message(text, number, Position(offset, line))
    yield Message("", line, Position(offset, line))


def _parse_line(raw: bytes) -> Any:
    if b'"user"' not in raw and raw.endswith(b"\n"):
        return None  # most lines are not the user's, and some have megabytes
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _typed_text(parsed: Any) -> str:
    """Return the text that the user typed in a line; "" if there is none."""
    if not isinstance(parsed, dict) or any(parsed.get(name) for name in _NOT_TYPED):
        return ""
    message = parsed.get("message", parsed)
    if not isinstance(message, dict) or parsed.get("type", message.get("role")) != "user":
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return content
    listed = content if isinstance(content, list) else []
    blocks = [block for block in listed if isinstance(block, dict)]
    if any(block.get("type") == "tool_result" for block in blocks):
        return ""
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    return "\n\n".join(text for text in texts if isinstance(text, str))
