"""Exports of other programs go in with their dates, and a second time adds nothing."""

from __future__ import annotations

import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import apsw
import pytest

from memwell import Memory
from memwell.errors import MemwellError
from memwell.sources.importers.sources import IMPORTERS, guess_source
from memwell.store.contract.values import FactFilter
from tests.support.cli import run

KEY = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
HEX = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def zipped(file: Path, files: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file


# -- samples that follow the shape of each export --------------------------------------------------


def chatgpt_conversation() -> dict[str, Any]:
    def node(key: str, parent: str | None, role: str, text: str, at: float) -> dict[str, Any]:
        message = {
            "id": key,
            "author": {"role": role, "name": None, "metadata": {}},
            "create_time": at,
            "content": {"content_type": "text", "parts": [text]},
            "metadata": {"is_visually_hidden_from_conversation": role == "system"},
            "recipient": "all",
        }
        return {"id": key, "message": message, "parent": parent, "children": []}

    noon = 1_772_452_800.0  # 2026-03-02, 12:00 UTC
    return {
        "title": "Tides in March",
        "create_time": noon,
        "update_time": noon + 120,
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["s"]},
            "s": node("s", "root", "system", "hidden", noon),
            "u": node("u", "s", "user", "When is the spring tide?", noon),
            "old": node("old", "u", "assistant", "a rejected answer", noon + 10),
            "a": node("a", "u", "assistant", "On the third of March.", noon + 20),
            "t": node("t", "a", "tool", "noise of a tool", noon + 30),
            "u2": node("u2", "t", "user", f"Use {KEY} for it.", noon + 86_400),
        },
        "current_node": "u2",
        "conversation_id": "68c1-tides",
        "id": "68c1-tides",
    }


def make_chatgpt(folder: Path) -> Path:
    files: dict[str, str | bytes] = {
        "conversations.json": json.dumps([chatgpt_conversation()]),
        "chat.html": "<html></html>",
        "user.json": "{}",
    }
    return zipped(folder / "export.zip", files)


def make_claude(folder: Path) -> Path:
    message = {
        "uuid": "m1",
        "text": "When is the neap tide?",
        "content": [{"type": "text", "text": "When is the neap tide?"}],
        "sender": "human",
        "created_at": "2026-03-02T12:00:00.000000Z",
        "attachments": [{"file_name": "a.txt", "extracted_content": "A table of ebbs."}],
        "files": [],
    }
    answer = {**message, "uuid": "m2", "sender": "assistant", "attachments": []}
    answer |= {"text": "On the tenth.", "content": [{"type": "text", "text": "On the tenth."}]}
    conversation = {
        "uuid": "c-1",
        "name": "Neap tides",
        "created_at": "2026-03-02T12:00:00.000000Z",
        "chat_messages": [message, answer],
    }
    project = {
        "uuid": "p-1",
        "name": "Harbour",
        "description": "About the harbour.",
        "prompt_template": "Answer briefly.",
        "created_at": "2026-01-05T08:00:00.000000+00:00",
        "docs": [{"uuid": "d", "filename": "moorings.md", "content": "Twelve moorings."}],
    }
    memory = {"conversations_memory": "Prefers metric units.", "project_memories": {"p": "Blue."}}
    files: dict[str, str | bytes] = {
        "conversations.json": json.dumps([conversation]),
        "projects.json": json.dumps([project]),
        "memories.json": json.dumps([memory]),
        "users.json": "[]",
    }
    return zipped(folder / "data.zip", files)


MEM0 = {
    "results": [
        {
            "id": "8b0e-1",
            "memory": "Prefers the night ferry to the day ferry",
            "user_id": "ann",
            "hash": "x",
            "metadata": {"category": "preference"},
            "categories": ["travel"],
            "created_at": "2025-06-01T10:00:00.123456-07:00",
            "updated_at": "2025-07-01T10:00:00-07:00",
        },
        {"id": "8b0e-2", "memory": "Moors at pier nine in winter", "created_at": "2025-08-01"},
        {"id": "8b0e-3", "memory": f"The token is {KEY}", "created_at": "2025-08-01"},
        {"id": "8b0e-4", "memory": "moors at pier nine in winter!", "created_at": "2025-08-02"},
        {"id": "8b0e-5", "memory": ""},
    ]
}


def make_hybrid(folder: Path) -> Path:
    file = folder / "memory" / "facts.db"
    file.parent.mkdir(parents=True, exist_ok=True)
    with apsw.Connection(str(file)) as database:
        database.execute(
            """
            CREATE TABLE facts (id TEXT PRIMARY KEY, text TEXT NOT NULL, why TEXT,
                category TEXT NOT NULL DEFAULT 'other', importance REAL NOT NULL DEFAULT 0.5,
                entity TEXT, key TEXT, value TEXT, source TEXT NOT NULL DEFAULT 'conversation',
                created_at INTEGER NOT NULL, tags TEXT, decay_class TEXT, expires_at INTEGER,
                last_confirmed_at INTEGER, confidence REAL, superseded_at INTEGER,
                superseded_by TEXT, valid_from INTEGER, valid_until INTEGER)
            """
        )
        columns = "id, text, category, entity, created_at, tags, decay_class, confidence"
        database.execute(
            f"""
            INSERT INTO facts ({columns}, superseded_by, superseded_at) VALUES
                ('f1', 'The cook is called Ann Lee', 'entity', 'Ann', 1748772000, 'crew,food',
                 'durable', 0.9, NULL, NULL),
                ('f0', 'The cook is called Bob Ray', 'entity', NULL, 1740000000, NULL,
                 'permanent', 1.0, 'f1', 1748772000)
            """
        )
    return folder


def make_basic_memory(folder: Path) -> Path:
    folder = folder / "basic-memory"
    folder.mkdir()
    (folder / "coffee.md").write_text(
        "---\ntitle: Coffee\ntype: note\npermalink: coffee\ncreated: 2026-02-01\n---\n# Coffee\n\n"
        "## Observations\n- [preference] Light roasts taste best #beans (own trials)\n"
        "- [method] Pour over takes four minutes\n- [ ] buy filters\n- [x] done\n"
        "- [link](https://example.org)\n\n```\n- [method] in code\n```\n\n"
        "## Relations\n- relates_to [[Tea]]\n"
    )
    return folder


def make_notion(folder: Path) -> Path:
    page = (
        "# Voyage plan\n\nCreated: January 5, 2026 10:00 AM\nTags: boat, plan\nStatus: In progress\n"
        f"\nSee [Crew](Voyage%20plan%20{HEX}/Crew%20{HEX[::-1]}.md).\n"
    )
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr(f"Voyage plan {HEX}.md", page)
        archive.writestr(f"Voyage plan {HEX}/Crew {HEX[::-1]}.md", "# Crew\n\nAnn cooks.\n")
        archive.writestr(f"Ports {HEX}.csv", "Name,Depth\nOslo,9\n")
        archive.writestr(f"Ports {HEX}_all.csv", "Name,Depth\nOslo,9\nBergen,11\n")
    return zipped(folder / "notion.zip", {"ExportBlock-1-Part-1.zip": inner.getvalue()})


def make_vault(folder: Path) -> Path:
    vault = folder / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    (vault / "Harbour.md").write_text("The harbour has twelve moorings.\n")
    return vault


def make_openclaw(folder: Path) -> Path:
    home = folder / ".openclaw"
    (home / "workspace" / "memory").mkdir(parents=True)
    (home / "workspace" / "MEMORY.md").write_text("- The harbour has twelve moorings.\n")
    (home / "workspace" / "memory" / "2026-03-02.md").write_text("Painted the hull.\n")
    return home


# -- conversations ---------------------------------------------------------------------------------


def test_chatgpt(tmp_path: Path, home: Path) -> None:
    export = make_chatgpt(tmp_path)
    with Memory() as memory:
        planned = memory.sources.import_from("chatgpt", export, dry_run=True)
        assert (planned.conversations, planned.turns, planned.notes_added) == (1, 3, 2)
        assert not (home / "agents").exists() or not [*home.rglob("*.md")]
        done = memory.sources.import_from("chatgpt", export)
        assert (done.notes_added, done.notes_unchanged) == (2, 0)
        again = memory.sources.import_from("chatgpt", export)
        assert (again.notes_added, again.notes_changed, again.notes_unchanged) == (0, 0, 2)
        hit, *_ = memory.search("kind:transcript spring tide").hits
        assert (hit.title, hit.date) == ("Tides in March", "2026-03-02")
        assert hit.heading == ("12:00 user",)
        assert not memory.search("rejected").hits
        assert not memory.search("noise").hits
    assert not [
        file for file in home.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()
    ]


def test_claude(tmp_path: Path) -> None:
    export = make_claude(tmp_path)
    with Memory() as memory:
        done = memory.sources.import_from("claude", export)
        assert (done.conversations, done.turns, done.notes_added) == (1, 2, 4)
        assert memory.sources.import_from("claude", export).notes_unchanged == 4
        (hit,) = memory.search("kind:transcript table of ebbs").hits
        assert hit.title == "Neap tides"
        assert memory.search("moorings").hits[0].path.endswith("projects/Harbour/moorings.md")
        assert memory.search("metric units").hits[0].text.startswith("Prefers metric units.")


# -- facts -----------------------------------------------------------------------------------------


def test_mem0(tmp_path: Path) -> None:
    export = tmp_path / "memories.json"
    export.write_text(json.dumps(MEM0))
    with Memory() as memory:
        planned = memory.sources.import_from("mem0", export, dry_run=True)
        assert not memory.facts.find(FactFilter())
        done = memory.sources.import_from("mem0", export)
        assert (done.facts.added, done.duplicates, len(done.facts.refused)) == (2, 1, 1)
        assert planned.facts.added == done.facts.added
        assert "secret" in done.facts.refused[0].reason
        assert [problem.path for problem in done.problems] == ["memories.json"]
        again = memory.sources.import_from("mem0", export)
        assert (again.facts.added, again.facts.updated, again.facts.unchanged) == (0, 0, 2)
        fact = next(one for one in memory.facts.find(FactFilter()) if "ferry" in one.text)
    assert fact.created_at == "2025-06-01T17:00:00.123+00:00"
    assert fact.confirmed_at == "2025-07-01T17:00:00.000+00:00"
    assert (fact.category, fact.source, fact.origin) == ("preference", "mem0", "mem0:8b0e-1")
    assert fact.tags == ("travel", "user:ann")


def test_openclaw_hybrid_memory(tmp_path: Path) -> None:
    folder = make_hybrid(tmp_path)
    with Memory() as memory:
        done = memory.sources.import_from("openclaw-hybrid-memory", folder)
        assert (done.facts.added, done.facts.refused) == (2, [])
        assert memory.sources.import_from("openclaw-hybrid-memory", folder).facts.unchanged == 2
        (now,) = memory.facts.find(FactFilter())
        both = memory.facts.find(FactFilter(superseded=True))
        old = next(one for one in both if one.superseded_by)
    assert (now.text, now.decay_class, now.confidence) == (
        "The cook is called Ann Lee",
        "stable",
        0.9,
    )
    assert now.tags == ("Ann", "crew", "food")
    assert now.created_at.startswith("2025-06-01T10:00")
    assert old.superseded_by == now.id
    assert old.valid_until == "2025-06-01T10:00:00.000+00:00"


def test_basic_memory(tmp_path: Path) -> None:
    folder = make_basic_memory(tmp_path)
    with Memory() as memory:
        done = memory.sources.import_from("basic-memory", folder)
        assert (done.facts.added, done.indexed) == (2, (str(folder),))
        assert memory.sources.import_from("basic-memory", folder).facts.unchanged == 2
        roast = next(one for one in memory.facts.find(FactFilter()) if "roast" in one.text)
        assert roast.text == "Coffee: Light roasts taste best (own trials)"
        assert (roast.category, roast.tags) == ("preference", ("beans",))
        assert (roast.origin, roast.created_at[:10]) == ("coffee.md#L10-L10", "2026-02-01")
        assert memory.search("filters", kind="note").hits


# -- notes -----------------------------------------------------------------------------------------


def test_notion(tmp_path: Path) -> None:
    export = make_notion(tmp_path)
    target = tmp_path / "pages"
    with Memory() as memory:
        done = memory.sources.import_from("notion", export, to=target)
        assert (done.notes_added, done.indexed) == (3, (str(target),))
        assert memory.sources.import_from("notion", export, to=target).notes_unchanged == 3
        assert sorted(file.relative_to(target).as_posix() for file in target.rglob("*.md")) == [
            *("Ports.csv.md", "Voyage plan.md", "Voyage plan/Crew.md"),
        ]
        plan = (target / "Voyage plan.md").read_text()
        assert "[Crew](Voyage%20plan/Crew.md)" in plan
        (hit,) = memory.search("tag:plan see").hits
        assert (hit.date, hit.title) == ("2026-01-05", "Voyage plan")
        assert memory.search("Bergen").hits[0].path == "Ports.csv.md"


@pytest.mark.parametrize(
    ("source", "make"), [("obsidian", make_vault), ("openclaw", make_openclaw)]
)
def test_folders_are_indexed_where_they_are(source: str, make: Any, tmp_path: Path) -> None:
    folder = make(tmp_path)
    with Memory() as memory:
        planned = memory.sources.import_from(source, folder, dry_run=True)
        assert not memory.search("moorings").hits
        done = memory.sources.import_from(source, folder)
        assert planned.indexed == done.indexed
        assert memory.search("moorings").hits
    assert all(Path(one).is_relative_to(folder) for one in done.indexed)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", IMPORTERS)
def test_a_file_of_another_kind_is_refused_with_a_remedy(source: str, tmp_path: Path) -> None:
    for name, data in {
        "a.json": b"[]",
        "b.json": b"{{",
        "c.zip": b"PK\x03\x04 cut",
        "d.bin": b"\0",
    }.items():
        file = tmp_path / name
        file.write_bytes(data)
        with Memory() as memory, pytest.raises(MemwellError) as refused:
            memory.sources.import_from(source, file)
        assert refused.value.remedy


@pytest.mark.parametrize(
    "value",
    [
        [{"mapping": 3}, 4, None],
        [{"mapping": {"a": {"message": {"author": 1, "content": 2}}}, "current_node": "a"}],
        [{"mapping": {"a": {"parent": "a", "message": None}}, "current_node": "a"}],
    ],
)
def test_a_broken_conversation_is_passed_over(value: Any, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([*value, chatgpt_conversation()]))
    with Memory() as memory:
        assert memory.sources.import_from("chatgpt", file).conversations == 1


def test_a_name_in_an_archive_cannot_leave_the_folder(tmp_path: Path) -> None:
    export = zipped(tmp_path / "n.zip", {"../../evil.md": "# Evil\n", "/root.md": "# Root\n"})
    target = tmp_path / "pages" / "inner"
    with Memory() as memory:
        memory.sources.import_from("notion", export, to=target)
    written = [*tmp_path.rglob("*.md")]
    assert written
    assert all(file.is_relative_to(target) for file in written)


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.process
def test_the_command_plans_reports_and_names_other_formats(tmp_path: Path, workspace: Path) -> None:
    export = make_chatgpt(tmp_path)
    planned = run("import", "--from", "chatgpt", str(export), "--dry-run", cwd=workspace)
    assert planned.stdout.startswith(
        "Dry run, nothing is changed:\nconversations: 1 with 3 turns\n"
    )
    done = run("import", "--from", "chatgpt", str(export), cwd=workspace)
    assert "notes: 2 added, 0 changed, 0 unchanged" in done.stdout
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([chatgpt_conversation()]))
    for other in (file, export):
        refused = run("import", str(other), cwd=workspace)
        assert refused.returncode == 1
        hint = f"It looks like an export of chatgpt: memwell import --from chatgpt {other}\n"
        assert refused.stderr.endswith(hint)
    unknown = run("import", "--from", "notepad", str(file), cwd=workspace)
    assert "Choose one of chatgpt, claude, mem0" in unknown.stderr


def test_a_file_is_recognised_by_its_first_bytes(tmp_path: Path) -> None:
    assert guess_source(json.dumps(MEM0).encode()) == "mem0"
    database = make_hybrid(tmp_path) / "memory" / "facts.db"
    assert guess_source(database.read_bytes()) == "openclaw-hybrid-memory"
    assert guess_source(b"hello") == ""
