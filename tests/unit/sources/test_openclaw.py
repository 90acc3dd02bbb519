"""Sessions in the database of an agent of OpenClaw, by its schema of November 2026."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from memwell import Memory

TURNS = 1000
KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-AA"
SCHEMA = """
    CREATE TABLE IF NOT EXISTS session_windows (
        session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL,
        created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS transcript_events (
        session_id TEXT NOT NULL REFERENCES session_windows ON DELETE CASCADE, seq INTEGER NOT NULL,
        event_json TEXT NOT NULL, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq)
    ) STRICT;
"""


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an agent in an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("OPENCLAW_STATE_DIR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return tmp_path / "user" / ".openclaw" / "agents" / "main"


def text(number: int) -> str:
    return f"turn {number} is about the zebra{number}x"


def event(session: str, number: int) -> dict[str, Any]:
    """The header of a session, then its messages."""
    if not number:
        return {"type": "session", "version": 4, "id": session, "cwd": f"/work/{session}"}
    content = [
        {"type": "thinking", "thinking": "hidden"},
        {"type": "text", "text": text(number)},
    ]
    role = "user" if number % 2 else "assistant"
    at = f"2026-03-02T{12 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
    message = {"role": role, "content": content}
    return {"type": "message", "id": f"{session}-{number}", "timestamp": at, "message": message}


def write_events(agent: Path, session: str, first: int, last: int) -> Path:
    file = agent / "agent" / "openclaw-agent.sqlite"
    file.parent.mkdir(parents=True, exist_ok=True)
    with apsw.Connection(str(file)) as database:
        database.execute(SCHEMA)
        window = "INSERT OR IGNORE INTO session_windows VALUES (?, 'agent:main:main', 1, 1)"
        database.execute(window, (session,))
        database.executemany(
            "INSERT INTO transcript_events VALUES (?, ?, ?, 1)",
            [(session, seq, json.dumps(event(session, seq))) for seq in range(first, last)],
        )
    return file


def write_file(agent: Path, session: str, last: int) -> Path:
    """The same events as an older version writes them."""
    file = agent / "sessions" / f"{session}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(event(session, number)) for number in range(last)]
    file.write_text("\n".join(lines) + "\n")
    return file


def count(memory: Memory, number: int) -> int:
    hits = memory.search(f"kind:transcript zebra{number}x", group="passages").hits
    return sum(text(number) in hit.text for hit in hits)


def test_a_thousand_turns_of_two_sessions_are_read_once(agent: Path) -> None:
    write_events(agent, "one", 0, TURNS + 1)
    write_events(agent, "two", 0, 3)
    with Memory() as memory:
        memory.sources.transcripts.add("openclaw", "/work/one")
        assert memory.sources.sync_transcripts().turns == TURNS
        write_events(agent, "one", TURNS + 1, TURNS + 4)
        assert memory.sources.sync_transcripts().turns == 3
        assert memory.sources.sync_transcripts().turns == 0
        for number in (1, 501, TURNS + 3):
            assert count(memory, number) == 1
        (hit, *_) = memory.search(f"zebra{TURNS}x").hits
        assert (hit.date, hit.title) == ("2026-03-02", "openclaw in one, 2026-03-02")
        assert not memory.search("kind:transcript hidden").hits


def test_a_session_that_became_shorter_is_not_read_twice(agent: Path) -> None:
    file = write_events(agent, "one", 0, 6)
    with Memory() as memory:
        memory.sources.transcripts.add("openclaw")
        assert memory.sources.sync_transcripts().turns == 5
        with apsw.Connection(str(file)) as database:
            database.execute("DELETE FROM transcript_events WHERE seq > 3")
        assert memory.sources.sync_transcripts().turns == 0
        write_events(agent, "one", 4, 5)
        assert memory.sources.sync_transcripts().turns == 1


@pytest.mark.parametrize("keeps_file", [True, False])
def test_a_session_that_moved_to_the_database_is_there_once(agent: Path, keeps_file: bool) -> None:
    file = write_file(agent, "one", 6)
    with Memory() as memory:
        memory.sources.transcripts.add("openclaw")
        assert memory.sources.sync_transcripts().turns == 5
        if not keeps_file:
            file.unlink()
        write_events(agent, "one", 0, 8)
        memory.sources.sync_transcripts()
        assert [count(memory, number) for number in range(1, 8)] == [1] * 7


def test_a_secret_in_the_database_is_in_no_file_of_the_home(agent: Path, home: Path) -> None:
    file = write_events(agent, "one", 0, 3)
    with apsw.Connection(str(file)) as database:
        database.execute(
            "UPDATE transcript_events SET event_json = replace(event_json, 'turn 1', ?)", (KEY,)
        )
    with Memory() as memory:
        memory.sources.transcripts.add("openclaw")
        assert memory.sources.sync_transcripts().turns == 2
        assert memory.search("zebra1x").hits
    files = [one for one in home.rglob("*") if one.is_file()]
    assert files
    assert not [one for one in files if KEY.encode() in one.read_bytes()]


def test_a_damaged_database_is_named(agent: Path) -> None:
    write_file(agent, "two", 3)
    file = write_events(agent, "one", 0, 2)
    file.write_bytes(b"not a database" * 100)
    with Memory() as memory:
        memory.sources.transcripts.add("openclaw")
        report = memory.sources.sync_transcripts()
    (problem,) = report.problems
    assert (report.turns, problem.path) == (2, str(file))
    assert problem.what == "cannot be read: file is not a database"
    assert problem.remedy == "check that openclaw can open it"
