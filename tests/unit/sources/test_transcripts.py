"""Sessions of each tool as notes: found, read from where it was left, without secrets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memwell import Memory
from memwell.errors import MemwellError
from memwell.ingest import watch as watching
from memwell.sources.transcripts import turns
from memwell.sources.transcripts.conversation_notes import to_block
from memwell.sources.transcripts.tools import TOOLS
from tests.support.cli import run
from tests.support.waiting import wait_until

zstd: Any = turns._import_zstandard()
TURNS = 1_000
KEY = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
PROJECT = "/work/boat"


def at(number: int) -> str:
    """Return the time of a turn: one a minute, from noon on."""
    return f"2026-03-02T{12 + number // 60 % 10:02}:{number % 60:02}:00.000Z"


def text(number: int) -> str:
    return f"Turn {number} speaks of zebra{number}x."


def role(number: int) -> str:
    return "assistant" if number % 2 else "user"


def claude_code(number: int) -> list[dict[str, Any]]:
    line = {
        "type": role(number),
        "sessionId": "5c1f0000-aaaa",
        "cwd": PROJECT,
        "timestamp": at(number),
        "version": "2.1.0",
        "message": {"role": role(number), "content": [{"type": "text", "text": text(number)}]},
    }
    result = {**line, "type": "user", "toolUseResult": {"x": 1}}
    result["message"] = {"role": "user", "content": [{"type": "tool_result", "content": "noise"}]}
    return [line, result]


def codex(number: int) -> list[dict[str, Any]]:
    meta = {"id": "0198-codex", "timestamp": at(0), "cwd": PROJECT, "cli_version": "0.149.0"}
    head = [{"timestamp": at(0), "type": "session_meta", "payload": meta}]
    kind = "output_text" if number % 2 else "input_text"
    message = {
        "type": "message",
        "role": role(number),
        "content": [{"type": kind, "text": text(number)}],
    }
    instructions = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "<environment_context>noise"}],
    }
    lines = [{"timestamp": at(number), "type": "response_item", "payload": message}]
    event = {"timestamp": at(number), "type": "event_msg", "payload": {"type": "agent_message"}}
    inserted = {"timestamp": at(0), "type": "response_item", "payload": instructions}
    return [*([] if number else [*head, inserted]), *lines, event]


def openclaw(number: int) -> list[dict[str, Any]]:
    head = [{"type": "session", "version": 3, "id": "oc-1", "timestamp": at(0), "cwd": PROJECT}]
    message = {"role": role(number), "content": [{"type": "text", "text": text(number)}]}
    line = {"type": "message", "id": f"m{number}", "timestamp": at(number), "message": message}
    result = {
        "type": "message",
        "id": f"r{number}",
        "message": {"role": "toolResult", "content": []},
    }
    return [*([] if number else head), line, result]


def gemini_cli(number: int) -> list[dict[str, Any]]:
    head = [{"sessionId": "g-1", "projectHash": "abc", "startTime": at(0), "kind": "main"}]
    kind = "gemini" if number % 2 else "user"
    line = {"id": f"m{number}", "timestamp": at(number), "type": kind, "content": text(number)}
    grown = {**line, "toolCalls": [{"id": "t", "name": "read_file"}]}
    return [*([] if number else head), line, grown, {"$set": {"lastUpdated": at(number)}}]


JSONL: dict[str, tuple[str, Callable[[int], list[dict[str, Any]]]]] = {
    "claude-code": (".claude/projects/-work-boat/5c1f0000-aaaa.jsonl", claude_code),
    "codex": (".codex/sessions/2026/03/02/rollout-2026-03-02T12-00-00-0198.jsonl", codex),
    "openclaw": (".openclaw/agents/main/sessions/oc-1.jsonl", openclaw),
    "gemini-cli": (".gemini/tmp/boat/chats/session-2026-03-02T12-00-g1.jsonl", gemini_cli),
}


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the tools an empty home: no session of this machine is read."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCLAW_STATE_DIR", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return home


def write_turns(home: Path, tool: str, first: int, last: int) -> Path:
    """Append turns to the session file of a tool, as the tool does."""
    if tool == "opencode":
        return write_opencode(home, first, last)
    path, lines = JSONL[tool]
    file = home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if tool == "gemini-cli":
        (file.parent.parent / ".project_root").write_text(PROJECT)
    with file.open("a", encoding="utf-8") as stream:
        for number in range(first, last):
            stream.writelines(f"{json.dumps(line)}\n" for line in lines(number))
    return file


def write_opencode(home: Path, first: int, last: int) -> Path:
    file = home / ".local" / "share" / "opencode" / "opencode.db"
    file.parent.mkdir(parents=True, exist_ok=True)
    with apsw.Connection(str(file)) as database:
        database.execute(
            """
            CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT);
            CREATE TABLE IF NOT EXISTS message (id TEXT PRIMARY KEY, session_id TEXT,
                time_created INTEGER, data TEXT);
            CREATE TABLE IF NOT EXISTS part (id TEXT PRIMARY KEY, message_id TEXT, data TEXT);
            """
        )
        database.execute("INSERT OR IGNORE INTO session VALUES ('ses_1', NULL, ?)", (PROJECT,))
        for number in range(first, last):
            created = 1_772_452_800_000 + number * 10_000
            data = {"role": role(number), "time": {"created": created, "completed": created + 1}}
            message, part = f"msg_{number:05}", f"prt_{number:05}"
            database.execute(
                "INSERT INTO message VALUES (?, 'ses_1', ?, ?)",
                (message, created, json.dumps(data)),
            )
            parts = {
                "a": {"type": "text", "text": text(number)},
                "b": {"type": "tool", "tool": "ls"},
            }
            for key, value in parts.items():
                database.execute(
                    "INSERT INTO part VALUES (?, ?, ?)", (part + key, message, json.dumps(value))
                )
    return file


@pytest.mark.parametrize("tool", TOOLS)
def test_a_thousand_turns_are_read_once_and_found_by_kind(tool: str, user_home: Path) -> None:
    write_turns(user_home, tool, 0, TURNS)
    with Memory() as memory:
        assert memory.sources.sync_transcripts().turns == 0  # nothing is read unasked
        memory.sources.transcripts.add(tool)
        report = memory.sources.sync_transcripts()
        assert (report.turns, report.sessions, report.read) == (TURNS, 1, 1)
        write_turns(user_home, tool, TURNS, TURNS + 3)
        assert memory.sources.sync_transcripts().turns == 3
        assert memory.sources.sync_transcripts().turns == 0
        for number in (0, 501, TURNS + 2):
            (hit,) = memory.search(f"kind:transcript zebra{number}x").hits
            assert hit.kind == "transcript"
            assert hit.heading[-1].endswith(role(number))
            assert {"transcript", tool} <= {*hit.tags}
            assert hit.date == "2026-03-02"
            assert hit.title == f"{tool} in boat, 2026-03-02"
            cited = memory.get(f"{hit.path}#L{hit.start_line}-L{hit.end_line}").text
            assert text(number) in cited
        assert not memory.search("kind:note zebra501x").hits
        assert memory.search("zebra501x").hits
        assert not memory.search("zebra501x", transcripts=False).hits


@pytest.mark.parametrize("tool", JSONL)
def test_what_was_read_is_not_read_again(tool: str, user_home: Path) -> None:
    file = write_turns(user_home, tool, 0, 20)
    with Memory() as memory:
        memory.sources.transcripts.add(tool)
        memory.sources.sync_transcripts()
        old = file.read_bytes()
        file.write_bytes(b" " * (len(old) - 1) + b"\n")  # as long as before, and unreadable
        write_turns(user_home, tool, 20, 21)
        assert memory.sources.sync_transcripts().turns == 1
        (hit,) = memory.search("kind:transcript zebra3x").hits
        assert text(3) in hit.text


@pytest.mark.parametrize("tool", TOOLS)
def test_a_secret_is_in_no_file_of_the_home(tool: str, user_home: Path, home: Path) -> None:
    file = write_turns(user_home, tool, 0, 3)
    if tool == "opencode":
        with apsw.Connection(str(file)) as database:
            database.execute(
                "UPDATE part SET data = ? WHERE id = 'prt_00000a'",
                (json.dumps({"type": "text", "text": f"use {KEY} please, zebra"}),),
            )
    else:
        file.write_text(file.read_text().replace(text(0), f"use {KEY} please, zebra"))
    with Memory() as memory:
        memory.sources.transcripts.add(tool)
        assert memory.sources.sync_transcripts().turns == 3
        assert "[redacted" in memory.search("kind:transcript zebra please").hits[0].text
    for stored in home.rglob("*"):
        assert not stored.is_file() or KEY.encode() not in stored.read_bytes(), stored


def test_only_sessions_of_the_project_are_read(user_home: Path) -> None:
    file = write_turns(user_home, "claude-code", 0, 4)
    other = file.parent.parent / "-work-other" / "b.jsonl"
    other.parent.mkdir()
    other.write_text(file.read_text().replace(PROJECT, "/work/other").replace("zebra", "gnu"))
    with Memory() as memory:
        memory.sources.transcripts.add("claude-code", "/work/other")
        assert memory.sources.sync_transcripts().turns == 4
        assert not memory.search("kind:transcript zebra1x").hits
        memory.sources.transcripts.add("claude-code", "/work")  # those beneath it, too
        assert memory.sources.sync_transcripts().turns == 8
        assert len(memory.search("kind:transcript zebra1x").hits) == 1
        assert len(memory.search("kind:transcript gnu1x").hits) == 1  # written again, not twice
        assert memory.sources.transcripts.remove("claude-code") == 2
        memory.sources.sync_transcripts()
        assert not memory.search("kind:transcript").hits


def test_turns_are_not_written_twice_if_a_process_is_killed(user_home: Path) -> None:
    write_turns(user_home, "claude-code", 0, 4)
    with Memory() as memory:
        transcripts = memory.sources.transcripts
        transcripts.add("claude-code")
        transcripts.sync()
        (note,) = transcripts.folder.rglob("*.md")
        before = note.read_text()
        state = transcripts.folder.with_suffix(".json")
        recorded = state.read_text()
        write_turns(user_home, "claude-code", 4, 6)
        transcripts.sync()
        after = note.read_text()
        state.write_text(recorded)  # killed before the state was written
        transcripts.sync()
        assert note.read_text() == after
        state.unlink()  # the state is lost altogether
        transcripts.add("claude-code")
        transcripts.sync()
        assert note.read_text() == after
    assert after.startswith(before)


def test_two_files_of_one_session_have_notes_of_their_own(user_home: Path) -> None:
    """A tool that resumes or forks a session copies its file, with the lines so far."""
    file = write_turns(user_home, "claude-code", 0, 4)
    fork = file.with_name("fork.jsonl")
    fork.write_bytes(file.read_bytes())
    with Memory() as memory:
        transcripts = memory.sources.transcripts
        transcripts.add("claude-code")
        transcripts.sync()
        write_turns(user_home, "claude-code", 4, 5)
        with fork.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(claude_code(9)[0]) + "\n")
        transcripts.sync()
        original, copy = sorted(transcripts.folder.rglob("*.md"), key=lambda note: len(note.name))
        assert original.read_text().count("\n## ") == copy.read_text().count("\n## ") == 5
        assert text(4) in original.read_text()
        assert text(9) in copy.read_text()
        before = original.read_text()
        moved = user_home / ".claude" / "projects" / "-moved" / file.name
        moved.parent.mkdir()
        file.rename(moved)
        transcripts.sync()
        assert len([*transcripts.folder.rglob("*.md")]) == 2
        assert original.read_text() == before


@pytest.mark.parametrize(
    "files", [3, {"x": 4}, {"FILE": {"tool": "codex", "offset": "far", "notes": []}}]
)
def test_a_damaged_state_loses_nothing(user_home: Path, files: Any) -> None:
    file = write_turns(user_home, "codex", 0, 4)
    with Memory() as memory:
        transcripts = memory.sources.transcripts
        transcripts.add("codex")
        transcripts.sync()
        (note,) = transcripts.folder.rglob("*.md")
        before = note.read_text()
        damaged = json.dumps({"sources": [["codex", ""]], "files": files})
        transcripts.folder.with_suffix(".json").write_text(damaged.replace("FILE", str(file)))
        assert transcripts.sync().turns == 4
        assert note.read_text() == before


def test_a_file_that_cannot_be_read_is_named(user_home: Path) -> None:
    write_turns(user_home, "codex", 0, 4)
    database = user_home / ".local" / "share" / "opencode" / "opencode.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"not a database" * 100)
    with Memory() as memory:
        memory.sources.transcripts.add("opencode")
        memory.sources.transcripts.add("codex")
        report = memory.sources.sync_transcripts()
    assert report.turns == 4
    assert [problem.path for problem in report.problems] == [str(database)]


def test_an_incomplete_line_waits(user_home: Path) -> None:
    file = write_turns(user_home, "claude-code", 0, 2)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    with Memory() as memory:
        memory.sources.transcripts.add("claude-code")
        first = memory.sources.sync_transcripts().turns
        file.write_bytes(whole)
        assert first + memory.sources.sync_transcripts().turns == 2


def test_the_whole_record_of_an_older_gemini_cli_is_read(user_home: Path) -> None:
    messages = [gemini_cli(number)[-3] for number in range(300)]
    file = user_home / ".gemini/tmp/boat/chats/session-1.json"
    file.parent.mkdir(parents=True)
    record = {"sessionId": "g-1", "projectHash": "abc", "messages": messages[:299]}
    file.write_text(json.dumps(record))
    with Memory() as memory:
        memory.sources.transcripts.add("gemini-cli")
        assert memory.sources.sync_transcripts().turns == 299
        file.write_text(json.dumps({**record, "messages": messages}))
        memory.sources.sync_transcripts()
        assert len(memory.search("kind:transcript zebra0x").hits) == 1
        assert len(memory.search("kind:transcript zebra299x").hits) == 1


def test_an_answer_of_opencode_that_is_being_written_waits(user_home: Path) -> None:
    file = write_turns(user_home, "opencode", 0, 2)
    with apsw.Connection(str(file)) as database:
        database.execute(
            """UPDATE message SET data = '{"role": "assistant"}' WHERE id = 'msg_00001'"""
        )
    with Memory() as memory:
        memory.sources.transcripts.add("opencode")
        assert memory.sources.sync_transcripts().turns == 1
        with apsw.Connection(str(file)) as database:
            done = '{"role": "assistant", "time": {"completed": 1}}'
            database.execute("UPDATE message SET data = ? WHERE id = 'msg_00001'", (done,))
        assert memory.sources.sync_transcripts().turns == 1


def test_the_text_of_a_turn_cannot_begin_another() -> None:
    assert to_block("# no\n```\n# code\n```\n---\nrest") == "\\# no\n```\n# code\n```\n\\---\nrest"
    assert to_block("open\n```python\nx") == "open\n```python\nx\n```"


def compress(file: Path) -> Path:
    """Replace a session by its compressed form, as Codex does with old ones."""
    compressed = file.with_name(f"{file.name}.zst")
    compressed.write_bytes(zstd.compress(file.read_bytes()))
    file.unlink()
    return compressed


def test_a_session_that_was_compressed_goes_on_where_it_was_read_to(user_home: Path) -> None:
    file = write_turns(user_home, "codex", 0, 2)
    with Memory() as memory:
        memory.sources.transcripts.add("codex")
        assert memory.sources.sync_transcripts().turns == 2
        write_turns(user_home, "codex", 2, 4)
        compress(file)
        assert [memory.sources.sync_transcripts().turns for _ in range(2)] == [2, 0]
        assert [bool(memory.search(f"zebra{n}x").hits) for n in range(5)] == [*[True] * 4, False]
        (other := file.with_name("rollout-old.jsonl")).write_bytes(b"")
        write_turns(user_home, "codex", 0, 3)
        compress(file.rename(other))
        assert memory.sources.sync_transcripts().turns == 3


def test_a_compressed_session_that_cannot_be_read_is_named(
    user_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = compress(write_turns(user_home, "codex", 0, 4))
    whole = file.read_bytes()
    with Memory() as memory:
        memory.sources.transcripts.add("codex")
        for damaged in (whole[:-20], b"not compressed", whole[:40] + b"\xff" * 9 + whole[49:]):
            file.write_bytes(damaged)
            (problem,) = memory.sources.sync_transcripts().problems
            assert ".jsonl.zst is damaged" in problem.what
        file.write_bytes(whole)
        with monkeypatch.context() as patch:
            patch.setattr(turns, "_import_zstandard", lambda: None)
            (problem,) = memory.sources.sync_transcripts().problems
        assert problem.remedy == "pip install 'memwell[transcripts]'"
        assert memory.sources.sync_transcripts().turns == 4


def test_an_unknown_tool_is_refused(home: Path) -> None:
    with Memory() as memory, pytest.raises(MemwellError, match="Choose one of claude-code, codex"):
        memory.sources.transcripts.add("notepad")


def test_recall_leaves_transcripts_out(user_home: Path) -> None:
    write_turns(user_home, "codex", 0, 4)
    with Memory() as memory:
        memory.sources.transcripts.add("codex")
        memory.sources.sync_transcripts()
        assert not memory.recall("what do we know about zebra3x in the boat").hits


def test_a_tool_that_is_used_later_is_read_by_index(user_home: Path, workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("x")
    with Memory(workspace=workspace) as memory:
        memory.sources.transcripts.add("codex")
        memory.sources.sync_transcripts()
        write_turns(user_home, "codex", 0, 2)
        memory.index()
        assert memory.search("kind:transcript zebra1x").hits


@pytest.mark.process
def test_the_commands(user_home: Path, workspace: Path) -> None:
    write_turns(user_home, "claude-code", 0, 4)
    (workspace / "MEMORY.md").write_text("# Notes\n\nNothing of zebras.\n")
    assert "No tool was added" in run("transcripts", cwd=workspace).stdout
    added = run("transcripts", "add", "claude-code", cwd=workspace)
    assert added.stdout == "4 new turns in 1 of 1 session file\n"
    write_turns(user_home, "claude-code", 4, 5)
    run("index", cwd=workspace)
    found = run("search", "zebra4x", "--kind", "transcript", cwd=workspace)
    assert "12:04 user" in found.stdout
    assert run("transcripts", "sync", cwd=workspace).stdout.startswith("0 new turns in 0 of 1")
    assert run("transcripts", "list", cwd=workspace).stdout == "claude-code  all projects\n"
    removed = run("transcripts", "remove", "claude-code", cwd=workspace)
    assert removed.stdout == "claude-code is no longer read; 1 note deleted\n"
    assert run("search", "zebra4x", "--kind", "transcript", cwd=workspace).returncode == 1
    refused = run("transcripts", "remove", "claude-code", cwd=workspace)
    assert "claude-code was not added" in refused.stderr


def test_a_watcher_reads_what_is_new(
    user_home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "READ_SECONDS", 0.05)
    monkeypatch.setenv("MEMWELL_SYNC_ON_SEARCH", "false")
    (workspace / "MEMORY.md").write_text("x")
    write_turns(user_home, "codex", 0, 2)
    stop = threading.Event()
    with Memory(workspace=workspace) as memory:
        memory.index()
        memory.sources.transcripts.add("codex")
        memory.sources.sync_transcripts()
        watcher = threading.Thread(target=memory.watch, args=(lambda event: None, stop))
        watcher.start()
        try:
            write_turns(user_home, "codex", 2, 3)
            wait_until(lambda: bool(memory.search("kind:transcript zebra2x").hits))
        finally:
            stop.set()
            watcher.join(60)
