"""Pydantic AI: the memory as a toolset."""

from __future__ import annotations

from typing import Any

from pydantic_ai import FunctionToolset, ModelRetry

from memwell.errors import MemwellError
from memwell.integrations.hits import hit_metadata
from memwell.memory import Memory


def memory_toolset(memory: Memory, *, k: int = 5) -> FunctionToolset[Any]:
    """Return tools that search the memory, remember facts and append notes."""

    def memory_search(query: str) -> list[dict[str, Any]]:
        """Search the user's notes and stored facts; use it before you say that you do not know.

        Args:
            query: a question or a few words; path:FOLDER, tag:NAME and after:2026-01-31 narrow it.

        """
        hits = memory.search(query, k=k).hits
        return [{**hit_metadata(hit), "text": hit.text.strip()} for hit in hits]

    def memory_store(text: str, category: str = "fact") -> str:
        """Store one statement for later conversations: a preference, decision, date, name or rule.

        Args:
            text: one statement, clear without context.
            category: preference, fact, decision, entity, rule, technical or other.

        """
        try:
            stored = memory.remember(text, category=category, source="pydantic-ai")
        except MemwellError as error:
            raise ModelRetry(f"{error.what}. Store another statement, or none.") from error
        return f"{stored.outcome}: fact:{stored.fact.id}"

    def memory_get(citation: str) -> str:
        """Read the lines of a note, by the citation of a hit.

        Args:
            citation: such as notes/a.md#L3-L9.

        """
        try:
            return memory.get(citation).text
        except MemwellError as error:
            raise ModelRetry(f"{error.what}. Use the citation of a hit.") from error

    return FunctionToolset([memory_search, memory_store, memory_get])
