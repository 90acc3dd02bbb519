"""Facts of other memories: mem0, and the plugin memory-hybrid of OpenClaw."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw

from memwell.errors import MemwellError
from memwell.model import Problem
from memwell.sources.importers.plan import (
    ImportedFact,
    ImportPlan,
    objects,
    parse_json,
    read_files,
    texts,
)
from memwell.sources.transcripts.turns import parse_time, text_of

MEM0, HYBRID = "mem0", "openclaw-hybrid-memory"
_LONG_AGO = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DECAY = {"durable": "stable", "normal": "stable", "short": "active", "ephemeral": "session"}


# -- mem0 ------------------------------------------------------------------------------------------


def plan_mem0(path: Path) -> ImportPlan:
    """Plan the import of memories as `get_all` of mem0 returns them, or as its export has them."""
    plan = ImportPlan(MEM0)
    for name, data in read_files(path, (".json", ".jsonl")):
        for memory in _memories(parse_json(name, data)):
            fact = _mem0_fact(memory)
            if fact is None:
                plan.problems.append(Problem(name, f"no text in {json.dumps(memory)[:60]}"))
            else:
                plan.facts.append(fact)
    if not plan.facts:
        raise MemwellError(
            f"{path} has no memories of mem0",
            "Save the result of `client.get_all(...)` as JSON, and name that file",
        )
    return plan


def _memories(value: Any) -> Iterable[dict[str, Any]]:
    if isinstance(value, dict):
        for name in ("results", "memories", "data"):
            if isinstance(value.get(name), list):
                return objects(value[name])
        return [value]
    # A file with one page of results in each line.
    return [memory for one in objects(value) for memory in _unwrap(one)]


def _unwrap(one: dict[str, Any]) -> list[dict[str, Any]]:
    return objects(one["results"]) if isinstance(one.get("results"), list) else [one]


def _mem0_fact(memory: dict[str, Any]) -> ImportedFact | None:
    text = (
        text_of(memory.get("memory")) or text_of(memory.get("data")) or text_of(memory.get("text"))
    )
    if not text.strip():
        return None
    created = parse_time(memory.get("created_at")) or _LONG_AGO
    owners = [
        f"{name}:{memory[f'{name}_id']}"
        for name in ("user", "agent", "app", "run")
        if memory.get(f"{name}_id")
    ]
    metadata = memory.get("metadata")
    category = text_of(metadata.get("category")) if isinstance(metadata, dict) else ""
    return ImportedFact(
        key=text_of(memory.get("id")) or text,
        text=text,
        created=created,
        confirmed=parse_time(memory.get("updated_at")),
        category=category or "fact",
        tags=(*texts(memory.get("categories")), *owners),
        expires=parse_time(memory.get("expiration_date")),
    )


# -- openclaw-hybrid-memory ------------------------------------------------------------------------


def plan_hybrid_memory(path: Path) -> ImportPlan:
    """Plan the import of facts.db, or of the folder that has it."""
    places = (path, path / "facts.db", path / "memory" / "facts.db")
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise MemwellError(
            f"There is no facts.db in {path}", "Name it, as in ~/.openclaw/memory/facts.db"
        )
    try:
        database = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        cursor = database.execute("SELECT * FROM facts ORDER BY created_at")
        columns = [column for column, _ in cursor.get_description()] if file else []
        rows: list[Any] = cursor.fetchall()
        database.close()
    except (apsw.Error, apsw.ExecutionCompleteError) as error:
        if isinstance(error, apsw.ExecutionCompleteError):
            columns, rows = [], []
        else:
            raise MemwellError(
                f"{file} is not a database of facts ({error})",
                "Name facts.db, as in ~/.openclaw/memory/facts.db",
            ) from error
    facts = [_hybrid_fact(dict(zip(columns, row, strict=True))) for row in rows]
    return ImportPlan(HYBRID, facts=[fact for fact in facts if fact.text.strip()])


def _hybrid_fact(row: dict[str, Any]) -> ImportedFact:
    decay = text_of(row.get("decay_class"))
    tags = [tag.strip() for tag in text_of(row.get("tags")).split(",")]
    created = parse_time(row.get("source_date")) or parse_time(row.get("created_at")) or _LONG_AGO
    until = parse_time(row.get("valid_until")) or parse_time(row.get("superseded_at"))
    return ImportedFact(
        key=str(row.get("id")),
        text=text_of(row.get("text")),
        created=created,
        confirmed=parse_time(row.get("last_confirmed_at") or None),
        category=text_of(row.get("category")),
        tags=(*filter(None, tags), *filter(None, [text_of(row.get("entity"))])),
        origin=f"{HYBRID}:{row.get('source') or 'conversation'}:{row.get('id')}",
        importance=_number(row.get("importance"), 0.5),
        confidence=_number(row.get("confidence"), 1.0),
        decay_class=_DECAY.get(decay, decay),
        expires=parse_time(row.get("expires_at") or None),
        valid_from=parse_time(row.get("valid_from") or None),
        valid_until=until,
        superseded_by=text_of(row.get("superseded_by")),
    )


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, int | float) else default
