"""The memory adds a system message for what the user asked, and erases only its own facts."""

import asyncio

from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage
from memwell import FactFilter, Memory
from memwell.integrations.autogen import MemwellMemory


async def main() -> None:
    own = Memory("data", settings={"recall.min_score": 0.1})
    own.remember("The cat is named Miso.")
    memory = MemwellMemory(own)
    text = "The harbour office opens at six."
    await memory.add(MemoryContent(content=text, mime_type=MemoryMimeType.TEXT))
    context = BufferedChatCompletionContext(buffer_size=9)
    asked = UserMessage(content="When does the harbour office open?", source="user")
    await context.add_message(asked)
    updated = await memory.update_context(context)
    assert updated.memories.results[0].content == text
    messages = await context.get_messages()
    assert isinstance(messages[-1], SystemMessage)
    assert text in messages[-1].content
    await memory.clear()
    assert [fact.text for fact in own.facts.find(FactFilter())] == ["The cat is named Miso."]
    await memory.close()


asyncio.run(main())
