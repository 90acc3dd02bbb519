"""Sessions of OpenClaw: rows of a SQLite database for each agent, or files of older versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from memwell.sources.transcripts.turns import (
    ASSISTANT,
    USER,
    FileState,
    Turn,
    join_texts,
    new_turn,
    open_database,
    read_new_lines,
    text_of,
    to_object,
    tool_folder,
)

_LAST_EVENTS = "SELECT session_id, max(seq) FROM transcript_events GROUP BY session_id"
_EVENTS = """
    SELECT event_json FROM transcript_events
    WHERE session_id = ?1 AND (seq > ?2 OR seq = (
        SELECT min(seq) FROM transcript_events WHERE session_id = ?1
    )) ORDER BY seq
"""
"""The events of a session after one of them, and its first event: it names the folder."""


def find() -> Iterable[Path]:
    """Return the databases of all agents, and the files of older versions."""
    folder = tool_folder("OPENCLAW_STATE_DIR", ".openclaw")
    files = sorted(folder.glob("agents/*/sessions/*.jsonl"))
    return [*files, *sorted(folder.glob("agents/*/agent/openclaw-agent.sqlite"))]


def read(file: Path, state: FileState) -> Iterator[Turn]:
    """Yield the turns that are new in a file or a database."""
    if file.suffix == ".jsonl":
        yield from read_new_lines(file, state, _parse)
    else:
        yield from _read_database(file, state)


def _read_database(file: Path, state: FileState) -> Iterator[Turn]:
    """Yield the turns that are new; `seen` has the number of each session's last event."""
    pairs = (one.partition(" ") for one in state.seen)
    known = {session: int(number) for number, _, session in pairs if number.isdigit()}
    new: dict[str, list[str]] = {}
    with open_database(file) as database:
        rows: list[Any] = database.execute(_LAST_EVENTS).fetchall()
        last: dict[str, int] = dict(rows)
        for session, number in sorted(last.items()):
            after = known.get(session, -1)
            if number > after:
                events: list[Any] = database.execute(_EVENTS, (session, after)).fetchall()
                new[session] = [event for (event,) in events]
    for session, added in new.items():
        imported = file.parent.parent / "sessions" / f"{session}.jsonl"
        is_old = session not in known and imported.is_file()
        read_before = _message_ids(imported) if is_old else frozenset[str]()
        state.session, state.project = session, ""
        for line in map(to_object, added):
            if text_of(line.get("id")) not in read_before:
                yield from _parse(line, state)
    state.seen = [f"{number} {session}" for session, number in last.items()]


def _message_ids(file: Path) -> frozenset[str]:
    """Return the ids of the messages in a session file that OpenClaw copied to its database."""
    with file.open(encoding="utf-8", errors="replace") as stream:
        lines = [to_object(line) for line in stream]
    return frozenset(text_of(line.get("id")) for line in lines if line.get("type") == "message")


def _parse(line: dict[str, Any], state: FileState) -> Iterator[Turn]:
    if line.get("type") == "session":
        state.session = state.session or text_of(line.get("id"))
        state.project = state.project or text_of(line.get("cwd"))
    message = line.get("message")
    if line.get("type") != "message" or not isinstance(message, dict):
        return
    if message.get("role") in (USER, ASSISTANT):
        at = line.get("timestamp") or message.get("timestamp")
        yield from new_turn(message["role"], join_texts(message.get("content")), at, state)
