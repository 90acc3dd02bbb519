"""The component alone: how many documents, and which kind."""

from memwell import Memory
from memwell.integrations.haystack import MemwellRetriever

memory = Memory("data")
memory.index("examples/notes/home", embed=False)
memory.remember("The cat is afraid of storms.")
retriever = MemwellRetriever(home="data", top_k=1)
assert len(retriever.run(query="cat")["documents"]) == 1
assert len(retriever.run(query="cat", top_k=3)["documents"]) == 3
facts = MemwellRetriever.from_dict(
    {**retriever.to_dict(), "init_parameters": {"home": "data", "kind": "fact"}}
)
(fact,) = facts.run(query="what is the cat afraid of")["documents"]
assert fact.content == "The cat is afraid of storms."
assert fact.meta["kind"] == "fact"
