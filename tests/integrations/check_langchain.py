"""The retriever in a chain, awaited, and for facts alone."""

import asyncio

from langchain_core.runnables import RunnableLambda
from memwell import Memory
from memwell.integrations.langchain import MemwellRetriever

memory = Memory("data")
memory.index("examples/notes/home", embed=False)
memory.remember("The cat is afraid of the vacuum cleaner.")
chain = MemwellRetriever(memory=memory, k=3) | RunnableLambda(len)
assert 1 <= chain.invoke("cat") <= 3
facts = MemwellRetriever(memory=memory, kind="fact")
(found,) = asyncio.run(facts.ainvoke("what is the cat afraid of"))
assert found.metadata["kind"] == "fact"
assert found.metadata["citation"].startswith("fact:")
