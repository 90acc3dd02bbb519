"""AutoGen: a memory that adds what is remembered to an agent's context."""

from __future__ import annotations

import asyncio
from typing import Any

from autogen_core import CancellationToken
from autogen_core.memory import (
    Memory as AutoGenMemory,
)
from autogen_core.memory import (
    MemoryContent,
    MemoryMimeType,
    MemoryQueryResult,
    UpdateContextResult,
)
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage

from memwell.integrations.hits import hit_metadata
from memwell.memory import Memory


class MemwellMemory(AutoGenMemory):
    """Recalls notes and facts for the last message of the user, and stores facts."""

    def __init__(self, memory: Memory, *, k: int = 5) -> None:
        self._memory, self._k = memory, k

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add the memories that fit the last message of the user, as a system message."""
        messages = await model_context.get_messages()
        said = [m.content for m in messages if isinstance(m, UserMessage)]
        last = said[-1] if said and isinstance(said[-1], str) else ""
        recalled = await asyncio.to_thread(self._memory.recall, last)
        if recalled.block:
            await model_context.add_message(SystemMessage(content=recalled.block))
        contents = [_to_content(hit.text.strip(), hit_metadata(hit)) for hit in recalled.hits]
        return UpdateContextResult(memories=MemoryQueryResult(results=contents))

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        **_: Any,
    ) -> MemoryQueryResult:
        """Find notes and facts, best first."""
        text = query if isinstance(query, str) else str(query.content)
        found = await asyncio.to_thread(self._memory.search, text, k=self._k)
        contents = [_to_content(hit.text.strip(), hit_metadata(hit)) for hit in found.hits]
        return MemoryQueryResult(results=contents)

    async def add(
        self, content: MemoryContent, cancellation_token: CancellationToken | None = None
    ) -> None:
        """Store a statement as a fact."""
        await asyncio.to_thread(self._memory.remember, str(content.content), source="autogen")

    async def clear(self) -> None:
        """Erase the facts that were added here; others stay."""
        from memwell.store.contract.values import FactFilter

        facts = await asyncio.to_thread(self._memory.facts.find, FactFilter(source="autogen"))
        if facts:
            await asyncio.to_thread(self._memory.forget, *(fact.id for fact in facts))

    async def close(self) -> None:
        """Close the memory's connections."""
        await asyncio.to_thread(self._memory.close)


def _to_content(text: str, metadata: dict[str, Any]) -> MemoryContent:
    return MemoryContent(content=text, mime_type=MemoryMimeType.TEXT, metadata=metadata)
