"""A crew recalls and remembers with memwell, without CrewAI's own vector database."""

from crewai import LLM, Agent, Crew, Task
from memwell import FactFilter, Memory
from memwell.integrations.crewai import MemwellMemory

own = Memory("data")
memory = MemwellMemory(own)
record = memory.remember("The harbour office opens at six.", categories=["harbour"], importance=0.9)
assert own.facts.get(record.id).importance == 0.9
assert memory.remember("My key is sk-abcdefghijklmnopqrstuvwxyz123456.") is None
assert (
    len(memory.remember_many(["The crane is red and old.", "The pier is closed in winter."])) == 2
)
assert memory.recall("when does the harbour office open", limit=1)[0].record.id == record.id

llm = LLM(model="openai/gpt-4o", temperature=0)
agent = Agent(role="clerk", goal="answer", backstory="A clerk.", llm=llm)
task = Task(description="When does the harbour office open?", expected_output="a time", agent=agent)
result = Crew(agents=[agent], tasks=[task], memory=memory, tracing=False).kickoff()
assert "harbour office" in result.raw
assert memory.forget(record_ids=[record.id, "unknown"]) == 1
assert record.id not in {fact.id for fact in own.facts.find(FactFilter())}
