"""The retriever in a query engine, and awaited."""

import asyncio

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from memwell import Memory
from memwell.integrations.llama_index import MemwellRetriever

memory = Memory("data")
memory.index("examples/notes/home", embed=False)
retriever = MemwellRetriever(memory, k=2)
engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
answer = engine.query("what is the name of the cat")
assert answer.source_nodes[0].node.metadata["source"] == "pets.md"
found = asyncio.run(retriever.aretrieve("what is the name of the cat"))
assert found[0].score == answer.source_nodes[0].score
