"""The store in a graph, and each of its operations."""

import asyncio

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from memwell import Memory
from memwell.integrations.langgraph import MemwellStore

memory = Memory("data")
store = MemwellStore(memory)
home = ("memories", "anna")


def remember(state: MessagesState, *, store: BaseStore) -> dict:
    store.put(home, "food", {"text": state["messages"][-1].content, "rank": 1})
    return {}


graph = StateGraph(MessagesState).add_node("remember", remember).add_edge(START, "remember")
graph.compile(store=store).invoke({"messages": [("user", "Anna likes ramen with an egg.")]})
item = store.get(home, "food")
assert item.value == {"text": "Anna likes ramen with an egg.", "rank": 1}
assert memory.search("ramen", kind="fact").hits, "the other surfaces find it, too"

store.put(home, "food", {"text": "Anna likes pho.", "rank": 2})
changed = store.get(home, "food")
assert changed.value["text"] == "Anna likes pho."
assert changed.created_at == item.created_at < changed.updated_at
assert (
    store.search(home, query="ramen") == []
    or "pho" in store.search(home, query="ramen")[0].value["text"]
)
store.put(("memories", "ben"), "food", {"text": "Anna likes pho.", "rank": 3})
assert store.get(("memories", "ben"), "food").namespace == ("memories", "ben")
assert [found.namespace for found in store.search(("memories",), query="pho", limit=9)] != []
assert [
    found.value["rank"] for found in store.search(("memories",), filter={"rank": {"$gt": 2}})
] == [3]
assert [found.value["rank"] for found in store.search(home, filter={"rank": 2})] == [2]
assert store.search(("nobody",), query="pho") == []
assert store.list_namespaces(max_depth=1) == [("memories",)]
assert store.list_namespaces(suffix=("ben",)) == [("memories", "ben")]
assert store.get(home, "none") is None
store.delete(home, "food")
assert store.get(home, "food") is None
assert asyncio.run(store.aget(("memories", "ben"), "food")).value["rank"] == 3
