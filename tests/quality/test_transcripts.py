"""Turns of LoCoMo that are read as transcripts are found as well as by the evaluation."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import compress
from math import log2
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from tests.conftest import shared_set

AS_THE_EVALUATION: dict[str, Any] = {"search.decay": "off", "embedding.chain": ("memwell",)}
"""In it nothing ages: a question about 2023 is asked in 2023."""


def rows(file: Path, group: str) -> list[dict[str, str]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["group"] == group]


def write_sessions(folder: Path, corpus: Sequence[dict[str, str]]) -> None:
    """Write the turns of a conversation as sessions of OpenClaw."""
    sessions: dict[str, list[dict[str, str]]] = defaultdict(list)
    for turn in corpus:
        sessions[turn["session"]].append(turn)
    folder.mkdir(parents=True)
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
        (folder / f"{session}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


@pytest.mark.slow
def test_the_turns_of_conversations_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared_set("locomo-turn-a")
    monkeypatch.delenv("OPENCLAW_STATE_DIR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    wanted: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        question, document, _ = line.split("\t")
        wanted[question].add(document)
    recall, ndcg = [], []
    for group in ("conv-26", "conv-30", "conv-41", "conv-42", "conv-43"):
        monkeypatch.setenv("HOME", str(tmp_path / group))
        corpus = rows(folder / "corpus.jsonl", group)
        write_sessions(tmp_path / group / ".openclaw" / "agents" / "main" / "sessions", corpus)
        ids = {turn["text"]: turn["id"] for turn in corpus}
        with Memory(tmp_path / group / "home", settings=AS_THE_EVALUATION) as memory:
            memory.sources.transcripts.add("openclaw")
            assert memory.sources.sync_transcripts().turns == len(corpus)
            memory.fill()
            for query in rows(folder / "queries.jsonl", group):
                if relevant := wanted.get(query["id"]):
                    hits = memory.search(
                        query["text"], k=10, kind="transcript", group="passages", min_score=0.0
                    ).hits
                    bodies = (hit.text.strip().partition("\n\n")[2].strip() for hit in hits)
                    found = [ids.get(body) in relevant for body in bodies]
                    recall.append(sum(found) / len(relevant))
                    best = sum(gain(place) for place in range(min(10, len(relevant))))
                    ndcg.append(sum(map(gain, compress(range(10), found))) / best)
    assert len(recall) == 760
    # The evaluation has .730 and .555.
    assert sum(recall) / len(recall) >= 0.73
    assert sum(ndcg) / len(ndcg) >= 0.555


def gain(place: int) -> float:
    return 1 / log2(place + 2)
