"""The agents whose sessions memwell reads: where each keeps them, and what a line means.

docs/importing.md names the versions whose formats these are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from memwell.sources.transcripts import openclaw, opencode
from memwell.sources.transcripts.turns import (
    ASSISTANT,
    USER,
    FileState,
    Turn,
    join_texts,
    new_turn,
    read_compressed,
    read_new_lines,
    text_of,
    tool_folder,
)

_INSERTED_BY_CLAUDE = ("isMeta", "isSidechain", "isCompactSummary", "toolUseResult")
_INSERTED_BY_CODEX = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")
_SEEN = 200
_COMPRESSED = ".zst"


@dataclass(frozen=True, slots=True)
class Tool:
    """An agent program."""

    name: str
    find: Callable[[], Iterable[Path]]
    """Returns the files of all its sessions."""
    read: Callable[[Path, FileState], Iterator[Turn]]
    """Yields the turns that are new in a file, and updates the state."""


# -- Claude Code -----------------------------------------------------------------------------------


def _find_claude_code() -> Iterable[Path]:
    return sorted((tool_folder("CLAUDE_CONFIG_DIR", ".claude") / "projects").glob("*/*.jsonl"))


def _parse_claude_code(line: dict[str, Any], state: FileState) -> Iterator[Turn]:
    state.session = state.session or text_of(line.get("sessionId"))
    state.project = state.project or text_of(line.get("cwd"))
    message = line.get("message")
    if line.get("type") not in (USER, ASSISTANT) or not isinstance(message, dict):
        return
    content = message.get("content")
    is_result = isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )
    if is_result or any(line.get(name) for name in _INSERTED_BY_CLAUDE):
        return
    text = join_texts(content)
    if not text.startswith(("<command-", "<local-command-")):
        yield from new_turn(line["type"], text, line.get("timestamp"), state)


# -- Codex CLI -------------------------------------------------------------------------------------


def _find_codex() -> Iterable[Path]:
    """Return the sessions, each by the name that it has before it is compressed."""
    home = tool_folder("CODEX_HOME", ".codex")
    files = (
        file
        for folder in ("sessions", "archived_sessions")
        for file in (home / folder).rglob("rollout-*.jsonl*")
    )
    return sorted({_plain_name(file) for file in files if file.suffix in (".jsonl", _COMPRESSED)})


def _plain_name(file: Path) -> Path:
    return file.with_suffix("") if file.suffix == _COMPRESSED else file


def _read_codex(file: Path, state: FileState) -> Iterator[Turn]:
    compressed = file.with_name(file.name + _COMPRESSED)
    if compressed.exists() and not file.exists():
        yield from read_compressed(compressed, state, _parse_codex)
    else:
        yield from read_new_lines(file, state, _parse_codex)


def _parse_codex(line: dict[str, Any], state: FileState) -> Iterator[Turn]:
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return
    if line.get("type") == "session_meta":
        state.session = state.session or text_of(payload.get("id"))
        state.project = state.project or text_of(payload.get("cwd"))
    is_message = line.get("type") == "response_item" and payload.get("type") == "message"
    if is_message and payload.get("role") in (USER, ASSISTANT):
        text = join_texts(payload.get("content"), ("input_text", "output_text"))
        if not text.lstrip().startswith(_INSERTED_BY_CODEX):
            yield from new_turn(payload["role"], text, line.get("timestamp"), state)


# -- Gemini CLI ------------------------------------------------------------------------------------


def _find_gemini_cli() -> Iterable[Path]:
    folder = tool_folder("GEMINI_CLI_HOME", ".gemini")
    folder = folder if folder.name == ".gemini" else folder / ".gemini"
    return sorted(folder.glob("tmp/*/chats/session-*.json*"))


def _read_gemini_cli(file: Path, state: FileState) -> Iterator[Turn]:
    root = file.parent.parent / ".project_root"
    if not state.project and root.is_file():
        state.project = root.read_text(encoding="utf-8", errors="replace").strip()
    if file.suffix == ".jsonl":
        yield from read_new_lines(file, state, _parse_gemini_cli)
        return
    if file.stat().st_size == state.offset:  # the whole file is written again each time
        return
    try:
        record = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return
    if isinstance(record, dict):
        state.begin_again()
        state.offset = file.stat().st_size
        yield from _parse_gemini_cli(record, state)


def _parse_gemini_cli(line: dict[str, Any], state: FileState) -> Iterator[Turn]:
    state.session = state.session or text_of(line.get("sessionId"))
    changed = line.get("$set")
    listed = (changed if isinstance(changed, dict) else line).get("messages")
    listed = listed if isinstance(listed, list) else []
    messages = [one for one in listed if isinstance(one, dict)] if listed else [line]
    # A checkpoint repeats all messages, of which only the last ones are remembered as seen.
    known = [at for at, message in enumerate(messages) if message.get("id") in state.seen]
    for message in messages[known[-1] + 1 if known else 0 :]:
        yield from _parse_gemini_message(message, state)


def _parse_gemini_message(message: dict[str, Any], state: FileState) -> Iterator[Turn]:
    """Yield a message the first time that it has text: it is written again when it grows."""
    key, kind = text_of(message.get("id")), message.get("type")
    text = join_texts(message.get("displayContent") or message.get("content"))
    if kind not in (USER, "gemini") or not key or not text.strip() or key in state.seen:
        return
    state.seen = [*state.seen, key][-_SEEN:]
    speaker = USER if kind == USER else ASSISTANT
    yield from new_turn(speaker, text, message.get("timestamp"), state)


# --------------------------------------------------------------------------------------------------

TOOLS = {
    tool.name: tool
    for tool in (
        Tool("claude-code", _find_claude_code, partial(read_new_lines, parse=_parse_claude_code)),
        Tool("codex", _find_codex, _read_codex),
        Tool("openclaw", openclaw.find, openclaw.read),
        Tool("gemini-cli", _find_gemini_cli, _read_gemini_cli),
        Tool("opencode", opencode.find, opencode.read),
    )
}
