"""CrewAI: a memory for crews and agents that searches and remembers with memwell."""

from __future__ import annotations

import datetime as dt
from typing import Any

from crewai.memory.types import MemoryMatch, MemoryRecord
from crewai.memory.unified_memory import Memory as CrewMemory

from memwell.errors import RefusedError
from memwell.memory import Memory
from memwell.store.contract.values import FactFilter


class MemwellMemory(CrewMemory):
    """CrewAI's memory without its vector database and without a model to embed or rank.

    Notes and facts are recalled; what a crew remembers becomes facts, with the categories as tags.
    """

    def __init__(self, memory: Memory, **more: Any) -> None:
        super().__init__(storage=memory, **more)
        object.__setattr__(self, "_memwell", memory)

    def remember(self, content: str, **details: Any) -> MemoryRecord | None:
        """Remember a statement; None if memwell refuses it, as it does a secret."""
        given = {"importance": details.get("importance") or 0.5}
        tags = [*(details.get("categories") or ())]
        try:
            stored = self._memwell.remember(content, tags=tags, source="crewai", **given)
        except RefusedError:
            return None
        return _to_record(stored.fact.id, stored.fact.text, tags, stored.fact.created_at)

    def remember_many(self, contents: list[str], **details: Any) -> list[MemoryRecord]:
        """Remember statements."""
        records = (self.remember(content, **details) for content in contents)
        return [record for record in records if record]

    def recall(
        self, query: str, scope: str | None = None, *_: Any, limit: int = 10, **__: Any
    ) -> list[MemoryMatch]:
        """Find notes and facts, best first."""
        hits = self._memwell.search(query, k=limit).hits
        return [
            MemoryMatch(
                record=_to_record(hit.path, hit.text.strip(), [*hit.tags], hit.date),
                score=hit.score,
                match_reasons=[hit.kind],
            )
            for hit in hits
        ]

    def forget(self, record_ids: list[str] | None = None, **_: Any) -> int:
        """Erase facts by the ids of their records."""
        known = {fact.id for fact in self._memwell.facts.find(FactFilter())}
        ids = [one for one in record_ids or () if one in known]
        return self._memwell.forget(*ids).count if ids else 0

    def drain_writes(self) -> None:
        """Return at once: nothing is written later."""


def _to_record(name: str, text: str, tags: list[str], date: str | None) -> MemoryRecord:
    at = dt.datetime.fromisoformat(date) if date else dt.datetime.now(dt.UTC)
    return MemoryRecord(id=name, content=text, categories=tags, created_at=at, last_accessed=at)
