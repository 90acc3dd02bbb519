"""Sessions of opencode: rows of its SQLite database, read from the last message on."""

from __future__ import annotations

import json
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
    parse_time,
    to_object,
    tool_folder,
)

_MESSAGES = """
    SELECT m.id, m.time_created, m.data, s.id, s.directory,
           (SELECT json_group_array(json(p.data)) FROM
               (SELECT data FROM part WHERE message_id = m.id ORDER BY id) p)
    FROM message m JOIN session s ON s.id = m.session_id
    WHERE m.time_created >= ? AND s.parent_id IS NULL ORDER BY m.time_created, m.id
"""
_SEEN = 200
_PATIENCE_MS = 3_600_000
"""An answer that has not ended after this time never will: its program was closed."""


def find() -> Iterable[Path]:
    """Return the database, if there is one."""
    folder = tool_folder("XDG_DATA_HOME", ".local", "share")
    return sorted((folder / "opencode").glob("opencode*.db"))


def read(file: Path, state: FileState) -> Iterator[Turn]:
    """Yield the messages that are new; `offset` is the time of the last one, in milliseconds."""
    with open_database(file) as database:
        rows: list[Any] = database.execute(_MESSAGES, (state.offset,)).fetchall()
    newest = max((row[1] for row in rows), default=0)
    for key, created, data, session, folder, parts in rows:
        message = to_object(data)
        if key in state.seen:
            continue
        is_open = message.get("role") == ASSISTANT and not _is_complete(message)
        if is_open and newest - created < _PATIENCE_MS:
            return  # it is still being written: go on from here the next time
        state.offset = created
        state.seen = [*state.seen, key][-_SEEN:]
        state.session, state.project = session, folder
        blocks = [part for part in _parse_list(parts) if not part.get("synthetic")]
        if message.get("role") in (USER, ASSISTANT):
            at = parse_time(created)
            at_text = at.isoformat() if at else None
            yield from new_turn(message["role"], join_texts(blocks), at_text, state)


def _is_complete(message: dict[str, Any]) -> bool:
    time = message.get("time")
    return bool(message.get("error")) or (isinstance(time, dict) and bool(time.get("completed")))


def _parse_list(data: Any) -> list[dict[str, Any]]:
    try:
        value = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return []
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
