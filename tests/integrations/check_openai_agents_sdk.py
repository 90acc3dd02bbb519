"""The session keeps its history, and what was said is recalled in another session."""

import asyncio

from agents import Agent, Runner, RunConfig, Session, set_default_openai_api
from memwell import Memory
from memwell.integrations.openai_agents import MemwellSession


async def main() -> None:
    set_default_openai_api("chat_completions")
    memory = Memory("data", settings={"recall.min_score": 0.1})
    session = MemwellSession("one", memory)
    assert isinstance(session, Session)
    agent = Agent(name="helper")
    quiet = RunConfig(tracing_disabled=True)
    await Runner.run(agent, "I work at the harbour office.", session=session, run_config=quiet)
    await Runner.run(agent, "Thanks!", session=session, run_config=quiet)
    items = await session.get_items()
    assert [item["role"] for item in items] == ["user", "assistant"] * 2
    assert await session.get_items(limit=1) == items[-1:]
    assert await session.pop_item() == items[-1]
    assert await MemwellSession("one", memory).get_items() == items[:-1]
    assert session.file.stat().st_mode & 0o077 == 0, "only the owner reads it"

    other = MemwellSession("two", memory)
    asked = [{"role": "user", "content": "Which office do I work at?"}]
    block, question = await other.recall_input([], asked)
    assert "harbour office" in block["content"]
    assert block["role"] == "developer"
    assert [question] == asked
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None
    assert memory.search("harbour office", kind="fact").hits, "facts stay"
    await MemwellSession("three", memory, capture=False).add_items(
        [{"role": "user", "content": "I live in Bergen."}]
    )
    assert not [hit for hit in memory.search("Bergen", kind="fact").hits if "Bergen" in hit.text]


asyncio.run(main())
