"""Turns of LoCoMo that are read as transcripts are found as well as by the evaluation."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from tests.conftest import shared_set

GROUP = "conv-30"


def rows(file: Path) -> list[dict[str, str]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["group"] == GROUP]


@pytest.mark.slow
def test_the_turns_of_a_conversation_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared_set("locomo-turn-a")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("OPENCLAW_STATE_DIR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    sessions: dict[str, list[dict[str, str]]] = defaultdict(list)
    for turn in rows(folder / "corpus.jsonl"):
        sessions[turn["session"]].append(turn)
    place = tmp_path / "user" / ".openclaw" / "agents" / "main" / "sessions"
    place.mkdir(parents=True)
    for session, turns in sessions.items():
        lines: list[dict[str, Any]] = [{"type": "session", "id": f"s{session}", "cwd": "/talk"}]
        lines += [
            {
                "type": "message",
                "timestamp": f"{turn['date']}:00Z",
                "message": {"role": "user", "content": [{"type": "text", "text": turn["text"]}]},
            }
            for turn in turns
        ]
        (place / f"{session}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    texts = {turn["text"]: turn["id"] for turns in sessions.values() for turn in turns}
    wanted: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        question, document, _ = line.split("\t")
        wanted[question].add(document)
    recall = []
    with Memory() as memory:
        memory.sources.transcripts.add("openclaw")
        assert memory.sources.sync_transcripts().turns == sum(map(len, sessions.values()))
        for query in rows(folder / "queries.jsonl"):
            if relevant := wanted.get(query["id"]):
                hits = memory.search(
                    query["text"], k=10, kind="transcript", group="passages", min_score=0.0
                ).hits
                bodies = (hit.text.strip().partition("\n\n")[2].strip() for hit in hits)
                found = {texts[body] for body in bodies if body in texts}
                recall.append(len(found & relevant) / len(relevant))
    # Keyword search of the evaluation has 0.68 over all conversations.
    assert sum(recall) / len(recall) >= 0.68
